"""LoopTrees run on NumPy, in the order in which the device would."""
