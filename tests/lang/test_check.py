"""Surface to core: names, types, FMAs, reductions, unrolling, swaps, labels; pinned as text."""

from __future__ import annotations

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LimitError, Source
from loopfuse.base.dtypes import DType
from loopfuse.frontend.lf.door import parse
from loopfuse.lang import nodes
from loopfuse.lang.check.check import check, check_with_warnings, heads
from loopfuse.lang.check.typing import MixedHalves, promote
from loopfuse.lang.printer import print_kernel
from loopfuse.lang.semantics import array_dtype


def core(text: str, fp: str = "fast", **constants: int) -> str:
    """The core of the last kernel in `text`, printed."""
    program = check(parse(Source("test.lf", text)), fp=fp, constants=constants)
    return print_kernel(program.kernels[-1])


def body(text: str, fp: str = "fast") -> str:
    """The core's lines after the header, with the indentation of the kernel removed."""
    return "\n".join(line[4:] for line in core(text, fp).splitlines()[1:])


def right(value: str, fp: str = "fast", kind: str = "f32") -> str:
    """What the core of `value` is, where a b c are loads of `kind`, k of i32, n of i64."""
    text = f"""
func square(x: f32) -> f32:
    return x * x
func named(x: f32) -> f32:
    let y = x * x
    return y + 1.0
const K: f32 = 0.1
kernel test(a: {kind}[N], b: {kind}[N], c: {kind}[N], d: f64[N], k: i32[N], n: i64[N], p: bool[N],
            out y: f64[N], s: f32, m: i32):
    for i in 0..N:
        y[i] = {value}
"""
    last = core(text, fp).splitlines()[-1]
    return last.split(" = ", 1)[1]


# ------------------------------------------------------------------------------ promotion


