"""The gradient of an embedding lookup: rows added back into the table, where two tokens may name the
same row, so a column's additions run in order."""

from __future__ import annotations

import loopfuse
from loopfuse import f32, i32


@loopfuse.kernel
def scatter_add(grad: f32["M", "D"], token: i32["M"], table_grad: f32["V", "D"]):
    M, D = grad.shape
    for d in range(D):
        for m in range(M):
            table_grad[token[m], d] += grad[m, d]
