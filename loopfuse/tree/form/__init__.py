"""Is a LoopTree well formed?"""
