"""Nests whose iterations depend on each other, in another order than the program's: by threads, in vectors, or several at once."""
