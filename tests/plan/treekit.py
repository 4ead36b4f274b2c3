"""Kernels and trees written briefly: expressions from Python text, nodes from small functions.

A name that starts with a capital is a size, a declared name an array or buffer, any other a loop
variable. Arrays are f64 unless declared otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import (
    ArrayParam,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    Iter,
    Kernel,
    Load,
    Range,
    Reduce,
    Select,
    Stmt,
    Store,
    Symbol,
    Temp,
    Unary,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import children, substitute, symbols, with_children
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import (
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    Home,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Register,
    TreeNode,
)

F64, I64, BOOL = DType.F64, DType.I64, DType.BOOL
_OPS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}  # fmt: skip
_COMPARES = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


class Kit:
    """Reads expressions over the arrays and buffers it was told of."""

    def __init__(self, **dtypes: DType) -> None:
        self.dtypes: dict[str, DType] = dict(dtypes)

    def ex(self, text: str) -> Expr:
        """The core expression that the Python expression `text` means."""
        return self._read(ast.parse(text.strip(), mode="eval").body)

    def load(self, text: str) -> Load:
        """`text` as a Load."""
        found = self.ex(text)
        assert isinstance(found, Load), text
        return found

    def _read(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=bool() as value):
                return Const(value, BOOL)
            case ast.Constant(value=int() as value):
                return Const(value, I64)
            case ast.Constant(value=float() as value):
                return Const(value, F64)
            case ast.Name(id=name):
                if name in self.dtypes:
                    return Load(name, (), self.dtypes[name])
                return Symbol(name, I64) if name[0].isupper() else Iter(name)
            case ast.Subscript(value=ast.Name(id=name), slice=place):
                parts = place.elts if isinstance(place, ast.Tuple) else [place]
                return Load(name, tuple(self._read(p) for p in parts), self.dtypes[name])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._read(operand)
                if isinstance(inner, Const):
                    return Const(-inner.value, inner.dtype)
                return Unary("neg", inner, inner.dtype)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._weak(self._read(left), self._read(right))
                return Binary(_OPS[type(op)], first, second, first.dtype)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                parts: list[Expr] = []
                for op, right in zip(ops, rights, strict=True):
                    first, second = self._weak(self._read(left), self._read(right))
                    parts.append(Compare(_COMPARES[type(op)], first, second))
                    left = right
                return self._fold("and", parts, BOOL)
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                return self._fold(name, [self._read(value) for value in values], BOOL)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                first, second = self._weak(self._read(body), self._read(orelse))
                return Select(self._read(test), first, second, first.dtype)
            case ast.Call(func=ast.Name(id="min" | "max" as op), args=[left, right]):
                first, second = self._weak(self._read(left), self._read(right))
                return Binary(op, first, second, first.dtype)
            case ast.Call(func=ast.Name(id="f64"), args=[operand]):
                return Cast(self._read(operand), F64)
            case ast.Call(func=ast.Name(id=name), args=[operand]):
                inner = self._read(operand)
                return Call(name, (inner,), inner.dtype)
            case _:
                raise ValueError(ast.dump(node))

    @staticmethod
    def _weak(left: Expr, right: Expr) -> tuple[Expr, Expr]:
        """A literal takes the type of the operand beside it."""
        if isinstance(left, Const) and left.dtype is not right.dtype:
            return Const(type(_zero(right.dtype))(left.value), right.dtype), right
        if isinstance(right, Const) and left.dtype is not right.dtype:
            return left, Const(type(_zero(left.dtype))(right.value), left.dtype)
        return left, right

    @staticmethod
    def _fold(op: str, parts: Sequence[Expr], dtype: DType) -> Expr:
        out = parts[0]
        for part in parts[1:]:
            out = Binary(op, out, part, dtype)
        return out

    # ------------------------------------------------------------------------ kernels

    def kernel(self, name: str, params: str, *body: Stmt) -> Kernel:
        """`params`: `in a[N, M]; out b[N]; ...`."""
        arrays: list[ArrayParam] = []
        sizes: dict[str, None] = {}
        for text in params.split(";"):
            mode, rest = text.strip().split(" ", 1)
            array, _, extents = rest.strip().rstrip("]").partition("[")
            self.dtypes.setdefault(array, F64)
            parts = [self.ex(part) for part in extents.split(",")]
            sizes.update(dict.fromkeys(s for part in parts for s in sorted(symbols(part))))
            arrays.append(ArrayParam(array, self.dtypes[array], tuple(parts), mode))
        return Kernel(name, tuple(arrays), tuple(sizes), tuple(body))

    def declare(self, text: str, dtype: DType = F64) -> None:
        """Make names known before they are used: `tmp acc`."""
        for name in text.split():
            self.dtypes.setdefault(name, dtype)

    def temp(self, name: str, extents: str, dtype: DType = F64) -> Temp:
        self.dtypes[name] = dtype
        return Temp(name, dtype, tuple(self.ex(part) for part in extents.split(",")))

    def for_(self, header: str, *body: Stmt) -> For:
        """`header`: `i in 0..N`, or `i in 0..N step 2`."""
        var, lower, upper, step = self._range(header)
        return For(var, lower, upper, step, tuple(body))

    def _range(self, header: str) -> tuple[str, Expr, Expr, int]:
        var, _, rest = header.partition(" in ")
        bounds, _, step = rest.partition(" step ")
        lower, _, upper = bounds.partition("..")
        return var.strip(), self.ex(lower), self.ex(upper), int(step or 1)

    def store(self, label: str, text: str, reduction: str = "") -> Store:
        """`a[i] = e`."""
        target, _, value = text.partition(" = ")
        place = self.load(target)
        result, _ = self._weak(self.ex(value), place)
        return Store(place, result, reduction, label)

    def reduce(self, label: str, name: str, op: str, header: str, value: str) -> Reduce:
        """`value` names the accumulator `name`."""
        self.dtypes.setdefault(name, F64)
        ranges = tuple(Range(*self._range(part)) for part in header.split(";"))
        return Reduce(name, self.dtypes[name], op, ranges, (), self.ex(value), label)

    # ------------------------------------------------------------------------ trees

    def buffer(
        self,
        name: str,
        extents: str = "",
        home: Home | None = None,
        array: str | None = None,
        zeroed: bool = False,
        dtype: DType | None = None,
    ) -> Buffer:
        self.dtypes[name] = dtype or self.dtypes.get(array or name, F64)
        parts = tuple(self.ex(part) for part in extents.split(",")) if extents else ()
        holds = name if array is None else array
        return Buffer(name, holds, self.dtypes[name], parts, home or Register(), zeroed=zeroed)

    def arguments(self, kernel: Kernel) -> list[Buffer]:
        """The buffers of a kernel's array arguments, under their own names."""
        return [
            Buffer(param.name, param.name, param.dtype, param.extents, Global(), argument=True)
            for param in kernel.arrays
        ]

    def loop(self, mapping: Mapping | str, header: str, *body: TreeNode) -> Loop:
        """`header` as for `for_`; several parts separated by `;` nest."""
        head, _, rest = header.partition(";")
        if rest:
            body = (self.loop(mapping, rest, *body),)
        var, lower, upper, step = self._range(head)
        return Loop(var, lower, upper, step, Mapping(mapping), tuple(body))

    def guard(self, condition: str, *then: TreeNode) -> Guard:
        return Guard(self.ex(condition), tuple(then))

    def host(self, header: str, *body: HostNode) -> HostLoop:
        var, lower, upper, step = self._range(header)
        return HostLoop(var, lower, upper, step, tuple(body))

    def copy(self, target: str, value: str) -> Copy:
        place = self.load(target)
        found, _ = self._weak(self.ex(value), place)
        return Copy(place, found)

    def neutral(self, target: str, op: str = "sum") -> Copy:
        place = self.load(target)
        return Copy(place, Const(neutral(op, place.dtype), place.dtype))

    def fold(self, op: str, target: str, value: str) -> Fold:
        return Fold(op, self.load(target), self.load(value))

    def combine(self, op: str, buffer: str, *over: str) -> Combine:
        return Combine(op, buffer, over)

    def compute(
        self,
        program: PolyProgram,
        statement: str,
        iteration: str,
        target: str | None = None,
        reads: dict[str, str | Callable[..., str] | list[str]] | None = None,
    ) -> Compute:
        """The statement's instance at `iteration`. Loads of an array in `reads` go where that
        says: a place, places one after the other, or a function of the subscripts' texts."""
        what = program.statement(statement)
        parts = [self.ex(part) for part in iteration.split(",")] if iteration else []
        values = dict(zip(what.iterators, parts, strict=True))
        moved = {k: list(v) for k, v in (reads or {}).items() if isinstance(v, list)}

        def redirect(load: Load) -> Load:
            to = (reads or {}).get(load.array)
            if to is None:
                return load
            if callable(to):
                from loopfuse.tree.printer import print_expr

                return self.load(to(*(print_expr(part) for part in load.index)))
            return self.load(to if isinstance(to, str) else moved[load.array].pop(0))

        def place(expr: Expr) -> Expr:
            below = children(expr)
            if below:
                expr = with_children(expr, tuple(place(child) for child in below))
            return redirect(expr) if isinstance(expr, Load) else expr

        predicate = what.predicate
        if predicate is not None:
            predicate = place(substitute(predicate, values))
        value = place(substitute(what.value, values))
        goal = self.load(target) if target else substitute(what.target, values)
        assert isinstance(goal, Load)
        return Compute(statement, tuple(parts), goal, value, predicate)


def launch(name: str, *body: TreeNode) -> Launch:
    return Launch(name, "test", (), tuple(body))


def tree(name: str, device: str, buffers: Sequence[Buffer], *body: HostNode) -> LoopTree:
    return LoopTree(name, device, tuple(buffers), tuple(body))


def _zero(dtype: DType) -> bool | int | float:
    return False if dtype is BOOL else 0 if dtype.is_integer else 0.0


def of_doubled(value: str) -> str:
    """The text of a kernel that doubles a volume, `b[z, y, x] = 2.0 * a[z, y, x]`, and makes `value` of b."""
    return f"""
kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
    temp b: f32[D, H, W]
    for z in 0..D, y in 0..H, x in 0..W:
        b[z, y, x] = 2.0 * a[z, y, x]
    for z in 0..D, y in 0..H, x in 0..W:
        c[z, y, x] = {value}
"""
