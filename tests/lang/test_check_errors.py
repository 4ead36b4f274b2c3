"""Every diagnostic of the checker: its program in docs/errors.d/check.md, its text pinned here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopfuse.base.diagnostics import LimitError, LoopfuseError, Source, UserError, render
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check, check_with_warnings

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "errors.d" / "check.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"^### (\S+)\n.*?^```lf\n(.*?)^```$", DOCUMENT, re.M | re.S))

PINNED = {
    "unknown-name": """
error[unknown-name]: `imag` is not defined
 --> k.lf:3:16
  |
3 |         y[i] = imag[i]
  |                ^^^^
  = fix: did you mean `image`?
""",
    "duplicate-name": """
error[duplicate-name]: `v` is already a `let` here
 --> k.lf:4:13
  |
3 |         let v = x[i]
  |             - first declared here
4 |         let v = v + 1.0
  |             ^
  = fix: choose another name, such as `v2`
""",
    "shadowed-name": """
error[shadowed-name]: `i` is already an iterator here
 --> k.lf:3:13
  |
2 |     for i in 0..N:
  |         --------- first declared here
3 |         for i in 0..N:
  |             ^^^^^^^^^
  = fix: choose another name, such as `i2`
""",
    "array-without-subscript": """
error[array-without-subscript]: `x` is an array: its elements are used one at a time
 --> k.lf:3:22
  |
1 | kernel k(x: f32[N], out y: f32[N]):
  |          --------- declared here
  ...
3 |         y[i] = 2.0 * x
  |                      ^
  = fix: subscript it: `x[i]`
""",
    "not-an-array": """
error[not-an-array]: `s` is a parameter, which has no elements
 --> k.lf:3:16
  |
1 | kernel k(s: f32, out y: f32[N]):
  |          ------ declared here
  ...
3 |         y[i] = s[i]
  |                ^
  = fix: write `s` alone
""",
    "wrong-rank": """
error[wrong-rank]: `x` has 2 dimensions, but 1 subscript is given
 --> k.lf:3:16
  |
3 |         y[i] = x[i]
  |                ^^^^
  = fix: give 2: one for each of its extents
""",
    "unknown-function": """
error[unknown-function]: there is no function `sigmoid`
 --> k.lf:3:16
  |
3 |         y[i] = sigmoid(x[i])
  |                ^^^^^^^^^^^^^
  = fix: write `1.0 / (1.0 + exp(-x[i]))`
""",
    "fma-of-integers": """
error[fma-of-integers]: `fma` is for floats; these operands are integers
 --> k.lf:3:16
  |
3 |         y[i] = fma(x[i], x[i], x[i])
  |                ^^^^^^^^^^^^^^^^^^^^^
  = fix: write `a*b + c`, which is exact for integers
""",
    "not-a-function": """
error[not-a-function]: `x` is not a function
 --> k.lf:3:16
  |
3 |         y[i] = x(i)
  |                ^
  = fix: for an element write `x[...]`, for a product `*`
""",
    "kernel-called": """
error[kernel-called]: `one` is a kernel; only a `func` can be called
 --> k.lf:4:12
  |
4 |     y[0] = one(2.0)
  |            ^^^
  = fix: move what both need into a `func`
""",
    "argument-count": """
error[argument-count]: `lerp` takes 3 arguments, but 2 are given
 --> k.lf:5:16
  |
5 |         y[i] = lerp(x[i], 0.5)
  |                ^^^^^^^^^^^^^^^
  = fix: it is `lerp(a: f32, b: f32, t: f32)`
""",
    "recursive-func": """
error[recursive-func]: `power` calls itself
 --> k.lf:2:16
  |
2 |     return x * power(x)
  |                ^^^^^^^^
  = note: `power` calls `power`
  = fix: write the repetition as a loop in the kernel
""",
    "size-not-determined": """
error[size-not-determined]: the size `N` stands alone in no extent
 --> k.lf:1:10
  |
