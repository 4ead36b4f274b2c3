"""Products: sums over reduced dimensions of what rows and columns give, in tiles of registers."""
