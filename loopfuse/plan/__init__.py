"""Decisions as data: what fuses, where it runs, where values live, and the checker of it all."""
