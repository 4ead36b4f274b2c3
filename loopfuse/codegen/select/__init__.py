"""Pure rules for what code does a piece of work: divisions, saturation, the order of blocks."""
