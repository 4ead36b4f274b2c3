"""The words that the cases' formulas are written in, for NumPy, PyTorch and JAX.

A formula is called as `formula(words, arrays)`. What the libraries spell alike (operators, slices)
it writes itself; the rest it takes from `words`. `exact` words leave the dtype alone: the arrays
are float64 already, and the result is the yardstick for accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _doubling(words: Any, a: Any, b: Any, axis: int) -> Any:
    """A linear recurrence as array libraries without a scan have it: each step puts twice as many iterations together."""
    length, apart = a.shape[axis], 1
    while apart < length:
        early = tuple(slice(0, length - apart) if k == axis else slice(None) for k in range(a.ndim))
        late = tuple(slice(apart, length) if k == axis else slice(None) for k in range(a.ndim))
        first = tuple(slice(0, apart) if k == axis else slice(None) for k in range(a.ndim))
        b = words.join((b[first], a[late] * b[early] + b[late]), axis)
        a = words.join((a[first], a[late] * a[early]), axis)
        apart *= 2
    return b


def _shifted_sum(words: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A depthwise 3x3 convolution with zero padding as nine shifted products."""
    h, w = x.shape[2:]
    padded = words.pad_zero(x, 1)
    total = bias.reshape(1, -1, 1, 1) + 0.0 * x
    for r in range(3):
        for s in range(3):
            total = total + padded[:, :, r : r + h, s : s + w] * weight[:, r, s].reshape(
                1, -1, 1, 1
            )
    return total


class Numpy:
    """NumPy, in float64: the yardstick where there is no PyTorch."""

    tanh, sqrt, where, round = np.tanh, np.sqrt, np.where, np.round

    @staticmethod
    def wide(x: Any) -> Any:
        return np.asarray(x, np.float64)

    @staticmethod
    def narrow(value: Any, like: Any) -> Any:
        return value

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0.0)

    @staticmethod
    def clip(x: Any, low: float, high: float) -> Any:
        return np.clip(x, low, high)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    @staticmethod
    def gelu(x: Any) -> Any:
        return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x * math.sqrt(0.5)))

    @staticmethod
    def softmax(x: Any, axis: int = 1) -> Any:
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    @staticmethod
    def log_sum(x: Any) -> Any:
        top = x.max(1)
        return top + np.log(np.exp(x - top[:, None]).sum(1))

    @staticmethod
    def pick(x: Any, column: Any) -> Any:
        """An element of each row."""
        return x[np.arange(len(x)), column.astype(np.int64)]

    @staticmethod
    def count(x: Any, bins: int) -> Any:
        return np.bincount(x.astype(np.int64), minlength=bins)

    cumsum, join = staticmethod(np.cumsum), staticmethod(np.concatenate)

    @classmethod
    def recurrence(cls, a: Any, b: Any, axis: int) -> Any:
        return _doubling(cls, a, b, axis)

    @staticmethod
    def pad_edge(x: Any, rows: int, columns: int) -> Any:
        return np.pad(x, ((rows, rows), (columns, columns)), mode="edge")

    @staticmethod
    def pad_zero(x: Any, by: int) -> Any:
        return np.pad(x, ((0, 0), (0, 0), (by, by), (by, by)))

    @classmethod
    def depthwise(cls, x: Any, weight: Any, bias: Any) -> Any:
        return _shifted_sum(cls, x, weight, bias)

    @staticmethod
    def put(x: Any, where: Any, value: Any) -> Any:
        """A copy of `x` with `value` at `where`."""
        result = x.copy()
        result[where] = value
        return result

    @staticmethod
    def repeat(times: int, step: Callable[[Any], Any], state: Any) -> Any:
        """`step` applied to `state` that many times."""
        for _ in range(times):
            state = step(state)
        return state


