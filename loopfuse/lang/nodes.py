"""The core: a typed program with one meaning, shared by every later room.

After `lang.check.check`: names are resolved and unique within a kernel, `func`s are inlined, constants
folded, loops over const tables unrolled, every expression has a dtype, every conversion is an
explicit `Cast`, FMAs are explicit, and each Reduce is a statement. What is written is what is
computed: operations are never reassociated after this point.

Grammar of the core (one line a node)::

    kernel  = (params, sizes, body: stmt*)
    stmt    = For iter lower upper step body | If cond then else | Store target value
            | Define name value | Reduce name op ranges body value | Temp name extents
            | Assume cond | Block kind body
    expr    = Const | Iter | Symbol | Load | Unary | Binary | Compare | Select | Cast | Call | Fma

Index expressions (bounds, subscripts, extents) are the same `Expr`, of dtype i64.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import cast

from loopfuse.base.diagnostics import NOWHERE, Source, Span
from loopfuse.base.dtypes import DType


@dataclass(frozen=True, slots=True)
class Node:
    """What every core node has: the place in the source it came from."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True, repr=False)


# ------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Operand(Node):
    """What every expression has: the operators of index arithmetic.

    `i + 1`, `2 * n - i`, `n // 4`, `i % 5` are the i64 that they look like, with constants folded and
    neutral operands dropped (`combine`); `i < n` is the condition (`compare`). Python's `==` asks whether
    two expressions are written alike. All other arithmetic is written out, with its type.
    """

    def __add__(self, other: Expr | int) -> Expr:
        return combine("add", self, other)

    def __sub__(self, other: Expr | int) -> Expr:
        return combine("sub", self, other)

    def __mul__(self, other: Expr | int) -> Expr:
        return combine("mul", self, other)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return combine("floordiv", self, other)

    def __mod__(self, other: Expr | int) -> Expr:
        return combine("mod", self, other)

    def __radd__(self, other: int) -> Expr:
        return combine("add", other, self)

    def __rsub__(self, other: int) -> Expr:
        return combine("sub", other, self)

    def __rmul__(self, other: int) -> Expr:
        return combine("mul", other, self)

    def __rfloordiv__(self, other: int) -> Expr:
        return combine("floordiv", other, self)

    def __rmod__(self, other: int) -> Expr:
        return combine("mod", other, self)

    def __lt__(self, other: Expr | int) -> Expr:
        return compare("lt", self, other)

    def __le__(self, other: Expr | int) -> Expr:
        return compare("le", self, other)

    def __gt__(self, other: Expr | int) -> Expr:
        return compare("gt", self, other)

    def __ge__(self, other: Expr | int) -> Expr:
        return compare("ge", self, other)


@dataclass(frozen=True, slots=True)
class Const(Operand):
    """A literal, already representable in `dtype` (f32 values are rounded to f32)."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iter(Operand):
    """The value of a loop's iterator, an i64. In a LoopTree: of a tree loop's variable."""

    name: str

    @property
    def dtype(self) -> DType:
        """Always i64."""
        return DType.I64


@dataclass(frozen=True, slots=True)
class Symbol(Operand):
    """A size or a scalar parameter: fixed for the whole call."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Swapped:
    """After a `swap`: where `parity` (i64, affine, taken mod 2 already) is 1, the access goes to
    `array` instead of the one it names."""

    array: str
    parity: Expr


@dataclass(frozen=True, slots=True)
class Load(Operand):
    """`array[index]`; scalars (`let`, `var`, a Reduce's result) are arrays with an empty index.

    `mode` is "" or an edge mode (clamp wrap reflect symmetric zero) that holds for every
    dimension of the access. Only `poly.edges.lower_edges` removes modes; trees have none.
    """

    array: str
    index: tuple[Expr, ...]
    dtype: DType
    mode: str = ""
    swapped: Swapped | None = None


