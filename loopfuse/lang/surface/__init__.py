"""Programs as written: the surface syntax tree, its formatter."""
