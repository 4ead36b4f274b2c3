"""Structured MLIR operations as statements of the language.

before:  %s = affine.for %i = 0 to %n iter_args(%a = %zero) -> (f32) { ... yield %a + x[%i] }
after:   let s = sum(i in 0..n: x[i])

Values are read where they are used, as one expression. A value becomes a `let` where its
operation stands if it is used again, or if a store, or a loop that stores, comes between a load
and its use: an expression never reads an element later than MLIR does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import affine, arith, cf, func, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StringAttr, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.affine_arith import Unread, dtype_of, is_constant, read_operation
from loopfuse.frontend.affine_edges import edge_mode, zero_access
from loopfuse.frontend.affine_terms import (
    LARGEST,
    Linear,
    Term,
    add,
    coerced,
    conditional,
    expression_of,
    join,
    linear_of,
    map_results,
    number,
    set_condition,
)
from loopfuse.frontend.affine_text import refuse, unknown_operation
from loopfuse.lang import syntax
from loopfuse.lang.semantics import neutral
from loopfuse.lang.syntax import (
    Assign,
    Binary,
    Call,
    Expr,
    For,
    If,
    Let,
    Name,
    Range,
    Stmt,
    Subscript,
)

LOADS = (affine.LoadOp, memref.LoadOp)
STORES = (affine.StoreOp, memref.StoreOp)
LOOPS = (affine.ForOp, scf.ForOp)
IFS = (affine.IfOp, scf.IfOp)
_PURE = (affine.ApplyOp, affine.MinOp, memref.DimOp, affine.VectorLoadOp, *LOADS)
_PURE_NAMES = ("affine.max", "llvm.call_intrinsic", "vector.broadcast")
LANE = "lane"
MANY = -1
LONGEST = 60
"""Operations one after the other that become one expression."""
LARGEST_REGION = 400
"""Operations of a loop or `if` that becomes an expression."""

_STEPS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod", "arith.muli": "prod",
    "arith.minimumf": "min", "arith.minsi": "min", "arith.minui": "min", "arith.maximumf": "max",
    "arith.maxsi": "max", "arith.maxui": "max", "arith.ori": "any", "arith.andi": "all",
    "math.fma": "sum",
}  # fmt: skip
_UPDATES = {
    "arith.addf": "+", "arith.addi": "+", "arith.mulf": "*", "arith.muli": "*",
    "arith.minimumf": "min", "arith.minsi": "min", "arith.minui": "min",
    "arith.maximumf": "max", "arith.maxsi": "max", "arith.maxui": "max", "arith.ori": "|",
    "arith.andi": "&", "arith.xori": "^",
}  # fmt: skip
_PARALLEL = {
    "addf": ("sum", "+"), "addi": ("sum", "+"), "mulf": ("prod", "*"), "muli": ("prod", "*"),
    "minimumf": ("min", "min"), "maximumf": ("max", "max"), "mins": ("min", "min"),
    "maxs": ("max", "max"), "ori": ("or", "|"), "andi": ("and", "&"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Array:
    """A memref by name: its element type, its extents, and whether it is one scalar."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_scalar: bool = False


@dataclass
class Names:
    """Names that are not taken, near the ones the text has."""

    taken: set[str] = field(default_factory=set[str])

    def fresh(self, hint: str | None, prefix: str) -> str:
        """`hint` where it is a free name, else one like it."""
        text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint or "")
        base = text if text and not text[0].isdigit() and text.strip("_") else f"{prefix}{text}"
        base = base[:200]
        found, count = base, 2
        if not text:
            found, count = f"{base}1", 2
        while found in self.taken:
            found, count = f"{base}_{count}" if text else f"{base}{count}", count + 1
        self.taken.add(found)
        return found


class Scalars(dict[SSAValue, Term]):
    """Terms of values, by identity."""


