"""What is compiled, for use without loopfuse: C launchers, and operators for PyTorch."""
