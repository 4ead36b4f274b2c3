"""Arrays of every library: read, checked, allocated."""