1 | kernel k(x: f32[2*N], out y: f32[N + 1]):
  |          ^^^^^^^^^^^ used here
  = fix: give it by name: add the parameter `N: i64`
""",
    "scalar-mode": """
error[scalar-mode]: `total` is a number, which cannot be `out`
 --> k.lf:1:21
  |
1 | kernel k(x: f32[N], out total: f32):
  |                     ^^^^^^^^^^^^^^
  = fix: make it an array: `out total: f32[1]`
""",
    "const-array": """
error[const-array]: `x` is an array, and only numbers can be `const` parameters
 --> k.lf:1:10
  |
1 | kernel k(x: const f32[N], out y: f32[N]):
  |          ^^^^^^^^^^^^^^^
  = fix: write the table as a `const` of the file, or drop `const`
""",
    "bad-conversion": """
error[bad-conversion]: an f32 does not convert to `y`, which is i32
 --> k.lf:3:16
  |
3 |         y[i] = x[i]
  |                ^^^^ this is f32
  = fix: write the conversion: `i32(x[i])`
""",
    "literal-range": """
error[literal-range]: 3000000000 does not fit i32
 --> k.lf:3:23
  |
3 |         y[i] = x[i] + 3000000000
  |                       ^^^^^^^^^^
  = fix: use a wider type: `i64(...)` on the other operand
""",
    "bool-arithmetic": """
error[bool-arithmetic]: `*` does not take a bool
 --> k.lf:3:23
  |
3 |         y[i] = 2.0 * (x[i] > 0.5)
  |                       ^^^^^^^^^^ this is bool
  = fix: write `i32(x[i] > 0.5)` to count true as 1
""",
    "bitwise-type": """
error[bitwise-type]: `<<` needs integers, but `x[i]` is f32
 --> k.lf:3:21
  |
3 |         y[i] = 1 << x[i]
  |                     ^^^^
  = fix: write `i64(x[i])`
""",
    "not-a-condition": """
error[not-a-condition]: the condition of `if` must be a bool, but `mask[i]` is i32
 --> k.lf:3:12
  |
3 |         if mask[i]:
  |            ^^^^^^^
  = fix: compare it: `mask[i] != 0`
""",
    "type-mismatch": """
error[type-mismatch]: the two results of `if` are an f32 and a bool
 --> k.lf:3:23
  |
3 |         y[i] = 1.0 if (x[i] if x[i] > 0.0 else false) else 2.0
  |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |                        ---- this is f32
  |                                                ----- this is bool
  = fix: make both bools or both numbers
""",
    "index-type": """
error[index-type]: a subscript must be an integer, but `i / 2` is f64
 --> k.lf:3:18
  |
3 |         y[i] = x[i / 2]
  |                  ^^^^^
  = fix: use `//` instead of `/`, or write `i64(i / 2)`
""",
    "division-in-index": """
error[division-in-index]: a subscript may divide only by a positive constant, not by -4
 --> k.lf:3:18
  |
3 |         y[i] = x[i % -4]
  |                  ^^^^^^
  = fix: divide by a positive number
""",
    "assign-to-in": """
error[assign-to-in]: `x` is an `in` array, which the kernel only reads
 --> k.lf:3:9
  |
1 | kernel k(x: f32[N]):
  |          --------- declared here
  ...
3 |         x[i] = 0.0
  |         ^
  = fix: declare it `inout x`, or write to another array
""",
    "assign-to-let": """
error[assign-to-let]: `total` is a `let`, which keeps its value
 --> k.lf:4:9
  |
2 |     let total = 0.0
  |         ----- declared here
  ...
4 |         total += x[i]
  |         ^^^^^
  = fix: declare it as a variable: `var total: f64 = ...`
""",
    "assign-to-iterator": """
error[assign-to-iterator]: `i` is an iterator, which cannot be assigned
 --> k.lf:3:9
  |
