"""What runs a compiled kernel: arrays in, launches out. Knows manifests, nothing of the compiler."""