@pytest.mark.parametrize("left", DType)
@pytest.mark.parametrize("right_type", DType)
def test_promotion_is_numpys(left: DType, right_type: DType) -> None:
    if {left, right_type} == {DType.BF16, DType.F16}:
        with pytest.raises(MixedHalves):  # of which ml_dtypes says nothing, or f32 (from 0.7 on)
            promote(left, right_type)
        return
    try:
        expected = np.result_type(array_dtype(left), array_dtype(right_type))
    except TypeError:
        # ml_dtypes says nothing of bf16 with an integer of 16 bits and more.
        other = ({left, right_type} - {DType.BF16}).pop()
        assert promote(left, right_type) is (DType.F32 if other.bits == 16 else DType.F64)
        return
    assert promote(left, right_type).numpy_name == expected.name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Weak numbers take the type beside them.
        ("a[i] * 2", "f64(a[i] * 2.0)"),
        ("a[i] * 0.1", "f64(a[i] * 0.1)"),
        ("a[i] / N", "f64(a[i] / f32(N))"),
        ("a[i] * i", "f64(a[i] * f32(i))"),
        ("k[i] * 2", "f64(k[i] * 2)"),
        ("k[i] * i", "f64(k[i] * i32(i))"),
        ("k[i] + 0.5", "f64(k[i]) + 0.5"),
        ("d[i] + 0.1", "d[i] + 0.1"),
        # Arithmetic of weak numbers is done first, literals at compile time.
        ("a[i] * (2 * 3 + 1)", "f64(a[i] * 7.0)"),
        ("a[i] * (1 / 4)", "f64(a[i] * 0.25)"),
        ("a[i] * (i / 4)", "f64(a[i] * f32(f64(i) / 4.0))"),
        ("7 // 2 * a[i]", "f64(3.0 * a[i])"),
        ("-7 % 3 * a[i]", "f64(2.0 * a[i])"),
        ("2 ** 10 * a[i]", "f64(1024.0 * a[i])"),
        ("sqrt(2.0) * a[i]", "f64(1.4142135 * a[i])"),
        # Typed numbers promote.
        ("a[i] + d[i]", "f64(a[i]) + d[i]"),
        ("a[i] + f32(k[i])", "f64(a[i] + f32(k[i]))"),
        ("k[i] + n[i]", "f64(i64(k[i]) + n[i])"),
        ("k[i] / k[i]", "f64(k[i]) / f64(k[i])"),
        ("k[i] // 2 % 3", "f64(k[i] // 2 % 3)"),
        ("k[i] << 2 | 1", "f64(k[i] << 2 | 1)"),
        ("K + a[i]", "f64(0.1 + a[i])"),
        ("s + a[i]", "f64(s + a[i])"),
        ("m + k[i]", "f64(m + k[i])"),
        # Conversions.
        ("k[i]", "f64(k[i])"),
        ("i", "f64(i)"),
        ("1", "1.0"),
        ("i32(a[i])", "f64(i32(a[i]))"),
        ("i32(2.7)", "2.0"),
        ("i32(-1e30)", "-2147483648.0"),
        ("f32(0.1)", "0.10000000149011612"),
        ("exp(k[i])", "exp(f64(k[i]))"),
        ("floor(k[i])", "f64(k[i])"),
        ("abs(k[i])", "f64(abs(k[i]))"),
        ("min(a[i], 0, b[i])", "f64(min(min(a[i], 0.0), b[i]))"),
        ("a[i] if p[i] else 0", "f64(a[i] if p[i] else 0.0)"),
        ("a[i] if 0 < i < 5 else b[i]", "f64(a[i] if 0 < i and i < 5 else b[i])"),
        # Powers.
        ("a[i] ** 2", "f64(a[i] * a[i])"),
        ("a[i] ** 3", "f64(a[i] * a[i] * a[i])"),
        ("a[i] ** 4", "f64(a[i] * a[i] * a[i] * a[i])"),
        ("a[i] ** 5", "f64(a[i] ** 5.0)"),
        ("a[i] ** 0.5", "f64(a[i] ** 0.5)"),
        ("a[i] ** -1", "f64(a[i] ** -1.0)"),
        ("2 ** a[i]", "f64(2.0 ** a[i])"),
        ("k[i] ** 2", "f64(k[i] * k[i])"),
        ("i ** 2", "f64(i * i)"),
        # Edge modes, unary, logic.
        ("a.clamp[i - 2]", "f64(a.clamp[i - 2])"),
        ("-a[i]", "f64(-a[i])"),
        ("+a[i]", "f64(a[i])"),
        ("~k[i]", "f64(~k[i])"),
        ("1.0 if not p[i] else 2.0", "1.0 if not p[i] else 2.0"),
        ("1.0 if p[i] & (k[i] == 1) else 2.0", "1.0 if p[i] & k[i] == 1 else 2.0"),
        ("1.0 if i > 0 and a[i - 1] > 0 else 2.0",
         "1.0 if (a[i - 1] > 0.0 if i > 0 else false) else 2.0"),
        ("1.0 if i == 0 or a[i - 1] > 0 else 2.0",
         "1.0 if (true if i == 0 else a[i - 1] > 0.0) else 2.0"),
        ("1.0 if p[i] and a[i] > 0 else 2.0", "1.0 if p[i] and a[i] > 0.0 else 2.0"),
    ],
)  # fmt: skip
def test_types_of_expressions(value: str, expected: str) -> None:
    got = right(value)
    if "&" in expected:  # on bools the core has one `and`
        expected = expected.replace("p[i] & k[i] == 1", "p[i] and k[i] == 1")
    assert got == expected