2 |     for i in 0..N:
  |         --------- declared here
3 |         i = i + 1
  |         ^
  = fix: declare another and use that: `let i2 = ...`
""",
    "assign-to-size": """
error[assign-to-size]: `N` is a size, which cannot be assigned
 --> k.lf:2:5
  |
1 | kernel k(out y: f32[N]):
  |          ------------- declared here
2 |     N = 3
  |     ^
  = fix: declare another and use that: `let N2 = ...`
""",
    "assign-to-parameter": """
error[assign-to-parameter]: `s` is a parameter, which cannot be assigned
 --> k.lf:2:5
  |
1 | kernel k(s: f32, out y: f32[N]):
  |          ------ declared here
2 |     s = 2.0 * s
  |     ^
  = fix: declare another and use that: `let s2 = ...`
""",
    "assign-to-constant": """
error[assign-to-constant]: `K` is a constant, which cannot be assigned
 --> k.lf:3:5
  |
1 | const K = 3
  | ----------- declared here
  ...
3 |     K = 4
  |     ^
  = fix: declare another and use that: `let K2 = ...`
""",
    "mode-on-target": """
error[mode-on-target]: an edge mode is for reading; `y.clamp[...]` is written
 --> k.lf:3:9
  |
3 |         y.clamp[i + 1] = x[i]
  |         ^^^^^^^^^^^^^^
  = fix: write `y[...]`
""",
    "var-needs-type": """
error[var-needs-type]: the variable `total` needs a type
 --> k.lf:2:9
  |
2 |     var total = 0.0
  |         ^^^^^
  = fix: write `var total: f32 = 0.0`
""",
    "step-zero": """
error[step-zero]: a step of 0 never ends
 --> k.lf:2:24
  |
2 |     for i in 0..N step 0:
  |                        ^
  = fix: use a positive step, or a negative one to count down
""",
    "step-not-constant": """
error[step-not-constant]: the step `s` is not a constant
 --> k.lf:2:24
  |
2 |     for i in 0..N step s:
  |                        ^
  = fix: make it a constant that each call gives: `s: const i64`
""",
    "extent-iterator": """
error[extent-iterator]: the extent of an array cannot depend on the iterator `i`
 --> k.lf:3:21
  |
3 |         temp t: f32[i + 1]
  |                     ^^^^^
  = fix: use the largest extent it may have
""",
    "negative-extent": """
error[negative-extent]: an extent cannot be -1
 --> k.lf:2:17
  |
2 |     temp t: f32[-1]
  |                 ^^
  = fix: write the number of elements
""",
    "not-constant": """
error[not-constant]: `2 * exp(1.0)` is not a constant
 --> k.lf:1:11
  |
1 | const K = 2 * exp(1.0)
  |           ^^^^^^^^^^^^
  = fix: use numbers, earlier constants and arithmetic
""",
    "table-shape": """
error[table-shape]: `w` is declared [3], but its values are [2]
 --> k.lf:1:1
  |
1 | const w: f32[3] = [0.25, 0.5]
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = fix: declare it `[2]`
""",
    "table-range": """
error[table-range]: subscript 3 is outside the table `w`
 --> k.lf:4:19
  |
4 |         y[0] += w[k]
  |                   ^ this dimension has 3 elements
  = fix: keep it in 0..3
""",
    "table-mode": """
error[table-mode]: a constant table takes no edge mode `.clamp`
 --> k.lf:3:12
  |
3 |     y[0] = w.clamp[3]
  |            ^^^^^^^^^^
  = fix: write `w[...]`, with subscripts inside the table
""",
    "swap-mismatch": """
error[swap-mismatch]: `a` and `b` cannot be swapped: `a` is an `in` array
 --> k.lf:5:9
  |
1 | kernel k(a: f32[N], inout b: f32[N], steps: i64):
  |          --------- a
  |                     --------------- b
  ...
5 |         swap a, b
  |         ^^^^^^^^^
  = fix: swap two temporaries, or two writable parameters, of one type and shape
