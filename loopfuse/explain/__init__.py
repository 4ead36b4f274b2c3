"""Reports and dependences, as text and as HTML."""
