"""Mathematical functions of our own: the same bits in scalar and vector code, on CPU and GPU."""
