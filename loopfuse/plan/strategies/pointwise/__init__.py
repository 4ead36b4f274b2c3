"""Loops without neighbours: wide accesses, several in flight."""
