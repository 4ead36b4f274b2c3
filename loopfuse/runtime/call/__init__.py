"""Call paths: what a call does, learnt once for each kind of arguments."""
