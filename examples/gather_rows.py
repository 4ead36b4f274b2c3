"""Embedding lookup: rows of a table picked by index."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32, i32


@loopfuse.kernel
def gather_rows(table: f32["V", "D"], token: i32["M"]):
    D = table.shape[1]
    M = len(token)
    rows = np.empty((M, D), np.float32)
    for m in range(M):
        for d in range(D):
            rows[m, d] = table[token[m], d]
    return rows