class Body:
    """One function's operations as statements. `returned` maps allocations that the function
    returns to the `out` parameters they are."""

    def __init__(
        self,
        source: Source,
        places: dict[Operation, Span],
        names: Names,
        functions: dict[str, tuple[DType, ...]],
    ) -> None:
        self.source = source
        self.places = places
        self.names = names
        self.functions = functions
        self.arrays: dict[SSAValue, Array] = {}
        self.terms: dict[SSAValue, Term] = {}
        self.reductions: dict[SSAValue, Operation] = {}
        self.written: set[str] = set()
        self.lengths: dict[Operation, int] = {}
        self.loaded: set[str] = set()

    # -------------------------------------------------------------------------- helpers

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

    def operation(self, value: SSAValue) -> Operation | None:
        """The operation that makes `value`."""
        return value.owner if isinstance(value.owner, Operation) else None

    # --------------------------------------------------------------------------- values

    def value(self, value: SSAValue) -> Term:
        """The expression a value is."""
        known = self.terms.get(value)
        if known is not None:
            return known
        op = self.operation(value)
        if op is None:
            raise UserError(
                Diagnostic("mlir-invalid", "a value that nothing here defines", source=self.source)
            )
        try:
            found = self.read(op, value)
        except Unread as error:
            refuse(self.source, self.place(op), "mlir-unread", str(error))
        if found.size > LARGEST:
            raise self.limit(op, f"this expression has more than {LARGEST} parts in one piece")
        self.terms[value] = found
        return found

    def read(self, op: Operation, value: SSAValue) -> Term:
        """The expression of a pure operation's result."""
        span = self.place(op)
        match op:
            case affine.LoadOp() | memref.LoadOp():
                return self.load(op)
            case affine.VectorLoadOp():
                return self.vector_load(op)
            case memref.DimOp():
                position = self.value(op.index).constant
                extents = self.array(op.source, op).extents
                if not isinstance(position, int) or not 0 <= position < len(extents):
                    raise Unread("`memref.dim` of a dimension that is no constant of the memref's")
                return Term(extents[position], DType.I64, True)
            case affine.ApplyOp():
                (found,) = map_results(op.map.data, self.indices(op.operands), span)
                return Term(found, DType.I64, True, self.reads(op.operands), 3)
            case affine.MinOp() | Operation(name="affine.max"):
                return self.extreme(op, span)
            case affine.IfOp() | scf.IfOp():
                return self.choice(op, value)
            case affine.ForOp() | scf.ForOp():
                return self.carried_reduction(op)
            case func.CallOp():
                return self.call(op)
            case Operation(name="vector.broadcast"):
                return self.value(op.operands[0])
            case _:
                found = read_operation(op, self.value, span)
                if found is None:
                    raise unknown_operation(self.source, op.name, span)
                return found

    def indices(self, operands: Iterable[SSAValue]) -> list[Expr]:
        """The expressions of index values."""
        return [self.value(each).expr for each in operands]

    def reads(self, operands: Iterable[SSAValue]) -> frozenset[str]:
        """What the values read."""
        return frozenset().union(*(self.value(each).reads for each in operands))

    def extreme(self, op: Any, span: Span) -> Term:
        """`affine.min` and `affine.max`."""
        parts = map_results(op.map.data, self.indices(op.operands), span)
        if len(parts) == 1:
            return Term(parts[0], DType.I64, True, self.reads(op.operands))
        word = "min" if op.name == "affine.min" else "max"
        call = Call(word, tuple(parts), span=span)
        return Term(call, DType.I64, True, self.reads(op.operands), 3 * len(parts))

    def load(self, op: Any) -> Term:
        """An element: exact, under an edge mode, or of one of two memrefs."""
        span = self.place(op)
        source = self.operation(op.memref)
        if isinstance(source, arith.SelectOp):
            return conditional(
                self.value(source.cond),
                self.element(source.lhs, op, span),
                self.element(source.rhs, op, span),
                span,
            )
        return self.element(op.memref, op, span)

    def element(self, memref_: SSAValue, op: Any, span: Span) -> Term:
        """`array[index]`."""
        array = self.array(memref_, op)
        if memref_ in self.reductions:
            return self.terms[memref_]
        self.loaded.add(array.name)
        if array.is_scalar:
            return Term(Name(array.name, span=span), array.dtype, False, frozenset({array.name}))
        if isinstance(op, memref.LoadOp):
            mode, index = edge_mode(list(op.indices), array.extents, self.value)
            reads = self.reads(index)
            index = self.indices(index)
        else:
            mode, reads = "", self.reads(op.indices)
            index = map_results(op.map.data, self.indices(op.indices), span)
        if not index:
            index = [number(0, DType.I64, span)]
        expr = Subscript(array.name, tuple(index), mode, span=span, array_span=span)
        return Term(expr, array.dtype, False, reads | {array.name}, 2 + len(index))

    def vector_load(self, op: affine.VectorLoadOp) -> Term:
        """One lane of a vector."""
        array = self.array(op.memref, op)
        self.loaded.add(array.name)
        span = self.place(op)
        index = self.lanes(map_results(op.map.data, self.indices(op.indices), span))
        expr = Subscript(array.name, tuple(index), "", span=span, array_span=span)
        return Term(expr, array.dtype, False, frozenset({array.name}), 2 + len(index))

    @staticmethod
    def lanes(index: list[Expr]) -> list[Expr]:
        """The subscripts of a lane: the last one moves."""
        moved = Binary("+", index[-1], Name(LANE))
        return [*index[:-1], expression_of(linear_of(moved))]

    def choice(self, op: Any, value: SSAValue) -> Term:
        """An `if` that yields a value: only the chosen arm is computed."""
        number_ = list(op.results).index(value)
        condition = self.condition(op)
        zero = zero_access(op, self)
        if zero is not None:
            return zero
        arms: list[Term] = []
        for region in self.arms(op):
            arms.append(self.value(region.block.last_op.operands[number_]))  # type: ignore[union-attr]
        return conditional(condition, arms[0], arms[1], self.place(op))

    def condition(self, op: Any) -> Term:
        """What an `if` asks."""
        span = self.place(op)
        if isinstance(op, affine.IfOp):
            expr = set_condition(op.condition.data, self.indices(op.args), span)
            return Term(expr, DType.BOOL, False, self.reads(op.args), 4)
        return self.value(op.cond)

    @staticmethod
    def arms(op: Any) -> list[Region]:
        """The regions of an `if`."""
        if isinstance(op, affine.IfOp):
            return [op.then_region, op.else_region]
        return [op.true_region, op.false_region]

    def call(self, op: func.CallOp) -> Term:
        """A call of a private function of scalars."""
        name = op.callee.root_reference.data
        parts = [self.value(each) for each in op.operands]
        reads, size = join(*parts)
        expr = Call(name, tuple(part.expr for part in parts), span=self.place(op))
        return Term(expr, dtype_of(op.results[0].type), False, reads, size)

    # ----------------------------------------------------------------------- what is pure

    def is_pure(self, op: Operation) -> bool:
        """Whether the operation is read as an expression where its result is used."""
        if op in self._pure:
            return self._pure[op]
        found = self._judge(op)
        self._pure[op] = found
        return found

    @property
    def _pure(self) -> dict[Operation, bool]:
        return self.__dict__.setdefault("_pure_table", {})

    def _judge(self, op: Operation) -> bool:
        if (
            isinstance(op, _PURE)
            or op.name in _PURE_NAMES
            or op.name.split(".")[0] in ("arith", "math")
        ):
            return True
        if isinstance(op, func.CallOp):
            return len(op.results) == 1
        if isinstance(op, IFS) and op.results:
            regions = self.arms(op)
            return all(
                region.blocks
                and len(region.block.ops) <= LARGEST_REGION
                and all(self.is_pure(each) for each in list(region.block.ops)[:-1])
                for region in regions
            )
        if isinstance(op, LOOPS):
            return self.reduction_of(op) is not None
        return False

    def reduction_of(self, op: Any) -> tuple[list[Any], Operation, SSAValue] | None:
        """The loops, the step and the accumulator, where `op` is loops that carry one reduction:
        the step is `accumulator op e`, and nothing else uses the accumulator."""
        loops: list[Any] = []
        outer = op
        while True:
            if len(outer.results) != 1:
                return None
            loops.append(outer)
            block = outer.body.block
            accumulator = block.args[1]
            ops = list(block.ops)
            if len(ops) > LARGEST_REGION:
                return None
            last = self.operation(ops[-1].operands[0])
            if isinstance(last, LOOPS) and last.parent_block() is block:
                start = _starts(last)[0] if _starts(last) else None
                if (
                    start is accumulator
                    and len(list(accumulator.uses)) == 1
                    and all(each is last or self.is_pure(each) for each in ops[:-1])
                ):
                    outer = last
                    continue
                return None
            break
        if last is None or last.parent_block() is not block or last.name not in _STEPS:
            return None
        position = 2 if last.name == "math.fma" else 0
        if last.operands[position] is not accumulator:
            if last.name == "math.fma" or last.operands[1] is not accumulator:
                return None
            if last.name not in ("arith.addf", "arith.addi", "arith.mulf", "arith.muli"):
                return None
        if len(list(accumulator.uses)) != 1 or len(list(last.results[0].uses)) != 1:
            return None
        if not all(self.is_pure(each) for each in ops[:-1]):
            return None
        kind = _STEPS[last.name]
        try:
            dtype = dtype_of(op.results[0].type)
        except Unread:
            return None
        if kind in ("any", "all") and dtype is not DType.BOOL:
            return None
        if kind in ("sum", "prod") and dtype not in (DType.F32, DType.F64, DType.I64):
            return None  # the language adds up narrow types in wider ones
        if "ui" in last.name[-3:] or isinstance(op.results[0].type, (IndexType, VectorType)):
            return None
        start = _starts(loops[0])[0]
        if not is_constant(start, neutral(kind, dtype)):
            return None
        return loops, last, accumulator

    def carried_reduction(self, op: Any) -> Term:
        """`sum(i in a..b: e)`."""
        found = self.reduction_of(op)
        assert found is not None
        loops, step, accumulator = found
        taken = set(self.names.taken)
        ranges = tuple(self.range(loop) for loop in loops)
        term = self.reduction(op, ranges, step, accumulator, dtype_of(op.results[0].type))
        self.names.taken = taken
        return term

    def reduction(
        self, op: Operation, ranges: tuple[Range, ...], step: Operation, accumulator: SSAValue,
        dtype: DType,
    ) -> Term:  # fmt: skip
        """The expression of a reduction whose step is `step`, in an accumulator of `dtype`."""
        if step.name == "math.fma":
            a, b = self.value(step.operands[0]), self.value(step.operands[1])
            reads, size = join(a, b)
            body: Expr = Call("mlir.product", (a.expr, b.expr), span=self.place(step))
        else:
            other = step.operands[1] if step.operands[0] is accumulator else step.operands[0]
            part = coerced(self.value(other), dtype)
            body, reads, size = part.expr, part.reads, part.size
        expr = syntax.Reduction(_STEPS[step.name], ranges, body, span=self.place(op))
        return Term(expr, dtype, False, reads, size + 2)

    # ---------------------------------------------------------------------------- loops

    def range(self, op: Any) -> Range:
        """The range of a loop; its iterator becomes a name."""
        span = self.place(op)
        argument = op.body.block.args[0]
        down = self.downward(op)
        if down is not None:
            return down
        name = self.names.fresh(argument.name_hint, "i")
        self.terms[argument] = Term(Name(name, span=span), DType.I64, True)
        if isinstance(op, affine.ForOp):
            low = map_results(op.lowerBoundMap.data, self.indices(op.lowerBoundOperands), span)
            high = map_results(op.upperBoundMap.data, self.indices(op.upperBoundOperands), span)
            step = op.step.value.data
            lower = low[0] if len(low) == 1 else Call("max", tuple(low), span=span)
            upper = high[0] if len(high) == 1 else Call("min", tuple(high), span=span)
        else:
            lower, upper = self.value(op.lb).expr, self.value(op.ub).expr
            held = self.value(op.step).constant
            if not isinstance(held, int) or held <= 0:
                refuse(
                    self.source,
                    span,
                    "mlir-step",
                    "the step of this loop is not a positive constant",
                )
            step = held
        if step <= 0:
            refuse(
                self.source, span, "mlir-step", "the step of this loop is not a positive constant"
            )
        made = None if step == 1 else number(step, DType.I64, span)
        return Range(name, lower, upper, made, span=span)

    def downward(self, op: Any) -> Range | None:
        """`i in n-1..-1 step -1`, where a loop counts its iterations and does nothing with their
        number but subtract multiples of it from where it starts."""
        argument = op.body.block.args[0]
        uses = list(argument.uses)
        if not isinstance(op, affine.ForOp) or len(uses) != 1 or op.step.value.data != 1:
            return None
        apply = uses[0].operation
        if not isinstance(apply, affine.ApplyOp) or len(apply.mapOperands) != 2:
            return None
        span = self.place(op)
        low = map_results(op.lowerBoundMap.data, self.indices(op.lowerBoundOperands), span)
        high = map_results(op.upperBoundMap.data, self.indices(op.upperBoundOperands), span)
        if low != [number(0, DType.I64)] or len(high) != 1 or apply.mapOperands[0] is not argument:
            return None
        start_term = self.value(apply.mapOperands[1])
        marker = Name("")
        (moved,) = map_results(apply.map.data, [marker, Name(" ")], span)
        parts = dict(linear_of(moved).terms)
        size = -parts.get(marker, 0)
        if parts != {marker: -size, Name(" "): 1} or size <= 0 or linear_of(moved).constant:
            return None
        start = linear_of(start_term.expr)
        if size == 1:
            stop = add(start, linear_of(high[0]), -1)
        else:
            match high[0]:
                case Binary(op="//", left=left, right=syntax.Number(value=held)) if held == size:
                    stop = add(add(start, Linear((), size - 1)), linear_of(left), -1)
                case _:
                    return None
        result = apply.results[0]
        name = self.names.fresh(result.name_hint, "i")
        self.terms[result] = Term(Name(name, span=span), DType.I64, True)
        return Range(
            name,
            start_term.expr,
            expression_of(stop, span),
            number(-size, DType.I64, span),
            span=span,
        )

    # ----------------------------------------------------------------------- statements

    def block(self, block: Block) -> list[Stmt]:
        """The statements of a block, its terminator left to the caller."""
        out: list[Stmt] = []
        ops = list(block.ops)
        position = {op: k for k, op in enumerate(ops)}
        last = self.last_uses(ops, position)
        reached = self.consumers(ops, position)
        loads: list[Operation] = []
        skipped: set[Operation] = set()
        for k, op in enumerate(ops):
            if op in skipped or op.name in _TERMINATORS:
                continue
            if self.is_pure(op):
                if not op.results or not any(list(each.uses) for each in op.results):
                    continue
                if self.is_long(op) or self.wants_name(op, block, reached[op] != MANY):
                    self.name(op, out)
                elif self.may_load(op):
                    loads.append(op)
                continue
            writes = self.writes(op)
            for load in loads:
                if last[load] > k or (last[load] == k and self.used_inside(load, op)):
                    if load.results[0] in self.terms and isinstance(
                        self.terms[load.results[0]].expr, Name
                    ):
                        continue
                    if self.value(load.results[0]).reads & writes:
                        self.name(load, out)
            loads = [each for each in loads if last[each] > k]
            out += self.statement(op, ops[k + 1 :], skipped)
        return _grouped(out)

    def last_uses(
        self, ops: list[Operation], position: dict[Operation, int]
    ) -> dict[Operation, int]:
        """For each operation, the position of the last statement that its value reaches."""
        last: dict[Operation, int] = {}
        for op in reversed(ops):
            found = position[op]
            for result in op.results:
                for use in result.uses:
                    user: Operation | None = use.operation
                    while user is not None and user not in position:
                        user = user.parent_op()
                    if user is None:
                        continue
                    through = user in last and self.is_pure(user)
                    found = max(found, last[user] if through else position[user])
            last[op] = found
        return last

    def consumers(
        self, ops: list[Operation], position: dict[Operation, int]
    ) -> dict[Operation, int | None]:
        """For each operation, the one statement that its value reaches; MANY where there are
        several, None where there is none."""
        reached: dict[Operation, int | None] = {}
        for op in reversed(ops):
            found: int | None = None
            for result in op.results:
                for use in result.uses:
                    user: Operation | None = use.operation
                    while user is not None and user not in position:
                        user = user.parent_op()
                    if user is None:
                        continue
                    through = user in reached and self.is_pure(user)
                    each = reached[user] if through else position[user]
                    if each is not None:
                        found = each if found in (None, each) else MANY
            reached[op] = found
        return reached

    def is_long(self, op: Operation) -> bool:
        """Whether the chain of values that ends in `op` is so long that it is to be cut."""
        makers = (self.operation(each) for each in op.operands)
        length = 1 + max(
            (self.lengths.get(each, 0) for each in makers if each is not None), default=0
        )
        kind = op.results[0].type if len(op.results) == 1 else VectorType
        cut = length > LONGEST and not isinstance(kind, (VectorType, MemRefType))
        self.lengths[op] = 0 if cut else length
        return cut

    def used_inside(self, op: Operation, region_op: Operation) -> bool:
        """Whether a value of `op` is read within the regions of `region_op`, by itself or as a
        part of another value."""
        left, seen = [op], {op}
        while left:
            for result in left.pop().results:
                for use in result.uses:
                    user = use.operation
                    if user is region_op or user in seen:
                        continue  # a condition or a bound is read before
                    if user.parent_block() is op.parent_block():
                        if self.is_pure(user):
                            seen.add(user)
                            left.append(user)
                    elif _within(user, region_op):
                        return True
        return False

    def may_load(self, op: Operation) -> bool:
        """Whether reading the operation's value reads memory."""
        return isinstance(op, (*LOADS, affine.VectorLoadOp, *IFS, *LOOPS))

    def wants_name(self, op: Operation, block: Block, together: bool) -> bool:
        """Whether the value is to be a `let` where it stands; `together`: one statement has all
        its uses, where a short expression may stand several times."""
        if len(op.results) != 1 or isinstance(op, arith.ConstantOp):
            return isinstance(op, LOOPS)
        kind = op.results[0].type
        if isinstance(kind, (VectorType, MemRefType)):
            return False
        uses = list(op.results[0].uses)
        if isinstance(op, LOOPS):
            return len(uses) > 1 or uses[0].operation.parent_block() is not block
        if isinstance(kind, IndexType):
            found = self.value(op.results[0])
            return bool(found.reads) and len(uses) > 1 and not isinstance(found.expr, Name)
        outside = any(each.operation.parent_block() is not block for each in uses)
        if len(uses) == 1 and not outside:
            return False
        if _is_half_of_a_guard(op):
            return False
        found = self.value(op.results[0])
        if together and not outside and found.size <= 8:
            return False
        if found.constant is not None or isinstance(found.expr, Name):
            return bool(found.reads) and outside and isinstance(op, LOADS)
        return found.size > 3 or bool(found.reads)

    def name(self, op: Operation, out: list[Stmt]) -> None:
        """`let v = e`."""
        result = op.results[0]
        term = self.value(result)
        if not isinstance(result.type, VectorType):
            name = self.names.fresh(result.name_hint, "v")
            span = self.place(op)
            out.append(Let(name, term.dtype, term.expr, span=span, name_span=span))
            self.terms[result] = Term(
                Name(name, span=span), term.dtype, term.is_index, frozenset({name})
            )
            return
        raise self.limit(op, "a vector is loaded before, and used after, a store to its memref")

    def writes(self, op: Operation) -> frozenset[str]:
        """The names an operation writes, its regions' included."""
        found: set[str] = set()
        for each in op.walk():
            if isinstance(each, (STORES, affine.VectorStoreOp)):
                found |= self.names_of(each.memref)
            elif isinstance(each, memref.CopyOp):
                found |= self.names_of(each.destination)
        return frozenset(found)

    def names_of(self, value: SSAValue) -> set[str]:
        """The arrays a memref may be."""
        op = self.operation(value)
        if isinstance(op, arith.SelectOp):
            return self.names_of(op.lhs) | self.names_of(op.rhs)
        known = self.arrays.get(value)
        return {known.name} if known is not None else set()

    def statement(
        self, op: Operation, rest: list[Operation], skipped: set[Operation]
    ) -> list[Stmt]:
        """The statements an operation is."""
        match op:
            case affine.StoreOp() | memref.StoreOp():
                return self.store(op)
            case affine.VectorStoreOp():
                return self.vector_store(op)
            case affine.ForOp() | scf.ForOp():
                return self.loop(op)
            case affine.ParallelOp():
                return self.parallel(op)
            case affine.IfOp() | scf.IfOp():
                return self.branch(op)
            case memref.AllocOp() | memref.AllocaOp():
                return self.allocate(op, rest, skipped)
            case memref.DeallocOp():
                return []
            case memref.CopyOp():
                return self.copy(op)
            case cf.AssertOp():
                condition = self.value(op.arg)
                return [syntax.Assume(condition.expr, span=self.place(op))]
            case _:
                raise unknown_operation(self.source, op.name, self.place(op))

    def store(self, op: Any) -> list[Stmt]:
        """An assignment, or an update where the value is `element op e`."""
        source = self.operation(op.memref)
        if isinstance(source, arith.SelectOp):
            then = self.store_to(op, source.lhs)
            otherwise = self.store_to(op, source.rhs)
            known = self.value(source.cond)
            return [If(known.expr, (then,), (otherwise,), span=self.place(op))]
        return [self.store_to(op, op.memref)]

    def store_to(self, op: Any, memref_: SSAValue) -> Stmt:
        """`target = value`."""
        span = self.place(op)
        array = self.array(memref_, op)
        target = self.target(op, memref_, array, span)
        self.written.add(array.name)
        step = self.operation(op.value)
        term = self.value(op.value)
        if term.dtype is not array.dtype:
            term = coerced(term, array.dtype)
        if step is not None and step.name in _UPDATES:
            first = self.terms.get(step.operands[0])
            other = self.terms.get(step.operands[1])
            if (
                first is not None
                and other is not None
                and first.expr == target
                and self.terms[op.value].dtype is array.dtype
                and not isinstance(self.terms[op.value].expr, Name)
                and first.dtype is array.dtype
                and _is_step(step.name, array.dtype)
            ):
                value = coerced(other, array.dtype)
                return Assign(target, _UPDATES[step.name], value.expr, span=span)
        return Assign(target, "", term.expr, span=span)

    def target(self, op: Any, memref_: SSAValue, array: Array, span: Span) -> Any:
        """What is assigned."""
        if array.is_scalar:
            return Name(array.name, span=span)
        if isinstance(op, memref.StoreOp):
            index = self.indices(op.indices)
        else:
            index = map_results(op.map.data, self.indices(op.indices), span)
        if not index:
            index = [number(0, DType.I64, span)]
        return Subscript(array.name, tuple(index), "", span=span, array_span=span)

    def vector_store(self, op: affine.VectorStoreOp) -> list[Stmt]:
        """A loop over the lanes."""
        span = self.place(op)
        array = self.array(op.memref, op)
        self.written.add(array.name)
        kind: Any = op.value.type
        shape = kind.get_shape()
        if len(shape) != 1:
            raise self.limit(op, "only vectors of one dimension are read")
        term = self.value(op.value)
        if array.name in term.reads:
            raise self.limit(op, "a vector is stored to the memref it was made from")
        index = self.lanes(map_results(op.map.data, self.indices(op.indices), span))
        target = Subscript(array.name, tuple(index), "", span=span, array_span=span)
        name = self.names.fresh(LANE, "i")
        body = _renamed(Assign(target, "", term.expr, span=span), LANE, name)
        head = Range(name, number(0, DType.I64), number(shape[0], DType.I64), span=span)
        return [For((head,), (body,), span=span)]

    def copy(self, op: memref.CopyOp) -> list[Stmt]:
        """Loops over every element."""
        span = self.place(op)
        source, target = self.array(op.source, op), self.array(op.destination, op)
        if source.is_scalar or target.is_scalar:
            raise self.limit(
                op, "a copy of an allocation of rank 0 is not read", "load it and store it"
            )
        self.loaded.add(source.name)
        self.written.add(target.name)
        heads: list[Range] = []
        index: list[Expr] = []
        for extent in target.extents:
            name = self.names.fresh(None, "i")
            heads.append(Range(name, number(0, DType.I64), extent, span=span))
            index.append(Name(name))
        left = Subscript(target.name, tuple(index), "", span=span, array_span=span)
        right = Subscript(source.name, tuple(index), "", span=span, array_span=span)
        return [For(tuple(heads), (Assign(left, "", right, span=span),), span=span)]

    def allocate(self, op: Any, rest: list[Operation], skipped: set[Operation]) -> list[Stmt]:
        """A temporary; of rank 0 a variable, a `let`, or a reduction's accumulator."""
        span = self.place(op)
        kind = op.memref.type
        if op.memref in self.arrays:
            return []  # the function returns it: it is an `out` parameter
        dtype = self.element_type(op, kind)
        if kind.get_shape() == ():
            return self.scalar(op, dtype, rest, skipped)
        sizes = iter(self.value(each) for each in op.dynamic_sizes)
        extents = tuple(
            next(sizes).expr if size < 0 else number(size, DType.I64, span)
            for size in kind.get_shape()
        )
        name = self.names.fresh(op.memref.name_hint, "t")
        self.arrays[op.memref] = Array(name, dtype, extents)
        return [syntax.Temp(name, dtype, extents, span=span)]

    def element_type(self, op: Operation, kind: Any) -> DType:
        """The element type of an allocation; `loopfuse.dtype` names an unsigned one."""
        try:
            dtype = dtype_of(kind.element_type)
        except Unread as error:
            refuse(self.source, self.place(op), "mlir-unread", str(error))
        return signed_as(dtype, op.attributes.get("loopfuse.dtype"))

    def scalar(
        self, op: Any, dtype: DType, rest: list[Operation], skipped: set[Operation]
    ) -> list[Stmt]:
        """A memref of one element."""
        span = self.place(op)
        found = self.accumulation(op, dtype, rest)
        if found is not None:
            start, loops, step, load, ranges_ops = found
            return self.accumulated(op, dtype, start, loops, step, load, ranges_ops, skipped)
        name = self.names.fresh(op.memref.name_hint, "s")
        self.arrays[op.memref] = Array(name, dtype, (), True)
        stores = [use.operation for use in op.memref.uses if isinstance(use.operation, STORES)]
        first = next((each for each in rest if not self.is_pure(each)), None)
        if first is not None and first in stores and len(stores) == 1:
            skipped.add(first)
            value = coerced(self.value(first.value), dtype)  # type: ignore[attr-defined]
            if "loopfuse.bound" in op.attributes:
                # The language names a loop's bounds that are data by itself.
                self.reductions[op.memref] = op
                self.terms[op.memref] = value
                return []
            return [Let(name, dtype, value.expr, span=span, name_span=span)]
        if first is not None and first in stores and not self.operation_loads(first, op.memref):
            skipped.add(first)
            value = coerced(self.value(first.value), dtype)  # type: ignore[attr-defined]
            return [Let(name, dtype, value.expr, True, span=span, name_span=span)]
        return [Let(name, dtype, number(0, dtype, span), True, span=span, name_span=span)]

    def operation_loads(self, op: Any, memref_: SSAValue) -> bool:
        """Whether what `op` stores comes from `memref_`."""
        name = self.arrays[memref_].name
        return name in self.value(op.value).reads

    # ------------------------------------------------------------- accumulators in memory

    def accumulation(self, op: Any, dtype: DType, rest: list[Operation]) -> Any:
        """The parts of `let s = sum(...)` as our export writes it: the neutral element stored,
        loops that end in `s = s op e`, and nothing else that writes `s`."""
        stores = [use.operation for use in op.memref.uses if isinstance(use.operation, STORES)]
        if len(stores) != 2:
            return None
        statements = [each for each in rest if not self.is_pure(each)][:2]
        if (
            len(statements) < 2
            or statements[0] not in stores
            or not isinstance(statements[1], LOOPS)
        ):
            return None
        start: Any = statements[0]
        loop: Any = statements[1]
        loops: list[Any] = []
        while True:
            if loop.results:
                return None
            loops.append(loop)
            inner = [each for each in loop.body.block.ops if each.name not in _TERMINATORS]
            steps = [each for each in inner if not self.is_pure(each)]
            if steps and steps[-1] in stores:
                break
            if len(steps) != 1 or not isinstance(steps[0], LOOPS):
                return None
            loop = steps[0]
        store: Any = steps[-1]
        step = self.operation(store.value)
        if step is None or step.name not in _STEPS or step.parent_block() is not loop.body.block:
            return None
        load = self.operation(step.operands[2 if step.name == "math.fma" else 0])
        if not isinstance(load, LOADS) or load.memref is not op.memref:
            return None
        inside = [
            use.operation
            for use in op.memref.uses
            if isinstance(use.operation, LOADS) and _within(use.operation, loops[0])
        ]
        if inside != [load] or len(list(load.results[0].uses)) != 1:
            return None
        if len(list(step.results[0].uses)) != 1:
            return None
        kind = _STEPS[step.name]
        if kind in ("any", "all") and dtype is not DType.BOOL:
            return None
        wide = (DType.F32, DType.F64, DType.I64, DType.U64)
        if kind in ("sum", "prod") and dtype not in wide:
            return None
        if dtype.is_integer and ("ui" in step.name) is not (
            dtype.is_unsigned and kind in ("min", "max")
        ):
            return None
        if not is_constant(start.value, _stored(neutral(kind, dtype), dtype)):
            return None
        # What else the innermost block does must be reductions of its own.
        inner_ops = [each for each in loop.body.block.ops if each.name not in _TERMINATORS]
        if not self.only_reductions(inner_ops, store):
            return None
        return start, loops, step, load, inner_ops

    def only_reductions(self, ops: list[Operation], store: Operation) -> bool:
        """Whether the statements among `ops` before `store` are accumulations alone."""
        left = [each for each in ops if not self.is_pure(each) and each is not store]
        while left:
            first = left[0]
            if not isinstance(first, (memref.AllocaOp, memref.AllocOp)):
                return False
            if first.memref.type.get_shape() != ():
                return False
            following = ops[ops.index(first) + 1 :]
            found = self.accumulation(first, self.element_type(first, first.memref.type), following)
            if found is None:
                return False
            outside = [
                use.operation
                for use in first.memref.uses
                if isinstance(use.operation, LOADS) and not _within(use.operation, found[1][0])
            ]
            if len(outside) != 1:
                return False
            left = [each for each in left if each not in (first, found[0], found[1][0])]
        return True

    def accumulated(
        self, op: Any, dtype: DType, start: Any, loops: list[Any], step: Operation,
        load: Operation, inner_ops: list[Operation], skipped: set[Operation],
    ) -> list[Stmt]:  # fmt: skip
        """`let s = sum(...)`, or nothing where the sum is read once: there it is the expression."""
        span = self.place(op)
        skipped |= {start, loops[0]}
        taken = set(self.names.taken)
        ranges = tuple(self.range(loop) for loop in loops)
        # Reductions inside become parts of the body.
        inner_skipped: set[Operation] = set()
        for k, each in enumerate(inner_ops):
            if isinstance(each, (memref.AllocaOp, memref.AllocOp)) and each not in inner_skipped:
                made = self.scalar(
                    each,
                    self.element_type(each, each.memref.type),
                    inner_ops[k + 1 :],
                    inner_skipped,
                )
                assert not made
        term = self.reduction(op, ranges, step, load.results[0], dtype)
        self.names.taken = taken

        outside = [
            use.operation
            for use in op.memref.uses
            if isinstance(use.operation, LOADS) and not _within(use.operation, loops[0])
        ]
        keep = "loopfuse.let" in op.attributes or len(outside) != 1
        keep = keep or outside[0].parent_block() is not op.parent_block()
        if _within_arm(outside[0], op) if outside else False:
            keep = True
        if not keep:
            self.arrays[op.memref] = Array(op.memref.name_hint or "s", dtype, (), True)
            self.reductions[op.memref] = op
            self.terms[op.memref] = coerced(term, dtype)
            return []
        name = self.names.fresh(op.memref.name_hint, "s")
        self.arrays[op.memref] = Array(name, dtype, (), True)
        return [Let(name, dtype, coerced(term, dtype).expr, span=span, name_span=span)]

    # ------------------------------------------------------------------------- structure

    def loop(self, op: Any) -> list[Stmt]:
        """A loop; values it carries are variables."""
        span = self.place(op)
        starts = _starts(op)
        before, names = self.carried(starts, op.body.block.args[1:], op.results, span)
        taken = set(self.names.taken)
        head = self.range(op)
        body = self.block(op.body.block)
        body += self.assign_all(names, op.body.block.last_op, span)
        self.names.taken = taken
        made = _loop_of(head, body, span, "loopfuse.parallel" in op.attributes)
        for word in ("fuse", "nofuse"):
            held = op.attributes.get(f"loopfuse.{word}")
            if made and not before and isinstance(held, IntegerAttr):
                made = [_Numbered(word, tuple(made), held.value.data, span=span)]
        return [*before, *made]

    def carried(
        self, starts: Iterable[SSAValue], arguments: Iterable[SSAValue], results: Iterable[SSAValue],
        span: Span,
    ) -> tuple[list[Stmt], list[str]]:  # fmt: skip
        """Variables for values that a loop carries."""
        out: list[Stmt] = []
        names: list[str] = []
        for start, argument, result in zip(starts, arguments, results, strict=True):
            term = self.value(start)
            name = self.names.fresh(result.name_hint or argument.name_hint, "s")
            dtype = self.typed(result.type, span)
            out.append(Let(name, dtype, term.expr, True, span=span, name_span=span))
            here = Term(
                Name(name, span=span), dtype, isinstance(result.type, IndexType), frozenset({name})
            )
            self.terms[argument] = here
            self.terms[result] = here
            names.append(name)
        return out, names

    def typed(self, kind: Any, span: Span) -> DType:
        """The type of a value."""
        try:
            return dtype_of(kind)
        except Unread as error:
            refuse(self.source, span, "mlir-unread", str(error))

    def assign_all(self, names: list[str], terminator: Any, span: Span) -> list[Stmt]:
        """All variables at once: what reads one that is assigned before it is kept first."""
        out: list[Stmt] = []
        if not names:
            return out
        terms = [self.value(each) for each in terminator.operands]
        ready: list[Term] = []
        for k, term in enumerate(terms):
            if term.reads & set(names[:k]) and term.expr != Name(names[k]):
                kept = self.names.fresh(None, "v")
                out.append(Let(kept, term.dtype, term.expr, span=span, name_span=span))
                term = Term(Name(kept), term.dtype)
            ready.append(term)
        for name, term, yielded in zip(names, ready, terminator.operands):
            if term.expr == Name(name):
                continue
            step = self.operation(yielded)
            if step is not None and step.name in _UPDATES and not isinstance(term.expr, Name):
                first = self.terms.get(step.operands[0])
                other = self.terms.get(step.operands[1])
                if (
                    first is not None
                    and other is not None
                    and first.expr == Name(name)
                    and _is_step(step.name, term.dtype)
                ):
                    out.append(
                        Assign(Name(name, span=span), _UPDATES[step.name], other.expr, span=span)
                    )
                    continue
            out.append(Assign(Name(name, span=span), "", term.expr, span=span))
        return out

    def parallel(self, op: affine.ParallelOp) -> list[Stmt]:
        """Loops in any order; what it reduces are variables."""
        span = self.place(op)
        block = op.body.block
        lower_map, upper_map = op.lowerBoundsMap.data, op.upperBoundsMap.data
        count = lower_map.num_dims + lower_map.num_symbols
        operands = self.indices(op.map_operands)
        lows = map_results(lower_map, operands[:count], span)
        highs = map_results(upper_map, operands[count:], span)
        before: list[Stmt] = []
        names: list[str] = []
        kinds = [each.data for each in op.reductions]
        if len(kinds) != len(op.results):
            refuse(self.source, span, "mlir-invalid", "as many results as reductions are expected")
        for kind, result in zip(kinds, op.results):
            if kind not in _PARALLEL:
                raise self.limit(op, f"the reduction `{kind}` of `affine.parallel` is not read")
            dtype = self.typed(result.type, span)
            name = self.names.fresh(result.name_hint, "s")
            word = _PARALLEL[kind][0]
            start = number(_start(word, dtype), dtype, span)
            before.append(Let(name, dtype, start, True, span=span, name_span=span))
            self.terms[result] = Term(Name(name), dtype, False, frozenset({name}))
            names.append(name)
        heads: list[Range] = []
        taken = set(self.names.taken)
        low, high = iter(lows), iter(highs)
        lower_groups, upper_groups = (
            op.lowerBoundsGroups.get_values(),
            op.upperBoundsGroups.get_values(),
        )
        for k, argument in enumerate(block.args):
            name = self.names.fresh(argument.name_hint, "i")
            self.terms[argument] = Term(Name(name, span=span), DType.I64, True)
            first = [next(low) for _ in range(int(lower_groups[k]))]
            last = [next(high) for _ in range(int(upper_groups[k]))]
            step = op.steps.data[k].value.data
            heads.append(
                Range(
                    name,
                    first[0] if len(first) == 1 else Call("max", tuple(first), span=span),
                    last[0] if len(last) == 1 else Call("min", tuple(last), span=span),
                    None if step == 1 else number(step, DType.I64, span),
                    span=span,
                )
            )
        body = self.block(block)
        for name, kind, yielded in zip(
            names, kinds, block.last_op.operands if block.last_op else ()
        ):
            body.append(
                Assign(
                    Name(name, span=span), _PARALLEL[kind][1], self.value(yielded).expr, span=span
                )
            )
        self.names.taken = taken
        if not body:
            return before
        return [*before, For(tuple(heads), tuple(body), span=span)]

    def branch(self, op: Any) -> list[Stmt]:
        """An `if`; values it gives are variables."""
        span = self.place(op)
        out: list[Stmt] = []
        names: list[str] = []
        condition = self.condition(op)
        for result in op.results:
            dtype = self.typed(result.type, span)
            name = self.names.fresh(result.name_hint, "s")
            out.append(Let(name, dtype, number(0, dtype, span), True, span=span, name_span=span))
            self.terms[result] = Term(Name(name), dtype, False, frozenset({name}))
            names.append(name)
        arms: list[tuple[Stmt, ...]] = []
        for region in self.arms(op):
            if not region.blocks:
                arms.append(())
                continue
            taken = set(self.names.taken)
            body = self.block(region.block)
            self.names.taken = taken
            body += self.assign_all(names, region.block.last_op, span)
            arms.append(tuple(body))
        then, otherwise = arms
        if not then and not otherwise:
            return out
        if not then:
            return [
                *out,
                If(syntax.Unary("not", condition.expr, span=span), otherwise, (), span=span),
            ]
        return [*out, If(condition.expr, then, otherwise, span=span)]


