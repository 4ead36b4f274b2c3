"""Ten element-wise operations, one loop each, as an array library would run them."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def chain(x: f32["N"], scale: f32):
    y = np.empty_like(x)
    scaled = np.empty_like(x)
    rectified = np.empty_like(x)
    raised = np.empty_like(x)
    halved = np.empty_like(x)
    squashed = np.empty_like(x)
    lowered = np.empty_like(x)
    squared = np.empty_like(x)
    added = np.empty_like(x)
    gate = np.empty_like(x)
    for i in range(len(x)):
        scaled[i] = scale * x[i]
    for i in range(len(x)):
        rectified[i] = max(scaled[i], 0.0)
    for i in range(len(x)):
        raised[i] = rectified[i] + 1.0
    for i in range(len(x)):
        halved[i] = raised[i] * 0.5
    for i in range(len(x)):
        squashed[i] = np.tanh(halved[i])
    for i in range(len(x)):
        lowered[i] = squashed[i] - 0.25
    for i in range(len(x)):
        squared[i] = lowered[i] * lowered[i]
    for i in range(len(x)):
        added[i] = squared[i] + x[i]
    for i in range(len(x)):
        gate[i] = 1.0 / (1.0 + np.exp(-added[i]))
    for i in range(len(x)):
        y[i] = gate[i] * x[i]
    return y
