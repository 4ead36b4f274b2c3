"""What is known of one function while it is read: the record that every reading function takes.

Values are terms, memrefs are arrays; both are found where they are defined and kept. How an
operation is read as an expression is `State.read` (`affine_values.read_result`): a value's operands
are values again, and this is the one place where that circle closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Operation, SSAValue

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.arith import Unread, dtype_of
from loopfuse.frontend.mlir.names import Names
from loopfuse.frontend.mlir.ops import maker
from loopfuse.frontend.mlir.terms import LARGEST, Term
from loopfuse.frontend.mlir.text import refuse
from loopfuse.lang.surface.syntax import Expr


@dataclass(frozen=True, slots=True)
class Array:
    """A memref by name: its element type, its extents, and whether it is one scalar."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_scalar: bool = False


@dataclass(slots=True)
class State:
    """One function, as far as it is read."""

    source: Source
    places: dict[Operation, Span]
    names: Names
    read: Callable[[State, Operation, SSAValue], Term]
    """The expression of a result of a pure operation."""
    arrays: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    """Memrefs that have a name."""
    terms: dict[SSAValue, Term] = field(default_factory=dict[SSAValue, Term])
    """Values that were read; an accumulator's memref, too, once it is one expression."""
    accumulators: set[SSAValue] = field(default_factory=set[SSAValue])
    """Memrefs of one element whose only load is the expression in `terms`."""
    loaded: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    pure: dict[Operation, bool] = field(default_factory=dict[Operation, bool])
    """What `affine_pure.is_pure` has answered."""
    lengths: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """How long the chains of values are that end in an operation (`affine_lets.is_long`)."""

    def place(self, op: Operation | None) -> Span:
        """Where `op` stands."""
        while op is not None and op not in self.places:
            op = op.parent_op()
        return self.places[op] if op is not None else Span(1, 1, 1, 2)

    def limit(self, op: Operation, message: str, fix: str = "") -> LimitError:
        """What this version cannot read."""
        return LimitError(
            Diagnostic("mlir-limit", message, self.place(op), fix=fix, source=self.source)
        )

    def array(self, value: SSAValue, op: Operation) -> Array:
        """The array a memref value is."""
        found = self.arrays.get(value)
        if found is None:
            raise self.limit(
                op, "this memref is not an argument or an allocation",
                "access the memref that was allocated or passed, not a view of it",
            )  # fmt: skip
        return found

    def value(self, value: SSAValue) -> Term:
        """The expression a value is."""
        known = self.terms.get(value)
        if known is not None:
            return known
        op = maker(value)
        if op is None:
            if isinstance(value.type, MemRefType):
                raise self.limit(
                    _user_of(value), "a memref is used where a number is expected",
                    "use the memref that was allocated or passed",
                )  # fmt: skip
            place, source = self.place(_user_of(value)), self.source
            raise UserError(
                Diagnostic(
                    "mlir-invalid",
                    "a value that nothing here defines",
                    place,
                    fix="define it before it is used",
                    source=source,
                )
            )
        try:
            found = self.read(self, op, value)
        except Unread as error:
            refuse(self.source, self.place(op), "mlir-unread", str(error), error.fix)
        if found.size > LARGEST:
            raise self.limit(
                op, f"this expression has more than {LARGEST} parts in one piece",
                "store a part of it to a memref, and load it again",
            )  # fmt: skip
        self.terms[value] = found
        return found

    def indices(self, operands: Iterable[SSAValue]) -> list[Expr]:
        """The expressions of index values."""
        return [self.value(each).expr for each in operands]

    def reads(self, operands: Iterable[SSAValue]) -> frozenset[str]:
        """What the values read."""
        return frozenset().union(*(self.value(each).reads for each in operands))

    def typed(self, kind: Any, span: Span) -> DType:
        """The type of a value."""
        try:
            return dtype_of(kind)
        except Unread as error:
            refuse(self.source, span, "mlir-unread", str(error), error.fix)

    def element_type(self, op: Operation, kind: Any) -> DType:
        """The element type of an allocation; `loopfuse.dtype` names an unsigned one."""
        try:
            dtype = dtype_of(kind.element_type)
        except Unread as error:
            refuse(self.source, self.place(op), "mlir-unread", str(error), error.fix)
        return signed_as(dtype, op.attributes.get("loopfuse.dtype"))


def _user_of(value: SSAValue) -> Operation:
    """An operation that uses a value which is asked for."""
    return next(iter(value.uses)).operation


def signed_as(dtype: DType, attribute: Any) -> DType:
    """`dtype`, or the unsigned type of its width that the attribute names."""
    if (
        isinstance(attribute, StringAttr)
        and attribute.data == f"u{dtype.bits}"
        and dtype.is_integer
    ):
        return DType(attribute.data)
    return dtype
