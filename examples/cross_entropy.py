"""Cross entropy of each row of logits against a target distribution."""

from __future__ import annotations

import math

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def cross_entropy(logits: f32["B", "V"], target: f32["B", "V"]):
    B, V = logits.shape
    loss = np.empty(B, np.float32)
    for b in range(B):
        m = np.float32(-math.inf)
        for v in range(V):
            m = max(m, logits[b, v])
        s = np.float32(0.0)
        for v in range(V):
            s += np.exp(logits[b, v] - m)
        picked = np.float32(0.0)
        for v in range(V):
            picked += target[b, v] * (logits[b, v] - m)
        loss[b] = np.log(s) - picked
    return loss