@dataclass(frozen=True, slots=True)
class Unary(Operand):
    """`neg` (any number), `not` (bool), `invert` (integers and bool)."""

    op: str
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary(Operand):
    """Both operands and the result have `dtype`.

    Ops: `add sub mul div floordiv mod` (floordiv and mod floor; integer `div` never occurs),
    `min max` (NaN propagates, -0.0 < +0.0), `fmin fmax` (NaN ignored), `and or xor` (integers
    bitwise, bools logical; both sides are evaluated), `shl shr`, and the functions of two
    arguments: `pow atan2 hypot copysign fmod` (the last exact, with the sign of the left one).
    """

    op: str
    left: Expr
    right: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Compare(Operand):
    """`eq ne lt le gt ge` of operands of one dtype (not necessarily bool); the result is bool."""

    op: str
    left: Expr
    right: Expr

    @property
    def dtype(self) -> DType:
        """Always bool."""
        return DType.BOOL

    def __bool__(self) -> bool:
        """A comparison of index expressions has no truth value: `0 <= i < n` would forget its first half."""
        raise TypeError(f"{self} is an expression, not a truth value")


@dataclass(frozen=True, slots=True)
class Select(Operand):
    """`then if condition else otherwise`; only the chosen arm's loads need be in bounds. `eager`: those of both arms
    are, so that both may be computed (`poly.eager`)."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType
    eager: bool = False


@dataclass(frozen=True, slots=True)
class Cast(Operand):
    """Conversion to `dtype`: rounds to nearest even, float to integer truncates and saturates
    (NaN gives 0), integers wrap, to bool is `!= 0`."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(Operand):
    """A function of one argument of `dtype`: those of one argument in `ops.OPERATIONS` (round: half
    to even).

    In subscripts alone, `inside(subscript, extent)` is the subscript itself where nothing proves
    that it is in 0..extent (it depends on data, or is not affine): the access is checked when it
    runs. A bad read gives 0, a bad write is dropped, and the first offender is recorded."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Fma(Operand):
    """`a * b + c`, rounded once. A subtraction carries an exact `neg` on `a` or `c`."""

    a: Expr
    b: Expr
    c: Expr
    dtype: DType


Expr = Const | Iter | Symbol | Load | Unary | Binary | Compare | Select | Cast | Call | Fma

# -------------------------------------------------------------------------- index arithmetic


def zero(dtype: DType) -> Const:
    """0 (or false) of a type."""
    return Const(0.0 if dtype.is_float else dtype is not DType.BOOL and 0, dtype)


def integer(value: int) -> Const:
    """The i64 constant `value`."""
    return Const(value, DType.I64)


def combine(op: str, left: Operand | int, right: Operand | int) -> Expr:
    """`left op right` (add sub mul floordiv mod min max) as an i64, with constants folded and neutral
    operands dropped."""
    left, right = _operand(left), _operand(right)
    if isinstance(right, Const):
        if isinstance(left, Const):
            return integer(apply_index(op, int(left.value), int(right.value)))
        value = right.value
        if op == "add" or op == "sub":
            if value == 0:
                return left
            if value < 0:
                return Binary("sub" if op == "add" else "add", left, integer(-int(value)), DType.I64)
        elif op == "mul" or op == "floordiv":
            if value == 1:
                return left
            if value == 0 and op == "mul":
                return integer(0)
        elif op == "mod" and value == 1:
            return integer(0)
    elif isinstance(left, Const):
        if op == "add" and left.value == 0:
            return right
        if op == "mul":
            if left.value == 1:
                return right
            if left.value == 0:
                return integer(0)
    return Binary(op, left, right, DType.I64, span=left.span)


def compare(op: str, left: Operand | int, right: Operand | int) -> Expr:
    """`left op right` (eq ne lt le gt ge) on index expressions, constants folded."""
    left, right = _operand(left), _operand(right)
    if isinstance(left, Const) and isinstance(right, Const):
        holds = getattr(operator, op)(int(left.value), int(right.value))
        return Const(holds, DType.BOOL)
    return Compare(op, left, right)


def apply_index(op: str, left: int, right: int) -> int:
    """What index arithmetic makes of two numbers; by 0, `//` and `%` give 0."""
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "floordiv":
            return left // right if right else 0
        case "mod":
            return left % right if right else 0
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case _:
            raise ValueError(f"`{op}` is not an operation of index expressions")


def _operand(value: Operand | int) -> Expr:
    return cast(Expr, value) if isinstance(value, Operand) else Const(value, DType.I64)


# -------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class For(Node):
    """Runs `body` for iterator = lower, lower+step, ... while before `upper` (half open; `step`
    may be negative: then while greater than `upper`). `iterator` is unique in the kernel.

    `label` is the loop's id (`L1`, `L1.2`): one per outermost source `for`, `L1.k` for its parts;
    inner loops of one header share their header's label. `parallel`: the user wrote it.
    """

    iterator: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Stmt, ...]
    label: str = ""
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class If(Node):
    """Runs `then` or `otherwise`. Whether the condition is affine in iterators and symbols (and
    so exact) is for poly to see; any other condition predicates the stores inside."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Store(Node):
    """`target = value`. `reduction` names the operation (`sum prod min max and or xor`) when the
    source was `target op= e`: then `value` is `op(target, e)` (or an Fma whose `c` is target).
    `label` is the statement's id, `S1`; `loop` its own loop id where it stands outside all loops
    (a nest of depth 0)."""

    target: Load
    value: Expr
    reduction: str = ""
    label: str = ""
    loop: str = ""


