"""LoopTree, the mapped-loop IR: its nodes, walk, printer and price."""
