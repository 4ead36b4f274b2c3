"""Parallel loops over the grid or the threads, the rest in order: takes everything."""
