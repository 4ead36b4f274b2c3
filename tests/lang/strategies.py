"""Random surface trees: syntactically possible, otherwise meaningless."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.lang.surface import syntax

EDGE_MODES = ("", "clamp", "wrap", "reflect", "symmetric", "zero")
REDUCTIONS = ("sum", "prod", "min", "max", "any", "all", "argmin", "argmax")
BINARY = ("+", "-", "*", "/", "//", "%", "**", "|", "^", "&", "<<", ">>", "and", "or")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
AUGMENTED = ("", "+", "-", "*", "/", "&", "|", "^", "min", "max")

# Words that look like keywords or parts of them are the interesting names.
names = st.sampled_from(
    (
        *("a", "b", "x", "N", "_", "i0", "x_1", "e5", "min", "max", "sum", "exp"),
        *("inner", "forx", "steps", "letter", "iff", "notify", "order", "nano", "pie", "output"),
    )
)
dtypes = st.sampled_from(DType)
texts = st.sampled_from(["0", "1", "00", "0xff", "0XA_b", "1_000", "1.5", "0.0", "1_0.2_5", "2e3"])


def _number(text: str) -> syntax.Number:
    plain = text.replace("_", "")
    is_float = not plain.lower().startswith("0x") and ("." in plain or "e" in plain)
    value = float(plain) if is_float else int(plain, 16 if "x" in plain.lower() else 10)
    return syntax.Number(value, text)


numbers = st.one_of(
    texts.map(_number),
    st.integers(0, 1 << 64).map(syntax.Number),
    st.floats(0.0, allow_nan=False).map(lambda value: syntax.Number(abs(value))),
    st.sampled_from([True, False, math.inf, math.nan, math.pi]).map(syntax.Number),
)


def _ranges(expr: st.SearchStrategy[syntax.Expr]) -> st.SearchStrategy[tuple[syntax.Range, ...]]:
    item = st.builds(syntax.Range, names, expr, expr, st.none() | expr)
    return st.lists(item, min_size=1, max_size=3).map(tuple)


def _tuples(expr: st.SearchStrategy[syntax.Expr], least: int) -> st.SearchStrategy[tuple]:
    return st.lists(expr, min_size=least, max_size=3).map(tuple)


@st.composite
def _comparisons(draw: st.DrawFn, expr: st.SearchStrategy[syntax.Expr]) -> syntax.Comparison:
    operands = draw(st.lists(expr, min_size=2, max_size=4))
    count = len(operands) - 1
    ops = draw(st.lists(st.sampled_from(COMPARISONS), min_size=count, max_size=count))
    return syntax.Comparison(tuple(operands), tuple(ops))


def _larger(expr: st.SearchStrategy[syntax.Expr]) -> st.SearchStrategy[syntax.Expr]:
    return st.one_of(
        st.builds(syntax.Subscript, names, _tuples(expr, 1), st.sampled_from(EDGE_MODES)),
        st.builds(syntax.Unary, st.sampled_from(["-", "+", "~", "not"]), expr),
        st.builds(syntax.Binary, st.sampled_from(BINARY), expr, expr),
        _comparisons(expr),
        st.builds(syntax.Conditional, expr, expr, expr),
        st.builds(syntax.Call, names, _tuples(expr, 0)),
        st.builds(syntax.Reduction, st.sampled_from(REDUCTIONS), _ranges(expr), expr),
    )


expressions: st.SearchStrategy[syntax.Expr] = st.recursive(
    st.one_of(numbers, st.builds(syntax.Name, names)), _larger, max_leaves=12
)
small = st.recursive(st.one_of(numbers, st.builds(syntax.Name, names)), _larger, max_leaves=4)

targets = st.one_of(
    st.builds(syntax.Name, names),
    st.builds(syntax.Subscript, names, _tuples(small, 1), st.sampled_from(EDGE_MODES)),
)
lets = st.builds(syntax.Let, names, st.none() | dtypes, expressions, st.booleans())
extents = _tuples(small, 1)
simple_statements: st.SearchStrategy[syntax.Stmt] = st.one_of(
    st.builds(syntax.Assign, targets, st.sampled_from(AUGMENTED), expressions),
    lets,
    st.builds(syntax.Temp, names, dtypes, extents),
    st.builds(syntax.Swap, names, names),
    st.builds(syntax.Assume, small),
)


def _blocks(stmt: st.SearchStrategy[syntax.Stmt]) -> st.SearchStrategy[syntax.Stmt]:
    body = st.lists(stmt, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(syntax.For, _ranges(small), body, st.booleans()),
        st.builds(syntax.If, small, body, st.just(()) | body),
        st.builds(syntax.Block, st.sampled_from(["fuse", "nofuse"]), body),
    )


statements = st.recursive(simple_statements, _blocks, max_leaves=8)
bodies = st.lists(statements, min_size=1, max_size=4).map(tuple)
params = st.lists(
    st.builds(
        syntax.Param,
        names,
        dtypes,
        st.none() | extents,
        st.sampled_from(["in", "out", "inout"]),
        st.booleans(),
    ),
    max_size=4,
).map(tuple)
tables = st.recursive(
    st.lists(small, min_size=1, max_size=12).map(tuple),
    lambda inner: st.lists(inner | small, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)


@st.composite
def consts(draw: st.DrawFn) -> syntax.Const:
    """A constant: a number, or a table, with a type or without."""
    dtype = draw(st.none() | dtypes)
    shape = None if dtype is None else draw(st.none() | extents)
    return syntax.Const(draw(names), dtype, shape, draw(small | tables))


kernels = st.builds(syntax.Kernel, names, params, bodies)
func_lets = st.lists(lets, max_size=3).map(tuple)
funcs = st.builds(syntax.Func, names, params, dtypes, func_lets, expressions)
modules = st.builds(
    syntax.Module,
    st.lists(st.one_of(kernels, funcs, consts()), max_size=3).map(tuple),
    st.just(Source("random", "")),
)
