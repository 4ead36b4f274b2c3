"""Where kernels run: the CPU threads, and GPUs through cuda-python."""
