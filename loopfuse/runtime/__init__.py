"""What runs kernels: arrays, the CUDA driver, CPU threads, the cache."""