# ------------------------------------------------------------------------------------ FMA


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a[i] * b[i] + c[i]", "fma(a[i], b[i], c[i])"),
        ("c[i] + a[i] * b[i]", "fma(a[i], b[i], c[i])"),
        ("a[i] * b[i] - c[i]", "fma(a[i], b[i], -c[i])"),
        ("c[i] - a[i] * b[i]", "fma(-a[i], b[i], c[i])"),
        ("a[i] * b[i] + c[i] * d[i]", "fma(a[i], b[i], c[i] * d[i])"),
        ("a[i] * b[i] - c[i] * d[i]", "fma(a[i], b[i], -(c[i] * d[i]))"),
        ("a[i] * b[i] + c[i] * d[i] + 1.0", "fma(a[i], b[i], c[i] * d[i]) + 1.0"),
        ("a[i] * b[i] * c[i] + d[i]", "fma(a[i] * b[i], c[i], d[i])"),
        ("a[i] ** 2 + b[i]", "fma(a[i], a[i], b[i])"),
        ("-(a[i] * b[i]) + c[i]", "-(a[i] * b[i]) + c[i]"),
        ("0.5 * (a[i] * b[i] + c[i])", "0.5 * fma(a[i], b[i], c[i])"),
        ("a[i] / b[i] + c[i]", "a[i] / b[i] + c[i]"),
        ("1.0 - a[i] * 0.1", "fma(-a[i], 0.1, 1.0)"),
        ("1.0 - 0.1 * a[i]", "fma(-0.1, a[i], 1.0)"),
        # A cast ends it, and so do integers.
        ("f32(a[i] * b[i]) + c[i]", "f64(f32(a[i] * b[i])) + c[i]"),
        ("k[i] * k[i] + k[i]", "f64(k[i] * k[i] + k[i])"),
    ],
)
def test_fma_forming_in_f64(value: str, expected: str) -> None:
    assert right(value, kind="f64") == expected
    strict = right(value, "strict", kind="f64")
    assert "fma" not in strict


def test_fma_after_inlining_and_not_through_let() -> None:
    assert right("square(a[i]) + b[i]") == "f64(fma(a[i], a[i], b[i]))"
    text = """
func named(x: f32) -> f32:
    let y = x * x
    return y + 1.0
kernel test(a: f32[N], out y: f32[N]):
    for i in 0..N:
        let p = a[i] * a[i]
        y[i] = named(a[i]) + p
"""
    assert body(text) == (
        "L1 for i in 0..N:\n"
        "    S1 let p: f32 = a[i] * a[i]\n"
        "    S2 let y.1: f32 = a[i] * a[i]\n"
        "    S3 y[i] = y.1 + 1.0 + p"
    )


def test_func_rounds_arguments_and_result() -> None:
    text = """
func half(x: f32) -> f64:
    return x * 0.5
kernel test(a: f64[N], out y: f64[N]):
    for i in 0..N:
        y[i] = half(a[i]) + half(2)
"""
    assert body(text).splitlines()[-1].strip() == (
        "S1 y[i] = f64(f32(a[i]) * 0.5) + f64(2.0 * 0.5)"
    )


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("y[i] += a[i] * b[i]", "y[i] = fma(a[i], b[i], y[i])  [sum]"),
        ("y[i] += a[i]", "y[i] = y[i] + a[i]  [sum]"),
        ("y[i] -= a[i]", "y[i] = y[i] + -a[i]  [sum]"),
        ("y[i] -= a[i] * b[i]", "y[i] = fma(-a[i], b[i], y[i])  [sum]"),
        ("y[i] -= 1", "y[i] = y[i] + -1.0  [sum]"),
        ("y[i] *= a[i]", "y[i] = y[i] * a[i]  [prod]"),
        ("y[i] /= a[i]", "y[i] = y[i] / a[i]"),
        ("y[i] min= a[i]", "y[i] = min(y[i], a[i])  [min]"),
        ("y[i] max= 0", "y[i] = max(y[i], 0.0)  [max]"),
        ("y[i] = y[i] + a[i] * b[i]", "y[i] = fma(a[i], b[i], y[i])  [sum]"),
        ("y[i] = a[i] * b[i] + y[i]", "y[i] = fma(a[i], b[i], y[i])  [sum]"),
        ("y[i] = y[i] + a[i]", "y[i] = y[i] + a[i]  [sum]"),
        ("y[i] = y[i] - a[i]", "y[i] = y[i] + -a[i]  [sum]"),
        ("y[i] = y[i] - y[i+1]", "y[i] = y[i] + -y[i + 1]  [sum]"),
        ("y[i] = y[i] * a[i]", "y[i] = y[i] * a[i]  [prod]"),
        ("y[i] = max(y[i], a[i])", "y[i] = max(y[i], a[i])  [max]"),
        ("y[i] = min(a[i], y[i])", "y[i] = min(y[i], a[i])  [min]"),
        ("y[i] = max(y[i], y[i+1])", "y[i] = max(y[i], y[i + 1])  [max]"),
        ("z[i] = z[i] & 3", "z[i] = z[i] & 3  [and]"),
        ("z[i] |= 3", "z[i] = z[i] | 3  [or]"),
        ("z[i] &= 3", "z[i] = z[i] & 3  [and]"),
        ("z[i] ^= 3", "z[i] = z[i] ^ 3  [xor]"),
        # Not a reduction: the element is rounded, or read again on the right.
        ("y[i] += d[i]", "y[i] = f32(f64(y[i]) + d[i])"),
        ("y[i] += y[0]", "y[i] = y[i] + y[0]  [sum]"),
        ("y[i] = a[i] + y[i]", "y[i] = a[i] + y[i]"),
    ],
)
def test_augmented_assignments(statement: str, expected: str) -> None:
    text = f"""
kernel test(a: f32[N], b: f32[N], d: f64[N], inout y: f32[N], inout z: i32[N]):
    for i in 0..N:
        {statement}
"""
    assert body(text).splitlines()[-1].strip() == f"S1 {expected}"