""",
    "swap-in-parallel": """
error[swap-in-parallel]: a `parallel for` cannot swap: its passes have no order
 --> k.lf:2:18
  |
2 |     parallel for t in 0..steps:
  |                  ^^^^^^^^^^^^^
  = fix: write `for` without `parallel`
""",
    "assume-data": """
error[assume-data]: an assumption cannot speak of array elements
 --> k.lf:2:12
  |
2 |     assume x[0] > 0.0
  |            ^^^^^^^^^^
  = fix: assume something of sizes, parameters and iterators
""",
    "mixed-halves": """
error[mixed-halves]: f16 and bf16 do not mix: neither holds the other's numbers
 --> k.lf:3:16
  |
3 |         y[i] = x[i] * z[i]
  |                ^^^^^^^^^^^
  = fix: write `f32(z[i])`, or convert one to the other
""",
    "arg-ranges": """
error[arg-ranges]: `argmin` takes one range: its value is one index
 --> k.lf:2:12
  |
2 |     y[0] = argmin(i in 0..H, j in 0..W: x[i, j])
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = fix: nest two: the `argmin` of each row, and then the best of the rows
""",
    "empty-arg-reduction": """
error[empty-arg-reduction]: `argmax` over an empty range has no index
 --> k.lf:2:19
  |
2 |     y[0] = argmax(i in 3..3: x[i])
  |                   ^^^^^^^^^
  = fix: give it a range with at least one element
""",
    "data-dependent-extent": """
error[data-dependent-extent]: the extent depends on data, and must be known before anything runs
 --> k.lf:2:17
  |
2 |     temp t: f32[count[0]]
  |                 ^^^^^^^^
  = fix: pass it as a size or an integer parameter
""",
    "data-dependent-bound": """
error[data-dependent-bound]: the bounds of this loop must be known before anything runs
 --> k.lf:3:31
  |
3 |         y[i] = argmax(j in 0..count[i]: x[j])
  |                               ^^^^^^^^
  = fix: use bounds made of iterators, sizes and integer parameters
""",
    "not-affine": """
warning[not-affine]: `i*W + j` is not affine, so this subscript is treated as data
 --> k.lf:3:21
  |
3 |         y[i, j] = x[i*W + j]
  |                     ^^^^^^^ checked when it runs; what it touches is not known before
  = fix: give `x` a dimension more: `x[i, j]` instead of `x[i*N + j]`
""",
    "table-subscript": """
error[table-subscript]: `s` is not constant, and `w` is a table
 --> k.lf:3:14
  |
3 |     y[0] = w[s]
  |              ^
  = note: a loop of constant bounds whose iterator subscripts a table is unrolled
  = fix: write `w[s % 3]`, which stays inside, or pass the table as an array
""",
    "unroll-bounds": """
error[unroll-bounds]: `k` subscripts a constant table, but its bounds are not constant
 --> k.lf:3:9
  |
3 |     for k in 0..n:
  |         ^^^^^^^^^
  = fix: loop over constants, or pass the table as an array
""",
    "unroll-too-large": """
error[unroll-too-large]: unrolling this loop gives more than 1024 copies
 --> k.lf:3:9
  |
3 |     for k in 0..100000:
  |         ^^^^^^^^^^^^^^
  = fix: pass the table as an array
""",
    "rank-too-large": """
error[rank-too-large]: `y` has 65 dimensions, and an array has at most 64
 --> k.lf:7:9
  |
7 |         N
  |         ^
  = fix: leave out dimensions of 1, or make one dimension of several
""",
    "kernel-too-large": """
error[kernel-too-large]: this kernel has more than 5000 statements after unrolling
 --> k.lf:4:9
  |
