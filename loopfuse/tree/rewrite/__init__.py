"""From one LoopTree to another that computes the same."""
