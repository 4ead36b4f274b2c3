"""Which loops become one kernel: legality, price, choice, and why not."""
