"""What a user holds: kernels of `.lf` programs and of Python functions, bound, compiled, cached and called."""
