"""Exact integer facts about a kernel: domains, accesses, dependences, footprints."""