_TERMINATORS = ("affine.yield", "scf.yield", "func.return")


def signed_as(dtype: DType, attribute: Any) -> DType:
    """`dtype`, or the unsigned type of its width that the attribute names."""
    if (
        isinstance(attribute, StringAttr)
        and attribute.data == f"u{dtype.bits}"
        and dtype.is_integer
    ):
        return DType(attribute.data)
    return dtype


def _starts(op: Any) -> list[SSAValue]:
    if isinstance(op, affine.ForOp):
        return list(op.inits)
    return list(op.iter_args)


def _start(kind: str, dtype: DType) -> Any:
    if kind in ("or", "and"):
        if dtype is DType.BOOL:
            return kind == "and"
        return -1 if kind == "and" else 0
    return neutral(kind, dtype)


def _stored(value: Any, dtype: DType) -> Any:
    """A constant as MLIR writes it: unsigned ones as signed."""
    if dtype.is_unsigned and value >= 1 << (dtype.bits - 1):
        return value - (1 << dtype.bits)
    return -1 if value is True else value


def _is_step(name: str, dtype: DType) -> bool:
    """Whether the operation on `dtype` is the language's update of that name."""
    if dtype.is_narrow_float:
        return True
    if name.endswith("ui"):
        return dtype.is_unsigned
    if name.endswith("si"):
        return dtype.is_integer and not dtype.is_unsigned
    if dtype is DType.BOOL:
        return name in ("arith.andi", "arith.ori", "arith.xori")
    return True