def torch_words(exact: bool) -> Any:
    """PyTorch's words."""
    import torch
    from torch.nn import functional

    class Torch:
        tanh, sqrt, sigmoid, relu = torch.tanh, torch.sqrt, torch.sigmoid, torch.relu
        clip, round = torch.clamp, torch.round
        gelu = staticmethod(functional.gelu)

        @staticmethod
        def where(choice: Any, a: Any, b: Any) -> Any:
            return torch.where(choice, a, b)

        @staticmethod
        def wide(x: Any) -> Any:
            return x if exact else x.float()

        @staticmethod
        def narrow(value: Any, like: Any) -> Any:
            return value if exact else value.to(like.dtype)

        @staticmethod
        def softmax(x: Any, axis: int = 1) -> Any:
            return torch.softmax(x, axis)

        @staticmethod
        def log_sum(x: Any) -> Any:
            return torch.logsumexp(x, 1)

        @staticmethod
        def pick(x: Any, column: Any) -> Any:
            return x.gather(1, column.long()[:, None])[:, 0]

        @staticmethod
        def count(x: Any, bins: int) -> Any:
            return torch.bincount(x.int(), minlength=bins)

        cumsum, join = staticmethod(torch.cumsum), staticmethod(torch.cat)

        @classmethod
        def recurrence(cls, a: Any, b: Any, axis: int) -> Any:
            return _doubling(cls, a, b, axis)

        @staticmethod
        def pad_edge(x: Any, rows: int, columns: int) -> Any:
            # Its own replicate padding is slow and is not fused: this is the faster way.
            if columns:
                ends = (x[:, :1].expand(-1, columns), x[:, -1:].expand(-1, columns))
                x = torch.cat((ends[0], x, ends[1]), 1)
            if rows:
                ends = (x[:1].expand(rows, -1), x[-1:].expand(rows, -1))
                x = torch.cat((ends[0], x, ends[1]), 0)
            return x

        @staticmethod
        def pad_zero(x: Any, by: int) -> Any:
            return functional.pad(x, (by, by, by, by))

        @classmethod
        def depthwise(cls, x: Any, weight: Any, bias: Any) -> Any:
            if exact:
                return _shifted_sum(cls, x, weight, bias)
            return functional.conv2d(x, weight[:, None], bias, padding=1, groups=x.shape[1])

        @staticmethod
        def put(x: Any, where: Any, value: Any) -> Any:
            result = x.clone()
            result[where] = value
            return result

        repeat = staticmethod(Numpy.repeat)

    return Torch


def jax_words() -> Any:
    """JAX's words; time steps are a `fori_loop`, as its users write them."""
    import jax
    import jax.numpy as jnp

    class Jax:
        relu, sigmoid = staticmethod(jax.nn.relu), staticmethod(jax.nn.sigmoid)
        tanh, sqrt, clip = staticmethod(jnp.tanh), staticmethod(jnp.sqrt), staticmethod(jnp.clip)
        where, round = staticmethod(jnp.where), staticmethod(jnp.round)

        @staticmethod
        def wide(x: Any) -> Any:
            return x.astype(jnp.float32)

        @staticmethod
        def narrow(value: Any, like: Any) -> Any:
            return value.astype(like.dtype)

        @staticmethod
        def gelu(x: Any) -> Any:
            return jax.nn.gelu(x, approximate=False)

        @staticmethod
        def softmax(x: Any, axis: int = 1) -> Any:
            return jax.nn.softmax(x, axis)

        @staticmethod
        def log_sum(x: Any) -> Any:
            return jax.nn.logsumexp(x, 1)

        @staticmethod
        def pick(x: Any, column: Any) -> Any:
            return jnp.take_along_axis(x, column[:, None], 1)[:, 0]

        @staticmethod
        def count(x: Any, bins: int) -> Any:
            return jnp.bincount(x, length=bins)

        cumsum, join = staticmethod(jnp.cumsum), staticmethod(jnp.concatenate)

        @staticmethod
        def recurrence(a: Any, b: Any, axis: int) -> Any:
            def then(first: Any, second: Any) -> Any:
                return first[0] * second[0], second[0] * first[1] + second[1]

            return jax.lax.associative_scan(then, (a, b), axis=axis)[1]

        @staticmethod
        def pad_edge(x: Any, rows: int, columns: int) -> Any:
            return jnp.pad(x, ((rows, rows), (columns, columns)), mode="edge")

        @staticmethod
        def depthwise(x: Any, weight: Any, bias: Any) -> Any:
            filtered = jax.lax.conv_general_dilated(
                x, weight[:, None], (1, 1), ((1, 1), (1, 1)),
                dimension_numbers=("NCHW", "OIHW", "NCHW"), feature_group_count=x.shape[1],
                precision="highest",
            )  # fmt: skip
            return filtered + bias.reshape(1, -1, 1, 1)

        @staticmethod
        def put(x: Any, where: Any, value: Any) -> Any:
            return x.at[where].set(value)

        @staticmethod
        def repeat(times: int, step: Callable[[Any], Any], state: Any) -> Any:
            return jax.lax.fori_loop(0, times, lambda _, held: step(held), state)

    return Jax