# ------------------------------------------------------------------------------- reductions


def test_a_reduction_is_hoisted_and_named_after_its_target() -> None:
    text = """
kernel test(x: f32[R, C], out y: f32[R]):
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        y[r] = sum(c in 0..C: x[r, c] * x[r, c]) / sum(c in 0..C: exp(x[r, c] - m))
"""
    assert body(text) == (
        "L1 for r in 0..R:\n"
        "    S1 max m: f32 over c in 0..C:\n"
        "        m = max(m, x[r, c])\n"
        "    S2 sum y.sum: f32 over c.1 in 0..C:\n"
        "        y.sum = fma(x[r, c.1], x[r, c.1], y.sum)\n"
        "    S3 sum y.sum2: f32 over c.2 in 0..C:\n"
        "        y.sum2 = y.sum2 + exp(x[r, c.2] - m)\n"
        "    S4 y[r] = y.sum / y.sum2"
    )


def test_nested_reductions_and_accumulator_types() -> None:
    text = """
kernel test(x: i32[R, C], out y: i64[1], out z: bool[1]):
    y[0] = sum(r in 0..R: max(c in 0..C step 2: x[r, c]))
    z[0] = any(r in 0..R, c in 0..C: x[r, c] == 3)
    y[0] += sum(r in 0..R: x[r, 0] > 1)
"""
    assert body(text) == (
        "S1 sum y.sum: i64 over r in 0..R:\n"
        "    S2 max y.max: i32 over c in 0..C step 2:\n"
        "        y.max = max(y.max, x[r, c])\n"
        "    y.sum = y.sum + i64(y.max)\n"
        "S3 y[0] = y.sum\n"
        "S4 any z.any: bool over r.1 in 0..R, c.1 in 0..C:\n"
        "    z.any = z.any or x[r.1, c.1] == 3\n"
        "S5 z[0] = z.any\n"
        "S6 sum y.sum2: i64 over r.2 in 0..R:\n"
        "    y.sum2 = y.sum2 + i64(x[r.2, 0] > 1)\n"
        "S7 y[0] = y[0] + y.sum2  [sum]"
    )


