"""erf for f64, and rsqrt."""

from __future__ import annotations

from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.exp import emit_exp
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.tables import ERF, ERFC, ERFC_START

_MOST = 6.0


def emit_erf(ops: Ops, x: Value) -> Value:
    """The error function: x + x P(x^2) near 0, else 1 - exp(G(|x|)) with G a polynomial for
    log(erfc), which is smooth (the idea is N. Juffa's). Past `_MOST` the result rounds to 1."""
    bits = ops.bits
    t = ops.abs(x)
    near = ops.fma(x, ops.horner(ops.mul(x, x), ERF[bits]), x)
    most = ops.f(_MOST)
    held = ops.select(ops.less(most, t), most, t)
    g = ops.horner(ops.sub(held, ops.f(ERFC_START)), ERFC[bits])
    far = ops.copysign(ops.sub(ops.f(1.0), emit_exp(ops, g)), x)
    return ops.select(ops.less(ops.f(ERFC_START), t), far, near)


def emit_rsqrt(ops: Ops, x: Value) -> Value:
    """1 / sqrt(x): both correctly rounded, together at most 1.5 ulp."""
    return ops.div(ops.f(1.0), ops.sqrt(x))