def _within(op: Operation, outer: Operation) -> bool:
    here: Operation | None = op
    while here is not None:
        if here is outer:
            return True
        here = here.parent_op()
    return False


def _within_arm(op: Operation, alloc: Operation) -> bool:
    return op.parent_block() is not alloc.parent_block()


def _is_half_of_a_guard(op: Operation) -> bool:
    """Whether our export wrote the operation as a part of `//`, `%` or `<<`."""
    return op.name in (
        "arith.floordivsi",
        "arith.divui",
        "arith.remf",
        "arith.cmpi",
        "arith.cmpf",
    ) or (isinstance(op, arith.SelectOp) and is_constant(op.lhs, 1))


@dataclass(frozen=True, slots=True)
class _Numbered(syntax.Block):
    """A block around one loop; neighbours of one number are one block."""

    number: int = 0


def _grouped(body: list[Stmt]) -> list[Stmt]:
    """Neighbouring blocks of one number joined."""
    out: list[Stmt] = []
    last = -1
    for stmt in body:
        if not isinstance(stmt, _Numbered):
            out.append(stmt)
            last = -1
        elif out and last == stmt.number and isinstance(out[-1], syntax.Block):
            out[-1] = syntax.Block(stmt.kind, (*out[-1].body, *stmt.body), span=out[-1].span)
        else:
            out.append(syntax.Block(stmt.kind, stmt.body, span=stmt.span))
            last = stmt.number
    return out


def _loop_of(head: Range, body: list[Stmt], span: Span, parallel: bool) -> list[Stmt]:
    """A loop, in one header with the loop that is all of its body."""
    if not body:
        return []
    if len(body) == 1 and isinstance(body[0], For) and not body[0].parallel:
        inner = body[0]
        return [For((head, *inner.ranges), inner.body, parallel, span=span)]
    return [For((head,), tuple(body), parallel, span=span)]


def _renamed(stmt: Assign, before: str, after: str) -> Assign:
    def visit(node: Any) -> Any:
        if isinstance(node, Name) and node.name == before:
            return Name(after, span=node.span)
        if isinstance(node, syntax.Node):
            from dataclasses import fields, replace

            changed = {
                each.name: visit(getattr(node, each.name)) for each in fields(node) if each.init
            }
            return replace(node, **changed)
        if isinstance(node, tuple):
            return tuple(visit(each) for each in node)
        return node

    return visit(stmt)