def test_a_reduction_in_an_arm_runs_only_where_it_is_chosen() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = sum(k in 0..3: x[i + k - 3]) if i >= 3 else 0.0
"""
    assert body(text) == (
        "L1 for i in 0..N:\n"
        "    S1 var y.if: f32 = 0.0\n"
        "    if i >= 3:\n"
        "        S2 sum y.sum: f32 over k in 0..3:\n"
        "            y.sum = y.sum + x[i + k - 3]\n"
        "        S3 y.if = y.sum\n"
        "    S4 y[i] = y.if if i >= 3 else 0.0"
    )


def test_fmas_form_in_an_arm_that_runs_first() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = x[i] * x[i] + sum(k in 0..3: x[k]) if i >= 3 else 0.0
"""
    assert "S3 y.if = fma(x[i], x[i], y.sum)" in body(text)
    assert "S3 y.if = x[i] * x[i] + y.sum" in body(text, "strict")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i < m", "i < i64(m)"),
        ("2 * i + 1 == n - 3", "2 * i + 1 == n - 3"),
        ("i % 2 == 0 and i > 3", "i % 2 == 0 and i > 3"),
        ("i * i < N", "i * i < N"),
        ("k[i] < i", "k[i] < i32(i)"),
        ("not i < 3 or m == 1", "(not i < 3) or i64(m) == 1"),
    ],
)
def test_guards_on_iterators_are_exact(condition: str, expected: str) -> None:
    text = f"""
kernel test(k: i32[N], out y: f32[N], m: i32, n: i64):
    for i in 0..N:
        if {condition}:
            y[i] = 1.0
"""
    assert f"if {expected}:" in body(text).replace("if not i < 3 or", "if (not i < 3) or")


# ------------------------------------------------------------------------- names and labels


def test_labels_and_unique_names() -> None:
    text = """
kernel test(x: f32[H, W], out y: f32[H, W], out s: f32[1]):
    s[0] = 0.0
    fuse:
        for y_ in 0..H, x_ in 0..W:
            y[y_, x_] = x[y_, x_]
    for y_ in 0..H:
        for x_ in 0..W:
            let v = x[y_, x_]
            y[y_, x_] = v
        for x_ in W-1..-1 step -1:
            let v = y[y_, x_]
            y[y_, x_] = v + sum(k in 0..W: x[y_, k])
"""
    program = check(parse(Source("test.lf", text)))
    assert print_kernel(program.kernels[0]).splitlines()[1:] == [
        "    S1 s[0] = 0.0",
        "    fuse:",
        "        L2 for y_ in 0..H:",
        "            L2 for x_ in 0..W:",
        "                S2 y[y_, x_] = x[y_, x_]",
        "    L3 for y_.1 in 0..H:",
        "        L3.1 for x_.1 in 0..W:",
        "            S3 let v: f32 = x[y_.1, x_.1]",
        "            S4 y[y_.1, x_.1] = v",
        "        L3.2 for x_.2 in W - 1..-1 step -1:",
        "            S5 let v.1: f32 = y[y_.1, x_.2]",
        "            S6 sum y.sum: f32 over k in 0..W:",
        "                y.sum = y.sum + x[y_.1, k]",
        "            S7 y[y_.1, x_.2] = v.1 + y.sum",
    ]
    store = program.kernels[0].body[0]
    assert isinstance(store, nodes.Store) and store.loop == "L1"
    loop = program.kernels[0].body[2]
    assert isinstance(loop, nodes.For) and isinstance(loop.body[1], nodes.For)
    reduce = loop.body[1].body[1]
    assert isinstance(reduce, nodes.Reduce) and reduce.loop == "L3.3"


def test_an_affine_let_stands_in_subscripts_and_conditions() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N], off: i32):
    for i in 0..N:
        let j = 2 * i + off
        let h = j // 4
        if h < 5:
            y[i] = x.clamp[h - 1] * h
