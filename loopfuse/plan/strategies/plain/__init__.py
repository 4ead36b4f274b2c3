"""The program as it is written, for one thread: what is left where nothing can be proved."""
