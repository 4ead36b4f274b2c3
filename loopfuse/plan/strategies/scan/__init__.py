"""Running values: sums, products, minima and maxima of all that came before, chunk by chunk."""
