"""Ways to run a group of loops, one file or room each."""
