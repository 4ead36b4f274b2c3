"""Every syntax diagnostic, as the user sees it: a program, and the whole text it is answered with.

The rendered texts are part of the interface: change one here on purpose, or not at all.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.frontend.lf.door import keywords, parse

ROOT = Path(__file__).resolve().parents[2]

CASES: tuple[tuple[str, str], ...] = (
    (
        """\
func f(a: f32) -> f32:
    return b
    let c = 1
""",
        """\
error[after-return]: nothing may follow the `return` of a `func`
 --> k.lf:3:5
  |
3 |     let c = 1
  |     ^^^
  = fix: remove it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a = 3:
        b = 1
""",
        """\
error[assignment-in-condition]: `=` assigns; a condition compares with `==`
 --> k.lf:2:10
  |
2 |     if a = 3:
  |          ^
  = fix: write `==`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    assume a = 3
""",
        """\
error[assignment-in-condition]: `=` assigns; a condition compares with `==`
 --> k.lf:2:14
  |
2 |     assume a = 3
  |              ^
  = fix: write `==`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a = 1: b = 2
""",
        """\
error[assignment-in-condition]: `=` assigns; a condition compares with `==`
 --> k.lf:2:10
  |
2 |     if a = 1: b = 2
  |          ^
  = fix: write `==`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b.shape
""",
        """\
error[attribute]: `b.shape` is not a value
 --> k.lf:2:9
  |
2 |     a = b.shape
  |         ^^^^^^^
  = note: a dot puts an edge mode before a subscript: `a.clamp[i-1]`
  = fix: name the extents instead: `a: f32[H, W]` declares the sizes `H` and `W`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a.clamp = 3
""",
        """\
error[attribute]: `a.clamp` is not a value
 --> k.lf:2:5
  |
2 |     a.clamp = 3
  |     ^^^^^^^
  = note: a dot puts an edge mode before a subscript: `a.clamp[i-1]`
  = fix: name the extents instead: `a: f32[H, W]` declares the sizes `H` and `W`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b $ c
""",
        """\
error[bad-character]: `$` has no meaning here
 --> k.lf:2:11
  |
2 |     a = b $ c
  |           ^
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b × c
""",
        """\
error[bad-character]: `×` (MULTIPLICATION SIGN) has no meaning here
 --> k.lf:2:11
  |
2 |     a = b × c
  |           ^
  = fix: write `*`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    été = 1
""",
        """\
error[bad-character]: `é` (LATIN SMALL LETTER E WITH ACUTE) cannot stand in a name
 --> k.lf:2:5
  |
2 |     été = 1
  |     ^
  = fix: names are made of a-z A-Z 0-9 and _
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
        a = 1
   b = 2
""",
        """\
error[bad-indentation]: this line is indented by 3 spaces, which matches no block around it
 --> k.lf:3:1
  |
3 |    b = 2
  | ^^^
  = note: the blocks open above it are indented by 0, 8
  = fix: give it the indentation of the block it belongs to
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 3 # x

   # y
   b = 2
""",
        """\
error[bad-indentation]: this line is indented by 3 spaces, which matches no block around it
 --> k.lf:5:1
  |
5 |    b = 2
  | ^^^
  = note: the blocks open above it are indented by 0, 4
  = fix: give it the indentation of the block it belongs to
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1.5f
""",
        """\
error[bad-number]: `1.5f` is not a number
 --> k.lf:2:9
  |
2 |     a = 1.5f
  |         ^^^^
  = note: a number takes the type of what stands beside it; a cast is `f32(x)`
  = fix: write `1.5`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 007
""",
        """\
error[bad-number]: `007` is not a number
 --> k.lf:2:9
  |
2 |     a = 007
  |         ^^^
  = fix: write `7`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 0x
""",
        """\
error[bad-number]: `0x` is not a number
 --> k.lf:2:9
  |
2 |     a = 0x
  |         ^^
  = fix: write digits, with single `_` between them if you like
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 2x + 1
""",
        """\
error[bad-number]: `2x` is not a number
 --> k.lf:2:9
  |
2 |     a = 2x + 1
  |         ^^
  = fix: write `2 * x` if a product is meant
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 0b101
""",
        """\
error[bad-number]: `0b101` is not a number
 --> k.lf:2:9
  |
2 |     a = 0b101
  |         ^^^^^
  = fix: write `0x5`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1__0
""",
        """\
error[bad-number]: `1__0` is not a number
 --> k.lf:2:9
  |
2 |     a = 1__0
  |         ^^^^
  = fix: write digits, with single `_` between them if you like
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for (i in 0..N):
        a = 1
""",
        """\
error[bracketed-header]: a loop's header has no brackets
 --> k.lf:2:9
  |
2 |     for (i in 0..N):
  |         ^
  = fix: write `for i in a..b:`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    f(x)
""",
        """\
error[call-statement]: a call alone does nothing: functions only return values
 --> k.lf:2:5
  |
2 |     f(x)
  |     ^
  = fix: assign the result
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b = c
""",
        """\
