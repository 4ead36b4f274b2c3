"""Histograms: updates at places that data say, into tables of a block's or a chunk's own where they fit."""
