"""The surface tree: a program as it was written, names unresolved and types unknown.

Every door (`frontend/lf/door.py`, later `frontend/python/door.py`) produces a `Module`; `lang.check.check` turns
it into the typed core of `lang.nodes`; `lang.surface.format` prints it (`parse(format(m)) == m`, since
spans do not take part in comparison). Nodes are plain: no node holds a type or a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loopfuse.base.diagnostics import NOWHERE, Source, Span
from loopfuse.base.dtypes import DType


@dataclass(frozen=True, slots=True)
class Node:
    """What every surface node has: where it stands in the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


# ------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal: int, float (`inf`, `nan`, `pi` included) or bool. `text` is its spelling."""

    value: bool | int | float
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An identifier in an expression: a scalar, size, iterator or constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """`array[i, j]`, or with an edge mode `array.clamp[i, j]` (clamp wrap reflect symmetric zero)."""

    array: str
    index: tuple[Expr, ...]
    mode: str = ""
    array_span: Span = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `+x`, `~x`, `not x`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`+ - * / // % ** | ^ & << >> and or`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """A chain `a < b <= c`: `ops[k]` stands between `operands[k]` and `operands[k+1]`."""

    operands: tuple[Expr, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`then if condition else otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(x, y)`: a `func`, a math function, `min`/`max`, or a cast spelled as a type name."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`iterator in lower..upper [step k]`."""

    iterator: str
    lower: Expr
    upper: Expr
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Reduction(Node):
    """`sum(k in a..b, l in c..d: body)`; `op` is sum prod min max any all argmin argmax."""

    op: str
    ranges: tuple[Range, ...]
    body: Expr


Expr = (
    Number | Name | Subscript | Unary | Binary | Comparison | Conditional | Call | Reduction
)

# -------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`target op= value`; `op` is "" for a plain `=`, else + - * / & | ^ min max."""

    target: Name | Subscript
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`let x[: dtype] = e` (`mutable` False) or `var x: dtype = e` (`mutable` True). `weak`: a
    variable that holds a Python number (the Python door's; .lf text cannot say it)."""

    name: str
    dtype: DType | None
    value: Expr
    mutable: bool = False
    name_span: Span = field(default=NOWHERE, compare=False, kw_only=True)
    weak: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Temp(Node):
    """`temp t: f32[N, M]`."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class For(Node):
    """`[parallel] for i in a..b, j in c..d:`; several ranges are a nest, outermost first."""

    ranges: tuple[Range, ...]
    body: tuple[Stmt, ...]
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if c: ... elif d: ... else: ...`; an `elif` is an If alone in `otherwise`."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Swap(Node):
    """`swap a, b`: exchanges what two array names refer to."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Assume(Node):
    """`assume condition`."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`fuse:` or `nofuse:` (`kind`) around statements."""

    kind: str
    body: tuple[Stmt, ...]


Stmt = Assign | Let | Temp | For | If | Swap | Assume | Block

# -------------------------------------------------------------------------------- top level


@dataclass(frozen=True, slots=True)
class Param(Node):
    """A parameter. `extents` is None for a scalar; `mode` is in, out or inout; `is_const` marks
    `S: const i64`; `weak` a Python number, which takes the type of what stands beside it, and
    `quiet` one that needs no use, since its caller uses it (the Python door's; .lf text cannot say
    these)."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...] | None = None
    mode: str = "in"
    is_const: bool = False
    weak: bool = field(default=False, kw_only=True)
    quiet: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Func(Node):
    """`func f(a: f32) -> f32:` with `let`s and one final `return`. `weak`: the result is a Python
    number (the Python door's)."""

    name: str
    params: tuple[Param, ...]
    result: DType
    lets: tuple[Let, ...]
    value: Expr
    weak: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Const(Node):
    """`const K = 3`, `const c: i32[3] = [0, 1, 2]`: `values` is nested tuples for a table."""

    name: str
    dtype: DType | None
    extents: tuple[Expr, ...] | None
    values: Expr | tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Kernel(Node):
    """`kernel name(params):` and its body. `quiet`: temporaries that the Python door's text names
    elsewhere (an exchange, a shape), whose use is no use of their elements."""

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    name_span: Span = field(default=NOWHERE, compare=False, kw_only=True)
    quiet: frozenset[str] = field(default=frozenset(), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its items in text order. `comments` are (line, text) pairs, own-line or
    trailing, kept for the formatter."""

    items: tuple[Func | Const | Kernel, ...]
    source: Source = field(compare=False)
    comments: tuple[tuple[int, str], ...] = field(default=(), compare=False)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in text order."""
        return tuple(item for item in self.items if isinstance(item, Kernel))
