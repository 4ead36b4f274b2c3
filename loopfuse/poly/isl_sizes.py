"""Sizes and integer parameters that satisfy conditions: points of the set that isl makes of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Call, Compare, Const, Expr, Select, Symbol, Unary
from loopfuse.poly import isl

_BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip
_COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


def read_condition(text: str) -> Expr | None:
    """A formula of a manifest or a report as an expression; None for one that is no such formula."""
    try:
        return _expression(ast.parse(text, mode="eval").body)
    except (KeyError, ValueError, SyntaxError, RecursionError):
        return None


def _expression(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(value=bool() as value):
            return Const(value, DType.BOOL)
        case ast.Constant(value=int() as value):
            return Const(value, DType.I64)
        case ast.Name(id=name):
            return Symbol(name, DType.I64)
        case ast.BinOp(left=left, op=op, right=right):
            return Binary(_BINARY[type(op)], _expression(left), _expression(right), DType.I64)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Unary("neg", _expression(operand), DType.I64)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Unary("not", _expression(operand), DType.BOOL)
        case ast.BoolOp(op=op, values=values):
            return _joined("and" if isinstance(op, ast.And) else "or", values, DType.BOOL)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return Compare(_COMPARE[type(op)], _expression(left), _expression(right))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return Select(_expression(test), _expression(then), _expression(otherwise), DType.I64)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments) if arguments:
            return _joined(name, arguments, DType.I64)
        case ast.Call(func=ast.Name(id="abs"), args=[operand]):
            return Call("abs", (_expression(operand),), DType.I64)
        case _:
            raise ValueError(ast.dump(node))


def _joined(op: str, values: Sequence[ast.expr], dtype: DType) -> Expr:
    found = _expression(values[0])
    for value in values[1:]:
        found = Binary(op, found, _expression(value), dtype)
    return found


class SizeSet:
    """The points of `names` between `limits` where every condition holds that isl can express. The
    others are in `left`, by their places in `conditions`."""

    def __init__(
        self,
        names: Sequence[str],
        conditions: Sequence[Expr],
        limits: Mapping[str, tuple[int, int]],
    ) -> None:
        self.names = tuple(names)
        self.context = isl.Context()
        space = isl.set_space(self.context, (), self.names)
        self._reader = reader = isl.Reader(space)
        self.points: Any = isl.universe(space)
        for name in names:
            low, high = (reader.constant(end) for end in limits[name])
            value = reader.affine({name: 1})
            self.points = self.points.intersect(value.ge_set(low)).intersect(value.le_set(high))
        left: list[int] = []
        for number, condition in enumerate(conditions):
            try:
                holds = self.context.ask(lambda each=condition: reader.condition(each))
            except isl.Unknown:
                holds = None
            if holds is None:
                left.append(number)
            else:
                self.points = self.points.intersect(holds)
        self.left = tuple(left)

    def fixed(self, values: Mapping[str, int]) -> Any:
        """The points where some names have these values."""
        points = self.points
        for name, value in values.items():
            if name in self.names:
                points = self._half(points, name, value, least=True)
                points = self._half(points, name, value, least=False)
        return points

    def is_empty(self, values: Mapping[str, int] | None = None) -> bool:
        """No point has these values. False where isl gives up."""
        try:
            return self.context.ask(lambda: bool(self.fixed(values or {}).is_empty()))
        except isl.Unknown:
            return False

    def near(
        self, wanted: Mapping[str, int], values: Mapping[str, int] | None = None
    ) -> dict[str, int] | None:
        """A point with these `values`, its other coordinates as close to `wanted` as may be, one after
        the other: the next from it upwards, else the next downwards. None where there is none."""
        try:
            return self.context.ask(lambda: self._near(wanted, values or {}))
        except isl.Unknown:
            return None

    def _near(self, wanted: Mapping[str, int], values: Mapping[str, int]) -> dict[str, int] | None:
        points = self.fixed(values)
        if points.is_empty():
            return None
        for name, value in wanted.items():
            if name in values:
                continue
            above = self._half(points, name, value, least=True)
            place = self.names.index(name)
            upwards = not above.is_empty()
            line = self._alone(above if upwards else points, place)
            end = isl.integer_of(line.dim_min_val(0) if upwards else line.dim_max_val(0))
            if end is None:
                return None
            points = self._half(self._half(points, name, end, True), name, end, False)
        found = isl.sample(points)
        return None if found is None else dict(zip(self.names, found[1], strict=True))

    def _half(self, points: Any, name: str, value: int, least: bool) -> Any:
        coordinate, end = self._reader.affine({name: 1}), self._reader.constant(value)
        return points.intersect(coordinate.ge_set(end) if least else coordinate.le_set(end))

    def _alone(self, points: Any, place: int) -> Any:
        count = len(self.names)
        points = points.project_out(isl.SET, place + 1, count - place - 1)
        return points.project_out(isl.SET, 0, place)