@dataclass(frozen=True, slots=True)
class Define(Node):
    """Declares the scalar `name`, private to the iteration of the loop it stands in, and sets it.
    Later assignments to a `var` are Stores with an empty index."""

    name: str
    dtype: DType
    value: Expr
    mutable: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Range(Node):
    """One iterator of a Reduce: `lower..upper step step`."""

    iterator: str
    lower: Expr
    upper: Expr
    step: int = 1


@dataclass(frozen=True, slots=True)
class Reduce(Node):
    """Declares the scalar `name`, sets it to the operation's neutral element, and for each point
    of `ranges` runs `body` (Defines and inner Reduces) and then `name = value`, where `value`
    reads `name`: `op(name, e)`, or an Fma whose `c` is `name`.

    `op` is sum prod min max any all argmin argmax; `dtype` is the accumulator's. A Reduce that is
    the whole right side of a `let` carries the let's name; any other is hoisted before its
    statement and named after the target (`y.sum`, `y.sum2`). `label` is the statement's id, `S1`;
    `loop` is its loop's, `L1` where it stands outside all loops, else a part `L1.2`.
    """

    name: str
    dtype: DType
    op: str
    ranges: tuple[Range, ...]
    body: tuple[Stmt, ...]
    value: Expr
    label: str = ""
    loop: str = ""


@dataclass(frozen=True, slots=True)
class Temp(Node):
    """Declares an array private to the iteration of the loop it stands in."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Assume(Node):
    """A condition on symbols and iterators that the caller promises; checked where it can be."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`fuse` or `nofuse` (`kind`) around statements."""

    kind: str
    body: tuple[Stmt, ...]


Stmt = For | If | Store | Define | Reduce | Temp | Assume | Block

# -------------------------------------------------------------------------------- top level


@dataclass(frozen=True, slots=True)
class ArrayParam(Node):
    """An array argument: `extents` are affine in the kernel's sizes; `mode` in, out or inout."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    mode: str


@dataclass(frozen=True, slots=True)
class ScalarParam(Node):
    """A scalar argument; `is_const` ones specialise the kernel."""

    name: str
    dtype: DType
    is_const: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """Two array parameters whose names end a kernel exchanged where `parity` (affine in sizes and
    integer parameters) is 1: each then refers to the other's array."""

    left: str
    right: str
    parity: Expr


@dataclass(frozen=True, slots=True)
class Kernel(Node):
    """A kernel: parameters in order, the sizes its extents name (in order of appearance), body.

    `sizes` are the symbols that occur in extents and are not scalar parameters; each is an i64
    of at least 0. `params` keeps the order the caller passes arguments in.
    """

    name: str
    params: tuple[ArrayParam | ScalarParam, ...]
    sizes: tuple[str, ...]
    body: tuple[Stmt, ...]
    exchanges: tuple[Exchange, ...] = ()

    @property
    def arrays(self) -> tuple[ArrayParam, ...]:
        """The array parameters, in order."""
        return tuple(param for param in self.params if isinstance(param, ArrayParam))

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        """The scalar parameters, in order."""
        return tuple(param for param in self.params if isinstance(param, ScalarParam))


@dataclass(frozen=True, slots=True)
class Program:
    """One checked source: its kernels in text order."""

    kernels: tuple[Kernel, ...]
    source: Source = field(compare=False)

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name`; KeyError if there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)