4 |         y[0] += w[(a + b) // 1000]
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = fix: pass the tables as arrays, so that their loops stay loops
""",
    "index-too-large": """
error[index-too-large]: the number 1099511627776 is too large for a step
 --> k.lf:2:24
  |
2 |     for i in 0..N step 1 << 40:
  |                        ^^^^^^^
  = fix: use steps below 2147483648 (2**31)
""",
    "swap-too-deep": """
error[swap-too-deep]: how often this swaps does not follow from the iterators in an affine way
 --> k.lf:3:12
  |
3 |         if t > 2:
  |            ^^^^^
  = fix: swap directly in the body of one loop, outside any `if`
""",
    "swap-rotation": """
error[swap-rotation]: `b` or `c` is also swapped with another array
 --> k.lf:3:5
  |
3 |     swap b, c
  |     ^^^^^^^^^
  = fix: swap in pairs only, or copy one array
""",
    "integer-power": """
error[integer-power]: an integer can be raised only to a literal power
 --> k.lf:3:16
  |
3 |         y[i] = 2 ** x[i]
  |                ^^^^^^^^^
  = fix: write `f64(2) ** ...`, or multiply
""",
    "const-needs-value": """
error[const-needs-value]: `k` can be compiled only for a given `S`
 --> k.lf:1:36
  |
1 | kernel k(x: f32[N], out y: f32[N], S: const i64):
  |                                    ^^^^^^^^^^^^
  = fix: give it a value: `S=1`, on the command line `--size S=1`
""",
    "func-array-parameter": """
error[func-array-parameter]: the parameter `x` of a `func` cannot be an array yet
 --> k.lf:1:12
  |
1 | func first(x: f32[N]) -> f32:
  |            ^^^^^^^^^
  = fix: pass the elements it needs, as numbers
""",
    "expression-too-large": """
error[expression-too-large]: this expression has more than 50000 operations after inlining
 --> k.lf:4:16
  |
4 |     y[0] = f(f(f(f(f(f(f(f(f(f(f(x[0])))))))))))
  |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = fix: bind the parts that are used several times with `let`
""",
    "promotes-to-f64": """
warning[promotes-to-f64]: f32 and i32 are computed in f64
 --> k.lf:3:16
  |
3 |         y[i] = x[i] * n[i]
  |                ^^^^^^^^^^^ this is f64
  = fix: write `f32(n[i])` to stay in f32
""",
    "never-used": """
warning[never-used]: `v` is never used
 --> k.lf:3:13
  |
3 |         let v = x[i]
  |             ^
  = fix: remove it
""",
    "never-written": """
warning[never-written]: `z` is never written
 --> k.lf:1:36
  |
1 | kernel k(x: f32[N], out y: f32[N], out z: f32[N]):
  |                                    ^^^^^^^^^^^^^
  = fix: declare it without `out` or `inout`
""",
}


def diagnostics(text: str):
    """The errors of a program, or else its warnings."""
    try:
        return check_with_warnings(parse(Source("k.lf", text)))[1]
    except LoopfuseError as error:
        return error.diagnostics


@pytest.mark.parametrize("code", PINNED)
def test_message(code: str) -> None:
    (diagnostic,) = diagnostics(PROGRAMS[code])
    assert diagnostic.code == code
    assert render(diagnostic) == PINNED[code].strip("\n")


def test_every_diagnostic_is_documented_and_pinned() -> None:
    used: set[str] = set()
    for path in (ROOT / "loopfuse" / "lang").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r"(?:fail|limit|warn|Diagnostic)\(\s*\"([a-z0-9-]+)\"", text))
    assert len(used) > 45
    assert used <= set(PINNED)
    assert set(PROGRAMS) == set(PINNED)


def test_several_mistakes_are_told_at_once_and_none_twice() -> None:
    text = """
kernel k(x: f32[N], out y: f32[N]):
    for i in 0..N:
        let v = xx[i]
        y[i] = v + v
        x[i] = 0.0
        y[i] = foo(x[i])
    for j in 0..M:
        y[j] = z[j]
"""
    with pytest.raises(UserError) as caught:
        check(parse(Source("k.lf", text)))
    codes = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert codes == [
        "unknown-name",
        "assign-to-in",
        "unknown-function",
        "unknown-name",
    ]


def test_at_most_twenty() -> None:
    lines = "".join(f"    y[{k}] = a{k}\n" for k in range(40))
    with pytest.raises(UserError) as caught:
        check(parse(Source("k.lf", "kernel k(out y: f32[N]):\n" + lines)))
    assert len(caught.value.diagnostics) == 20


def test_a_limit_is_not_a_user_error() -> None:
    with pytest.raises(LimitError):
        check(parse(Source("k.lf", PROGRAMS["data-dependent-bound"])))


@pytest.mark.parametrize(
    "second",
    [
        "const f = 1\n",
        "func f(x: f32) -> f32: return x\n",
        "kernel f(out y: f32[N]):\n    y[0] = 1\n",
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        "const f = 1\n",
        "func f(x: f32) -> f32: return x\n",
        "kernel f(out y: f32[N]):\n    y[0] = 1\n",
    ],
)
def test_two_items_of_one_name(first: str, second: str) -> None:
    codes = [diagnostic.code for diagnostic in diagnostics(first + second)]
    assert codes == ["duplicate-name"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # Where a wrong line declares something, its uses are not told as well.
        ("for i in 0..N:\n        let v = q[i]\n        y[i] = v * v", "unknown-name"),
        ("for i in 0..M:\n        y[i] = 1.0", "unknown-name"),
        ("temp t: f32[M]\n    for i in 0..N:\n        t[i] = y[i]", "unknown-name"),
        ("for i in 0..N, i in 0..N:\n        y[i] = 1.0", "shadowed-name"),
        ("for N in 0..3:\n        y[N] = 1.0", "shadowed-name"),
        ("let y = 1.0", "duplicate-name"),
        ("for i in 0..N:\n        let v = 1.0\n    y[0] = v", "unknown-name"),
        ("y[0] = sum(i in 0..y[0]: 1.0)", "index-type"),
        ("y[N * N] = 1.0", "not-affine"),
        ("y[0] = y[N // N]", "not-affine"),
        ("y[0] = 1.0 + (not y[0])", "not-a-condition"),
        ("y[0] = -(y[0] > 1.0)", "bool-arithmetic"),
        ("y[0] = max(1.0, true)", "bool-arithmetic"),
        ("y[0] = 1.0 if true < false else 2.0", "bool-arithmetic"),
        ("y[0] = sum(k in 0..N: true and y[k])", "not-a-condition"),
        ("y[0] = f32(1, 2)", "argument-count"),
        ("y[0] = max(1.0)", "argument-count"),
        ("y[0] = exp()", "argument-count"),
        ("y[0] = 99999999999999999999", "literal-range"),
        ("y[0] = 18446744073709551615 + 1", "literal-range"),
        ("let b: i8 = 1\n    y[0] = b + 128", "literal-range"),
        ("let b: u8 = -1", "literal-range"),
        ("let b: u8 = i8(1)", "bad-conversion"),
        ("let b: f16 = bf16(1.0)", "bad-conversion"),
        ("var b: bool = 1\n    y[0] = 1.0 if b else 2.0", "bad-conversion"),
        ("swap y, N", "swap-mismatch"),
        ("swap y, y", "swap-mismatch"),
        ("y = 1.0", "array-without-subscript"),
        ("y[0, 0] = 1.0", "wrong-rank"),
        ("let b = 1.0\n    b[0] = 1.0", "not-an-array"),
        ("assume N", "not-a-condition"),
        ("assume y[0] > 0.0", "assume-data"),
    ],
)
def test_one_code(text: str, code: str) -> None:
    found = [d.code for d in diagnostics(f"kernel k(inout y: f32[N]):\n    {text}\n")]
    assert [each for each in found if not each.startswith("never")] == [code]