"""
    assert body(text) == (
        "L1 for i in 0..N:\n"
        "    S1 let j: i32 = i32(2 * i) + off\n"
        "    S2 let h: i32 = j // 4\n"
        "    if (2 * i + i64(off)) // 4 < 5:\n"
        "        S3 y[i] = f32(f64(x.clamp[(2 * i + i64(off)) // 4 - 1]) * f64(h))"
    )


def test_const_parameters_are_replaced() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N], S: const i64):
    for i in S..N-S:
        y[i] = x[i-S] + x[i+S]
"""
    assert "for i in 2..N - 2:" in core(text, S=2)
    assert "x[i - 2] + x[i + 2]" in core(text, S=2)
    assert "for i in S..N - S:" in core(text)


def test_sizes_in_order_and_given_by_name() -> None:
    text = """
kernel test(x: f32[H + 2*R, W], w: f32[2*R + 1, K // 2], out y: f32[H, K], R: i64):
    for h in 0..H, k in 0..K:
        y[h, k] = x[h + R, 0] * w[R, k // 2]
"""
    program = check(parse(Source("test.lf", text)))
    assert program.kernels[0].sizes == ("H", "W", "K")


# ------------------------------------------------------------------------- tables and swaps


def test_loops_over_tables_are_unrolled() -> None:
    text = """
const W: f32[2, 2] = [[0.25, 0.5], [0.75, 1.0]]
const C = [-1, 1]
func tap(k: i64) -> f32:
    return W[k, 0]
kernel test(x: f32[N], out y: f32[N]):
    for i in 1..N-1, k in 0..2:
        y[i] += W[k, 1] * x[i + C[k]]
    for i in 1..N-1:
        for k in 0..2:
            let j = i + C[k]
            if k == 0:
                y[i] = tap(k) * x[j]
            else:
                y[i] += tap(k) * x[j]
        y[i] += sum(k in 0..2: W[k, 1] * x[i + C[k]])
"""
    assert body(text) == (
        "L1 for i in 1..N - 1:\n"
        "    S1 y[i] = fma(0.5, x[i - 1], y[i])  [sum]\n"
        "    S2 y[i] = fma(1.0, x[i + 1], y[i])  [sum]\n"
        "L2 for i.1 in 1..N - 1:\n"
        "    S3 let j: i64 = i.1 + -1\n"
        "    S4 y[i.1] = 0.25 * x[i.1 - 1]\n"
        "    S5 let j.1: i64 = i.1 + 1\n"
        "    S6 y[i.1] = fma(0.75, x[i.1 + 1], y[i.1])  [sum]\n"
        "    S7 y[i.1] = y[i.1] + fma(1.0, x[i.1 + 1], fma(0.5, x[i.1 - 1], 0.0))  [sum]"
    )


def test_reductions_over_tables_that_need_a_variable() -> None:
    text = """
const W: f32[2] = [0.25, 0.5]
kernel test(x: f32[N], out y: f32[N]):
    let p = prod(k in 0..2: W[k] * x[k])
    y[0] = sum(k in 0..2, c in 0..N: W[k] * x[c]) + p
    let t: f64 = max(k in 0..2: W[k])
    y[1] = t
"""
    assert body(text) == (
        "S1 var p: f32 = 1.0\n"
        "S2 p = p * (0.25 * x[0])  [prod]\n"
        "S3 p = p * (0.5 * x[1])  [prod]\n"
        "S4 var y.sum: f32 = 0.0\n"
        "L3 for c in 0..N:\n"
        "    S5 y.sum = fma(0.25, x[c], y.sum)  [sum]\n"
        "L4 for c.1 in 0..N:\n"
        "    S6 y.sum = fma(0.5, x[c.1], y.sum)  [sum]\n"
        "S7 y[0] = y.sum + p\n"
        "S8 let t: f64 = f64(max(max(-inf, 0.25), 0.5))\n"
        "S9 y[1] = f32(t)"
    )


