"""Windows on the CPU: line buffers that stay in a cache."""