error[chained-assignment]: a statement assigns once
 --> k.lf:2:11
  |
2 |     a = b = c
  |           ^
  = fix: write one assignment a line, or `==` to compare
""",
    ),
    (
        """\
kernel k(a: f32[N], {b: f32):
    b = 1
""",
        """\
error[curly-bracket]: blocks are not put in `{ }`
 --> k.lf:1:21
  |
1 | kernel k(a: f32[N], {b: f32):
  |                     ^
  = fix: end the header in `:` and indent
""",
    ),
    (
        """\
kernel k(a: f32) {
    b = 1
}
""",
        """\
error[curly-bracket]: blocks are not put in `{ }`
 --> k.lf:1:18
  |
1 | kernel k(a: f32) {
  |                  ^
  = fix: end the header in `:` and indent
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b[i][j]
""",
        """\
error[double-subscript]: subscripts stand in one bracket
 --> k.lf:2:13
  |
2 |     a = b[i][j]
  |             ^
  = fix: put all subscripts in one bracket: `a[i, j]`
""",
    ),
    (
        """\
kernel k(out out a: f32):
    b = 1
""",
        """\
error[duplicate-mode]: a parameter has one of `in`, `out` and `inout`
 --> k.lf:1:14
  |
1 | kernel k(out out a: f32):
  |          --- the first is here
  |              ^^^
  = fix: write `out` once
""",
    ),
    (
        """\
kernel k(in out a: f32):
    b = 1
""",
        """\
error[duplicate-mode]: a parameter has one of `in`, `out` and `inout`
 --> k.lf:1:13
  |
1 | kernel k(in out a: f32):
  |          -- the first is here
  |             ^^^
  = fix: write `inout` for an array read and written
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a: b = 1
    else if c: b = 2
""",
        """\
error[else-if]: `else if` is one word
 --> k.lf:3:5
  |
3 |     else if c: b = 2
  |     ^^^^^^^
  = fix: write `elif`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    else: b = 2
""",
        """\
error[else-without-if]: this `else` belongs to no `if`
 --> k.lf:2:5
  |
2 |     else: b = 2
  |     ^^^^
  = fix: give it the indentation of its `if`, and put nothing between
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1.
""",
        """\
error[float-digits]: a float has digits on both sides of its dot
 --> k.lf:2:9
  |
2 |     a = 1.
  |         ^^
  = fix: write `1.0`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = .5
""",
        """\
error[float-digits]: a float has digits on both sides of its dot
 --> k.lf:2:9
  |
2 |     a = .5
  |         ^^
  = fix: write `0.5`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0..=N:
        a = 1
""",
        """\
error[inclusive-range]: there is no inclusive range
 --> k.lf:2:15
  |
2 |     for i in 0..=N:
  |               ^^^
  = fix: write `a..b+1`: the end is not part of the range
""",
    ),
    (
        """\
kernel k(a: f32) -> f32:
    b = 1
""",
        """\
error[kernel-result]: a kernel returns nothing
 --> k.lf:1:18
  |
1 | kernel k(a: f32) -> f32:
  |                  ^^
  = fix: store the result in an `out` array
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = f(x=1)
""",
        """\
error[keyword-argument]: arguments are given by position, and `=` compares nothing
 --> k.lf:2:12
  |
2 |     a = f(x=1)
  |            ^
  = fix: write `==` to compare, or the value alone as an argument
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    let in = 3
""",
        """\
error[keyword-as-name]: `in` is a reserved word and cannot be a name
 --> k.lf:2:9
  |
2 |     let in = 3
  |         ^^
  = fix: call it something else, such as `input`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for step in 0..N: a = 1
""",
        """\
error[keyword-as-name]: `step` is a reserved word and cannot be a name
 --> k.lf:2:9
  |
2 |     for step in 0..N: a = 1
  |         ^^^^
  = fix: call it something else, such as `stride`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    temp = 3
""",
        """\
error[keyword-as-name]: `temp` is a reserved word and cannot be a name
 --> k.lf:2:5
  |
2 |     temp = 3
  |     ^^^^
  = fix: call it something else, such as `scratch`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    out[i] = 3
""",
        """\
error[keyword-as-name]: `out` is a reserved word and cannot be a name
 --> k.lf:2:5
  |
2 |     out[i] = 3
  |     ^^^
  = fix: call it something else, such as `output`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = in + 1
""",
        """\
error[keyword-as-name]: `in` is a reserved word and cannot be a name
 --> k.lf:2:9
  |
2 |     a = in + 1
  |         ^^
  = fix: call it something else, such as `input`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    pi = 3
""",
        """\
error[keyword-as-name]: `pi` is a reserved word and cannot be a name
 --> k.lf:2:5
  |
2 |     pi = 3
  |     ^^
  = fix: call it something else, such as `angle`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b \\
  + c
""",
        """\
error[line-continuation]: `\\` does not continue a line
 --> k.lf:2:11
  |
2 |     a = b \\
  |           ^
  = fix: put the expression in brackets: lines continue inside them
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b[1, 2)
""",
        """\
error[mismatched-bracket]: `)` does not close `[`
 --> k.lf:2:15
  |
2 |     a = b[1, 2)
  |          - opened here
  |               ^
  = fix: write `]`
""",
    ),
    (
        """\
kernel k(a: f32[N) :
    a = 1
""",
        """\
error[mismatched-bracket]: `)` does not close `[`
 --> k.lf:1:18
  |
1 | kernel k(a: f32[N) :
  |                - opened here
  |                  ^
  = fix: write `]`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a < b:
    a = 1
""",
        """\
error[missing-block]: nothing is indented under this `if`
 --> k.lf:2:13
  |
2 |     if a < b:
  |             ^
  = fix: indent what belongs to it by 4 spaces
""",
    ),
    (
        """\
kernel k(a: f32):
""",
        """\
error[missing-block]: nothing is indented under this `kernel`
 --> k.lf:1:17
  |
1 | kernel k(a: f32):
  |                 ^
  = fix: indent what belongs to it by 4 spaces
""",
    ),
    (
        """\
kernel k(a: f32):

kernel l(a: f32):
    a = 1
""",
        """\
error[missing-block]: nothing is indented under this `kernel`
 --> k.lf:1:17
  |
1 | kernel k(a: f32):
  |                 ^
  = fix: indent what belongs to it by 4 spaces
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a:
""",
        """\
error[missing-block]: nothing is indented under this `if`
 --> k.lf:2:9
  |
2 |     if a:
  |         ^
  = fix: indent what belongs to it by 4 spaces
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a:
    # x
""",
        """\
error[missing-block]: nothing is indented under this `if`
 --> k.lf:2:9
  |
2 |     if a:
  |         ^
  = fix: indent what belongs to it by 4 spaces
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0..N
        a = 1
""",
        """\
error[missing-colon]: the header of this `for` does not end in `:`
 --> k.lf:2:18
  |
2 |     for i in 0..N
  |                  ^
  = fix: write `:` here
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if a < b
        a = 1
""",
        """\
error[missing-colon]: the header of this `if` does not end in `:`
 --> k.lf:2:13
  |
2 |     if a < b
  |             ^
  = fix: write `:` here
""",
    ),
    (
        """\
kernel k(a: f32)
    b = 1
""",
        """\
error[missing-colon]: the header of this `kernel` does not end in `:`
 --> k.lf:1:17
  |
1 | kernel k(a: f32)
  |                 ^
  = fix: write `:` here
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    fuse
        a = 1
""",
        """\
error[missing-colon]: the header of this `fuse` does not end in `:`
 --> k.lf:2:9
  |
2 |     fuse
  |         ^
  = fix: write `:` here
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b if c
""",
        """\
error[missing-else]: a conditional expression needs an `else`
 --> k.lf:2:15
  |
2 |     a = b if c
  |           -- for this `if`
  |               ^
  = fix: write `a if condition else b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b +
""",
        """\
error[missing-expression]: an expression is missing after `+`
 --> k.lf:2:12
  |
2 |     a = b +
  |            ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a =
""",
        """\
error[missing-expression]: an expression is missing after `=`
 --> k.lf:2:8
  |
2 |     a =
  |        ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0..N step: a = 1
""",
        """\
error[missing-expression]: an expression is missing after `step`
 --> k.lf:2:23
  |
2 |     for i in 0..N step: a = 1
  |                       ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a[] = 3
""",
        """\
error[missing-expression]: an expression is missing after `[`
 --> k.lf:2:7
  |
2 |     a[] = 3
  |       ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a =
    b = 1
""",
        """\
error[missing-expression]: an expression is missing after `=`
 --> k.lf:2:8
  |
2 |     a =
  |        ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = max(b,, c)
""",
        """\
error[missing-expression]: an expression is missing after `,`
 --> k.lf:2:15
  |
2 |     a = max(b,, c)
  |               ^
  = fix: write a value here, such as `1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    x: f32 = 3
""",
        """\
error[missing-let]: a variable is declared with `let` or `var`
 --> k.lf:2:5
  |
2 |     x: f32 = 3
  |     ^
  = fix: write `let x: ...`, or `var` if it changes
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i, j in 0..N:
        a = 1
""",
        """\
error[missing-range]: `i` needs a range of its own
 --> k.lf:2:9
  |
2 |     for i, j in 0..N:
  |         ^
  = fix: write `i in a..b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i = 0..N:
        a = 1
""",
        """\
error[missing-range]: `i` needs a range of its own
 --> k.lf:2:9
  |
2 |     for i = 0..N:
  |         ^
  = fix: write `i in a..b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = sum(i in 0..N, x[i])
""",
        """\
error[missing-range]: `x` needs a range of its own
 --> k.lf:2:24
  |
2 |     a = sum(i in 0..N, x[i])
  |                        ^
  = fix: end the ranges in `:`, as in `sum(i in a..b: x[i])`
""",
    ),
    (
        """\
func f(a: f32):
    return a
""",
        """\
error[missing-result-type]: a `func` says what type it returns
 --> k.lf:1:15
  |
1 | func f(a: f32):
  |               ^
  = fix: write `) -> f32:`
""",
    ),
    (
        """\
func f(a: f32) -> f32:
    let b = 1
""",
        """\
error[missing-return]: this `func` ends without a `return`
 --> k.lf:2:14
  |
2 |     let b = 1
  |              ^
  = fix: end it in `return b`
""",
    ),
    (
        """\
kernel k(a):
    b = 1
""",
        """\
error[missing-type]: `a` needs a type
 --> k.lf:1:10
  |
1 | kernel k(a):
  |          ^
  = fix: write `a: f32`, or `a: f32[N]` for an array
""",
    ),
    (
        """\
kernel k(a f32):
    a = 1
""",
        """\
error[missing-type]: `a` needs a type
 --> k.lf:1:10
  |
1 | kernel k(a f32):
  |          ^
  = fix: write `a: f32`, or `a: f32[N]` for an array
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1e999
""",
        """\
error[number-out-of-range]: this number is too large for f64
 --> k.lf:2:9
  |
2 |     a = 1e999
  |         ^^^^^
  = fix: write `inf` if infinity is meant
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = True
""",
        """\
error[python-bool]: `True` is Python's spelling
 --> k.lf:2:9
  |
2 |     a = True
  |         ^^^^
  = fix: write `true`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in range(N):
        a = 1
""",
        """\
error[python-range]: a range is written `a..b`, not `range(a, b)`
 --> k.lf:2:14
  |
2 |     for i in range(N):
  |              ^^^^^^^^
  = fix: write `0..N`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in range(2, f(N), 3), j in 0..M:
        a = 1
""",
        """\
error[python-range]: a range is written `a..b`, not `range(a, b)`
 --> k.lf:2:14
  |
2 |     for i in range(2, f(N), 3), j in 0..M:
  |              ^^^^^^^^^^^^^^^^^
  = fix: write `2..f(N) step 3`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = sum(i in range(N): x[i])
""",
        """\
error[python-range]: a range is written `a..b`, not `range(a, b)`
 --> k.lf:2:18
  |
2 |     a = sum(i in range(N): x[i])
  |                  ^^^^^^^^
  = fix: write `0..N`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0:N:
        a = 1
""",
        """\
error[range-dots]: a range is written with two dots
 --> k.lf:2:15
  |
2 |     for i in 0:N:
  |               ^
  = fix: write `0..N`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0...N:
        a = 1
""",
        """\
error[range-dots]: a range has two dots
 --> k.lf:2:15
  |
2 |     for i in 0...N:
  |               ^^^
  = fix: write `a..b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in N:
        a = 1
""",
        """\
error[range-end]: a loop runs over a range, and this one has no end
 --> k.lf:2:15
  |
2 |     for i in N:
  |               ^
  = fix: write `0..N` to count up to `N`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    return a
""",
        """\
error[return-in-kernel]: a kernel returns nothing
 --> k.lf:2:5
  |
2 |     return a
  |     ^^^^^^
  = fix: store the result in an `out` array
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1;
""",
        """\
error[semicolon]: `;` does not end statements here
 --> k.lf:2:10
  |
2 |     a = 1;
  |          ^
  = fix: end the line instead
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b; c = d
""",
        """\
error[semicolon]: `;` does not end statements here
 --> k.lf:2:10
  |
2 |     a = b; c = d
  |          ^
  = fix: end the line instead
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b[1:2]
""",
        """\
error[slice]: slices are not part of this language
 --> k.lf:2:12
  |
2 |     a = b[1:2]
  |            ^
  = fix: loop over the elements: `for i in a..b:`
""",
    ),
    (
        """\
kernel k(a: f32[:, :]):
    a = 1
""",
        """\
error[slice]: slices are not part of this language
 --> k.lf:1:17
  |
1 | kernel k(a: f32[:, :]):
  |                 ^
  = fix: loop over the elements: `for i in a..b:`
""",
    ),
    (
        """\
func f(a: f32) -> f32:
    b = 1
    return b
""",
        """\
error[statement-in-func]: a `func` holds `let`s and one `return`, no `b`
 --> k.lf:2:5
  |
2 |     b = 1
  |     ^
  = fix: compute the value in one expression, or move the statements into a kernel
""",
    ),
    (
        """\
for i in 0..N:
    b = 1
""",
        """\
error[statement-outside]: `for` stands outside of any kernel
 --> k.lf:1:1
  |
1 | for i in 0..N:
  | ^^^
  = fix: indent it under a `kernel name(...):`, or declare a `const`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = "x"
""",
        """\
error[string-literal]: there are no strings in this language
 --> k.lf:2:9
  |
2 |     a = "x"
  |         ^
  = fix: start a comment with `#`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    \ta = 3
""",
        """\
error[tab-indentation]: this line is indented with a tab
 --> k.lf:2:5
  |
2 |     \ta = 3
  |     ^
  = fix: indent with 4 spaces for each level
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a, b = b, a
""",
        """\
error[tuple-assignment]: a statement assigns to one place
 --> k.lf:2:6
  |
2 |     a, b = b, a
  |      ^
  = fix: write one assignment a line; two arrays are exchanged by `swap a, b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    f32 x = 3
""",
        """\
error[type-first]: a variable is declared with `let` or `var`
 --> k.lf:2:5
  |
2 |     f32 x = 3
  |     ^^^
  = fix: write `let x: f32 = ...`, or `var` if it changes
""",
    ),
    (
        """\
kernel k(f32 a):
    b = 1
""",
        """\
error[type-first]: a parameter's type stands behind its name
 --> k.lf:1:10
  |
1 | kernel k(f32 a):
  |          ^^^^^
  = fix: write `a: f32`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = (1 + 2
    b = 3
""",
        """\
error[unclosed-bracket]: `(` is never closed
 --> k.lf:2:9
  |
2 |     a = (1 + 2
  |         ^
  = fix: close it with `)`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = (1 + 2 +
    b = 3
""",
        """\
error[unclosed-bracket]: `(` is never closed
 --> k.lf:2:9
  |
2 |     a = (1 + 2 +
  |         ^
  = fix: close it with `)`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a[i = 3
""",
        """\
error[unclosed-bracket]: `[` is never closed
 --> k.lf:2:6
  |
2 |     a[i = 3
  |      ^
  = fix: close it with `]`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = f(1, 2
""",
        """\
error[unclosed-bracket]: `(` is never closed
 --> k.lf:2:10
  |
2 |     a = f(1, 2
  |          ^
  = fix: close it with `)`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if f(a: b = 1
""",
        """\
error[unclosed-bracket]: `(` is never closed
 --> k.lf:2:9
  |
2 |     if f(a: b = 1
  |         ^
  = fix: close it with `)`
""",
    ),
    (
        """\
const K = [1, 2
""",
        """\
error[unclosed-bracket]: `[` is never closed
 --> k.lf:1:11
  |
1 | const K = [1, 2
  |           ^
  = fix: close it with `]`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a
""",
        """\
error[unexpected-end]: the line ends where `[`, `=` or `.` should come
 --> k.lf:2:6
  |
2 |     a
  |      ^
  = fix: complete the statement, or remove the line
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    let x
""",
        """\
error[unexpected-end]: the line ends where `:` or `=` should come
 --> k.lf:2:10
  |
2 |     let x
  |          ^
  = fix: complete the statement, or remove the line
""",
    ),
    (
        """\
const K
""",
        """\
error[unexpected-end]: the line ends where `:` or `=` should come
 --> k.lf:1:8
  |
1 | const K
  |        ^
  = fix: complete the statement, or remove the line
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    let a: f32
""",
        """\
error[unexpected-end]: the line ends where `=` should come
 --> k.lf:2:15
  |
2 |     let a: f32
  |               ^
  = fix: complete the statement, or remove the line
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    fuse: swap a
""",
        """\
error[unexpected-end]: the line ends where `,` should come
 --> k.lf:2:17
  |
2 |     fuse: swap a
  |                 ^
  = fix: complete the statement, or remove the line
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = 1
        b = 2
""",
        """\
error[unexpected-indent]: this line is indented, but no block starts here
 --> k.lf:3:1
  |
3 |         b = 2
  | ^^^^^^^^
  = fix: give it the indentation of the line above, or end that line in `:`
""",
    ),
    (
        """\
  const K = 1
""",
        """\
error[unexpected-indent]: this line is indented, but no block starts here
 --> k.lf:1:3
  |
1 |   const K = 1
  |   ^^^^^
  = fix: start the line at the first column
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = f(1 2)
""",
        """\
error[unexpected-token]: `2` does not fit here
 --> k.lf:2:13
  |
2 |     a = f(1 2)
  |             ^ expected an operator, `,` or `)`
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    swap a b
""",
        """\
error[unexpected-token]: `b` does not fit here
 --> k.lf:2:12
  |
2 |     swap a b
  |            ^ expected `,`
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel (a: f32):
    b = 1
""",
        """\
error[unexpected-token]: `(` does not fit here
 --> k.lf:1:8
  |
1 | kernel (a: f32):
  |        ^ expected a name
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b not c
""",
        """\
error[unexpected-token]: `not` does not fit here
 --> k.lf:2:11
  |
2 |     a = b not c
  |           ^^^ expected an operator, the end of the line or `(`
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = if b: 3
""",
        """\
error[unexpected-token]: `if` does not fit here
 --> k.lf:2:9
  |
2 |     a = if b: 3
  |         ^^ expected an expression
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    var x = 1.0 2.0
""",
        """\
error[unexpected-token]: `2.0` does not fit here
 --> k.lf:2:17
  |
2 |     var x = 1.0 2.0
  |                 ^^^ expected an operator or the end of the line
  = fix: remove it, or complete what stands before it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    temp t: float32[N]
""",
        """\
error[unknown-dtype]: `float32` is not a type
 --> k.lf:2:13
  |
2 |     temp t: float32[N]
  |             ^^^^^^^
  = note: the types are bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64
  = fix: did you mean `f32`?
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    temp t: f33[N]
""",
        """\
error[unknown-dtype]: `f33` is not a type
 --> k.lf:2:13
  |
2 |     temp t: f33[N]
  |             ^^^
  = note: the types are bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64
  = fix: did you mean `f32`?
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b.clmp[i]
""",
        """\
error[unknown-edge-mode]: `.clmp` is not an edge mode
 --> k.lf:2:11
  |
2 |     a = b.clmp[i]
  |           ^^^^
  = note: the edge modes are .clamp .wrap .reflect .symmetric .zero
  = fix: did you mean `.clamp`?
""",
    ),
    (
        """\
kernal f(a: f32):
    b = 1
""",
        """\
error[unknown-item]: `kernal` starts neither a `kernel`, a `func` nor a `const`
 --> k.lf:1:1
  |
1 | kernal f(a: f32):
  | ^^^^^^
  = fix: did you mean `kernel`?
""",
    ),
    (
        """\
x = 1
""",
        """\
error[unknown-item]: `x` starts neither a `kernel`, a `func` nor a `const`
 --> k.lf:1:1
  |
1 | x = 1
  | ^
  = fix: indent it under a `kernel name(...):`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b && c
""",
        """\
error[unknown-operator]: `&&` is not an operator
 --> k.lf:2:11
  |
2 |     a = b && c
  |           ^^
  = fix: write `and`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b || c
""",
        """\
error[unknown-operator]: `||` is not an operator
 --> k.lf:2:11
  |
2 |     a = b || c
  |           ^^
  = fix: write `or`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = !b
""",
        """\
error[unknown-operator]: `!` is not an operator
 --> k.lf:2:9
  |
2 |     a = !b
  |         ^
  = fix: write `not`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a++
""",
        """\
error[unknown-operator]: `++` is not an operator
 --> k.lf:2:6
  |
2 |     a++
  |      ^^
  = fix: write `x += 1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    ++a
""",
        """\
error[unknown-operator]: `++` is not an operator
 --> k.lf:2:5
  |
2 |     ++a
  |     ^^
  = fix: write `x += 1`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a //= 2
""",
        """\
error[unknown-operator]: `//=` is not an operator
 --> k.lf:2:7
  |
2 |     a //= 2
  |       ^^^
  = fix: write it out: `x = x // y`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = mean(i in 0..N: x[i])
""",
        """\
error[unknown-reduction]: `mean` is not a reduction
 --> k.lf:2:9
  |
2 |     a = mean(i in 0..N: x[i])
  |         ^^^^
  = note: the reductions are sum prod min max any all argmin argmax
  = fix: did you mean `sum`?
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    while a < 3:
        a = 1
""",
        """\
error[unknown-statement]: there is no `while`
 --> k.lf:2:5
  |
2 |     while a < 3:
  |     ^^^^^
  = fix: loop over a range: `for i in a..b:`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    print(a)
""",
        """\
error[unknown-statement]: there is no `print`
 --> k.lf:2:5
  |
2 |     print(a)
  |     ^^^^^
  = fix: store what you want to see in an `out` array
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    break
""",
        """\
error[unknown-statement]: there is no `break`
 --> k.lf:2:5
  |
2 |     break
  |     ^^^^^
  = fix: guard the rest of the loop with an `if`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    fro i in 0..N:
        a = 1
""",
        """\
error[unknown-statement]: `fro` starts no statement
 --> k.lf:2:5
  |
2 |     fro i in 0..N:
  |     ^^^
  = fix: did you mean `for`?
""",
    ),
    (
        """\
def f(a):
    return a
""",
        """\
error[unknown-statement]: there is no `def`
 --> k.lf:1:1
  |
1 | def f(a):
  | ^^^
  = fix: write `kernel name(...):`, or `func name(...) -> f32:`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    import x
""",
        """\
error[unknown-statement]: there is no `import`
 --> k.lf:2:5
  |
2 |     import x
  |     ^^^^^^
  = fix: one file is one program
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a = b + 2)
""",
        """\
error[unopened-bracket]: `)` closes no bracket
 --> k.lf:2:14
  |
2 |     a = b + 2)
  |              ^
  = fix: remove it
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    let x: f32[N] = 3
""",
        """\
error[array-variable]: a `let` holds one value
 --> k.lf:2:15
  |
2 |     let x: f32[N] = 3
  |               ^
  = fix: write `temp x: ...` for an array, and fill it in a loop
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    temp t: f32
""",
        """\
error[array-variable]: a `temp` is an array and needs its extents
 --> k.lf:2:16
  |
2 |     temp t: f32
  |                ^
  = fix: write `temp t: f32[N]`, or `var` for one value
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0 to N:
        a = 1
""",
        """\
error[range-dots]: a range is written with two dots
 --> k.lf:2:16
  |
2 |     for i in 0 to N:
  |                ^^
  = fix: write `a..b`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    if (a < b) {
        a = 1
""",
        """\
error[curly-bracket]: blocks are not put in `{ }`
 --> k.lf:2:16
  |
2 |     if (a < b) {
  |                ^
  = fix: end the header in `:` and indent
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a[i] = sum(b[k] for k in range(N))
""",
        """\
error[python-generator]: a reduction's ranges stand before its value
 --> k.lf:2:21
  |
2 |     a[i] = sum(b[k] for k in range(N))
  |                     ^^^
  = fix: write `sum(k in a..b: x[k])`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a[i] = x.clamp(i, j)
""",
        """\
error[attribute]: `.clamp` is an edge mode, not a function
 --> k.lf:2:19
  |
2 |     a[i] = x.clamp(i, j)
  |                   ^
  = fix: write `x.clamp[...]`
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    const K = 3
""",
        """\
error[misplaced-word]: a `const` stands outside of kernels
 --> k.lf:2:5
  |
2 |     const K = 3
  |     ^^^^^
  = fix: move it to the first column
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    func f(a: f32) -> f32: return a
""",
        """\
error[misplaced-word]: a `func` stands outside of kernels
 --> k.lf:2:5
  |
2 |     func f(a: f32) -> f32: return a
  |     ^^^^
  = fix: move it to the first column
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    for i in 0..N: for j in 0..M: a = 1
""",
        """\
error[header-on-line]: a `for` starts a line of its own
 --> k.lf:2:20
  |
2 |     for i in 0..N: for j in 0..M: a = 1
  |                    ^^^
  = fix: put both iterators in one header: `for i in a..b, j in c..d:`
""",
    ),
    (
        """\
kernel k(a: out f32[N]):
    a = 1
""",
        """\
error[misplaced-word]: `out` stands before the parameter's name
 --> k.lf:1:13
  |
1 | kernel k(a: out f32[N]):
  |             ^^^
  = fix: write `out a: ...`
""",
    ),
    (
        """\
kernel k(const S: i64):
    a = 1
""",
        """\
error[misplaced-word]: `const` stands before the parameter's type
 --> k.lf:1:10
  |
1 | kernel k(const S: i64):
  |          ^^^^^
  = fix: write `S: const i64`
""",
    ),
    (
        """\
kernel k(a: f32 = 3.0):
    b = 1
""",
        """\
error[default-value]: parameters have no default values
 --> k.lf:1:17
  |
1 | kernel k(a: f32 = 3.0):
  |                 ^
  = fix: remove the value, and give it in the call
""",
    ),
    (
        """\
kernel k(
    a: f32,
    b: f32 = 3.0):
    c = 1
""",
        """\
error[default-value]: parameters have no default values
 --> k.lf:3:12
  |
3 |     b: f32 = 3.0):
  |            ^
  = fix: remove the value, and give it in the call
""",
    ),
    (
        """\
kernel k(inout a: f32[N]):
    a[i] = f(a[i] <
    = 1)
""",
        """\
error[keyword-argument]: arguments are given by position, and `=` compares nothing
 --> k.lf:3:5
  |
3 |     = 1)
  |     ^
  = fix: write `==` to compare, or the value alone as an argument
""",
    ),
    (
        """\
func f(a: f32) => f32:
    return a
""",
        """\
error[unknown-operator]: `=>` is not an operator
 --> k.lf:1:16
  |
1 | func f(a: f32) => f32:
  |                ^^
  = fix: write `->`
""",
    ),
    (
        """\
@kernel
kernel k(a: f32):
    b = 1
""",
        """\
error[unknown-statement]: there are no decorators
 --> k.lf:1:1
  |
1 | @kernel
  | ^
  = fix: remove it
""",
    ),
    (
        """\
const c: i32[2] = {1, 2}
""",
        """\
error[curly-bracket]: tables are not put in `{ }`
 --> k.lf:1:19
  |
1 | const c: i32[2] = {1, 2}
  |                   ^
  = fix: write `[1, 2, 3]`
""",
    ),
    (
        """\
import numpy
""",
        """\
error[unknown-statement]: there is no `import`
 --> k.lf:1:1
  |
1 | import numpy
  | ^^^^^^
  = fix: one file is one program
""",
    ),
)


def code(rendered: str) -> str:
    """The code in a rendered diagnostic."""
    return rendered.split("[", 1)[1].split("]", 1)[0]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[code(case[1]) for case in CASES])
def test_message(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(Source("k.lf", text))
    assert str(caught.value) + "\n" == expected


BELOW = tuple(case for case in CASES if not case[0].startswith(" "))  # not about the first line


@pytest.mark.parametrize(("text", "expected"), BELOW, ids=[code(case[1]) for case in BELOW])
def test_message_survives_crlf_and_what_stands_above(text: str, expected: str) -> None:
    """The same mistake below other kernels, in a file with CR LF line ends, has the same code."""
    above = "# above\nkernel above(out o: f32[M]):\n    for i in 0..M:\n        o[i] = 1.0\n\n"
    with pytest.raises(UserError) as caught:
        parse(Source("k.lf", (above + text).replace("\n", "\r\n")))
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == code(expected)
    assert diagnostic.span.line > 5


NESTED = (
    "kernel k(inout a: f32[N]):\n    a[0] = " + "(" * 201 + "1" + ")" * 201 + "\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "(" * 10_000 + "1" + ")" * 10_000 + "\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "+".join(["a[0]"] * 20_000) + "\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "-" * 20_000 + "1\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "not " * 20_000 + "1\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "1 if 2 else " * 5_000 + "3\n",
    "kernel k(inout a: f32[N]):\n    a[0] = " + "1 ** " * 5_000 + "3\n",
    "kernel k(inout a: f32[N]):\n"
    + "".join("    " * (depth + 1) + "if a[0] < 1:\n" for depth in range(201))
    + "    " * 202
    + "a[0] = 1\n",
    "kernel k(inout a: f32[N]):\n    if N < 0:\n        a[0] = 0\n"
    + "    elif N < 1:\n        a[0] = 1\n" * 500,
    "const c = " + "[" * 5_000 + "1" + "]" * 5_000 + "\n",
)


@pytest.mark.parametrize("text", NESTED, ids=range(len(NESTED)))
def test_nesting_too_deep(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(Source("k.lf", text))
    assert caught.value.diagnostics[0].code == "nesting-too-deep"
    assert caught.value.diagnostics[0].source is not None


def test_every_code_is_documented() -> None:
    """Each code has a section in the documentation, whose example is answered with that code."""
    text = (ROOT / "docs/errors.d/syntax.md").read_text(encoding="utf-8")
    documented: set[str] = set()
    for section in text.split("\n### ")[1:]:
        name = section.split("\n", 1)[0].strip()
        documented.add(name)
        if "```lf\n" in section:
            with pytest.raises(UserError) as caught:
                parse(Source("k.lf", section.split("```lf\n", 1)[1].split("```", 1)[0]))
            assert caught.value.diagnostics[0].code == name
    assert documented == {code(expected) for _, expected in CASES} | {"nesting-too-deep"}


def test_the_parser_never_fails_otherwise() -> None:
    """Cutting a program anywhere, or dropping any of its words, gives a tree or a UserError."""
    text = (ROOT / "tests/lang/everything.lf").read_text(encoding="utf-8")
    for cut in range(0, len(text), 3):
        for damaged in (text[:cut], text[cut:], text[:cut] + text[cut + 2 :]):
            try:
                parse(Source("k.lf", damaged))
            except UserError as error:
                assert str(error)


def test_nesting_messages() -> None:
    """The three kinds of depth are told apart; the third points at the whole chain."""
    messages = []
    for text in (NESTED[0], NESTED[2], NESTED[7], NESTED[8]):
        with pytest.raises(UserError) as caught:
            parse(Source("k.lf", text))
        diagnostic = caught.value.diagnostics[0]
        messages.append((diagnostic.message, diagnostic.fix))
    let, header = "name an inner part with `let`, or move it into a `func`", "move inner loops into"
    assert messages[0] == ("brackets are nested more than 200 deep", let)
    assert messages[1] == ("operators are nested more than 1000 deep", "name parts of it with `let`")
    assert messages[2][0] == "blocks are nested more than 200 deep"
    assert messages[2][1].startswith(header)
    assert messages[3] == (
        "statements are nested more than 200 deep",
        "test the cases in a loop over a const table, or split the `elif` chain",
    )


SOUP = (
    *("a", "b", "i", "N", "f32", "min", "sum", "clamp", "range", "while", "0", "1.5", "1.", ".5"),
    *("..", ".", "[", "]", "(", ")", ":", ",", "=", "==", "+", "-", "*", "/", "**", "<", "&", "&&"),
    *("->", "+=", "min=", "!", "#", "$", "{", "\\", "é", "\t", "\r", "\n", "\n    ", "\n        "),
)


def test_random_words_never_break_the_parser() -> None:
    """Word soup, and a good program with soup in it: a tree or a UserError whose span is in the
    text, and whose message renders."""
    random = Random(20)
    words = (*SOUP, *sorted(keywords()))
    good = (ROOT / "tests/lang/everything.lf").read_text(encoding="utf-8")
    for round_ in range(600):
        text = " ".join(random.choice(words) for _ in range(random.randint(1, 20)))
        if round_ % 3 == 0:
            text = "kernel k(a: f32[N]):\n    " + text
        elif round_ % 3 == 1:
            cut = random.randrange(len(good))
            text = good[:cut] + random.choice(words) + good[cut + random.randrange(6) :]
            if round_ % 2:  # lines that go on in the next one
                text = re.sub(r"(?<=[,(<=+*])(?= )", lambda _: random.choice(("", "", "\n")), text)
        try:
            parse(Source("k.lf", text))
        except UserError as error:
            span = error.diagnostics[0].span
            lines = text.split("\n")
            assert 1 <= span.line <= len(lines), text
            assert 1 <= span.column <= len(lines[span.line - 1]) + 1, text
            assert (span.end_line, span.end_column) > (span.line, span.column), text
            assert error.diagnostics[0].code in str(error)