def test_swaps_become_parities() -> None:
    text = """
kernel test(inout a: f32[N], inout b: f32[N], steps: i64):
    for t in 2..steps step 3:
        for i in 0..N:
            b[i] = a[i]
        swap a, b
        a[0] = 1.0
    a[0] = 2.0
    swap b, a
    a[0] = 3.0
"""
    assert body(text) == (
        "L1 for t in 2..steps step 3:\n"
        "    L1.1 for i in 0..N:\n"
        "        S1 b~a((t - 2) // 3 % 2)[i] = a~b((t - 2) // 3 % 2)[i]\n"
        "    S2 a~b(((t - 2) // 3 + 1) % 2)[0] = 1.0\n"
        "S3 a~b(max(0, (steps - 2 + 2) // 3) % 2)[0] = 2.0\n"
        "S4 a~b((max(0, (steps - 2 + 2) // 3) + 1) % 2)[0] = 3.0"
    )


def test_two_swaps_a_pass_leave_names_alone() -> None:
    text = """
kernel test(inout a: f32[N], inout b: f32[N], steps: i64):
    for t in 0..steps:
        swap a, b
        a[0] = 1.0
        swap a, b
        a[1] = 1.0
    a[2] = 1.0
"""
    assert body(text) == (
        "L1 for t in 0..steps:\n    S1 b[0] = 1.0\n    S2 a[1] = 1.0\nS3 a[2] = 1.0"
    )


# ---------------------------------------------------------------------------------- warnings


def test_warnings() -> None:
    text = """
kernel test(x: f32[N], k: i32[N], unused: f32[N], out y: f64[N], out z: f32[N]):
    for i in 0..N:
        let never = x[i]
        y[i] = x[i] * k[i]
"""
    _, warnings = check_with_warnings(parse(Source("test.lf", text)))
    found = {(w.code, w.message) for w in warnings}
    assert found == {
        ("promotes-to-f64", "f32 and i32 are computed in f64"),
        ("never-used", "`unused` is never used"),
        ("never-used", "`never` is never used"),
        ("never-written", "`z` is never written"),
    }
    promotion = next(w for w in warnings if w.code == "promotes-to-f64")
    assert promotion.fix == "write `f32(k[i])` to stay in f32"


def test_long_sums_and_deep_nests() -> None:
    terms = " + ".join("a[i]" for _ in range(900))
    text = f"kernel t(a: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = {terms}\n"
    assert core(text).count("a[i]") == 900
    lines = ["kernel t(a: f32[N], out y: f32[N]):"]
    for depth in range(60):
        lines.append("    " * (depth + 1) + f"for q{depth} in 0..1:")
    lines.append("    " * 61 + "y[0] = a[0]")
    assert "L1.59 for q59 in 0..1:" in core("\n".join(lines) + "\n")


def test_a_const_parameter_may_be_a_step_a_factor_or_a_tables_subscript() -> None:
    text = """
const W: f32[3] = [0.25, 0.5, 1.0]
kernel test(x: f32[N], out y: f32[N], S: const i64):
    for i in 0..N // S step S:
        y[i] = x[i * S] * W[S]
"""
    assert core(text, S=2).splitlines()[1:] == [
        "    L1 for i in 0..N // 2 step 2:",
        "        S1 y[i] = x[i * 2] * 1.0",
    ]
    (head,) = heads(parse(Source("test.lf", text)))
    assert [param.name for param in head.params] == ["x", "y", "S"] and head.sizes == ("N",)
    with pytest.raises(LimitError) as caught:
        core(text)
    assert [d.code for d in caught.value.diagnostics] == ["const-needs-value"]


def test_a_step_that_each_call_gives() -> None:
    """A kernel whose step is a `const` parameter loads without a value, and compiles for each."""
    text = "kernel k(x: f32[N], inout y: f32[N], s: const i64):\n    for i in 0..N step s:\n        y[i] = x[i]\n"
    kernel = loopfuse.loads(text)
    for step in (2, 3):
        y = np.zeros(7, np.float32)
        kernel(np.ones(7, np.float32), y, step)
        assert list(np.flatnonzero(y)) == list(range(0, 7, step))
