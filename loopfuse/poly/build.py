"""Core kernel -> PolyProgram: one walk over the statements, keeping the loops around them.

before: `for i in 0..N: if i > 0: b[i] = a[i - 1]`
after:  S1 on { S1[i] : 0 < i < N }, writing { S1[i] -> b[i] }, reading { S1[i] -> a[i - 1] }

Reduces become an init and an update statement, private storage gets leading dimensions, edge
modes become index arithmetic (and vanish where the domain proves them useless), affine conditions
go into domains and the others become predicates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopfuse.base.diagnostics import Diagnostic, LimitError
from loopfuse.base.dtypes import DType
from loopfuse.lang.index import is_affine, is_checked
from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import (
    Assume,
    Binary,
    Block,
    Compare,
    Const,
    Define,
    Expr,
    For,
    If,
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
from loopfuse.lang.walk import children, iterators, loads, walk_stmts, with_children
from loopfuse.poly import isl
from loopfuse.poly.edges import lower_load
from loopfuse.poly.model import KEPT, Access, Array, IslMap, IslSet, Loop, PolyProgram, Statement

_BOOL_REDUCTIONS = {"any": "or", "all": "and"}


def build_model(kernel: Kernel, context: isl.Context | None = None) -> PolyProgram:
    """The polyhedral model of `kernel`, in a fresh isl context unless one is given.

    LimitError for a loop bound or a temporary's extent that is not affine, and for a reduction
    without a neutral element. Subscripts that isl cannot express are over-approximated by the
    whole dimension (`exact` False).
    """
    return _Builder(kernel, context or isl.Context()).build()


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where the walk stands: loops, their positions, the instances that get here."""

    loops: tuple[Loop, ...]
    positions: tuple[int, ...]
    domain: IslSet
    reader: isl.Reader
    label: str = ""
    predicate: Expr | None = None
    fence: tuple[str, ...] = ()


class _Builder:
    def __init__(self, kernel: Kernel, context: isl.Context) -> None:
        self.kernel = kernel
        self.context = context
        integers = [scalar.name for scalar in kernel.scalars if scalar.dtype.is_integer]
        self.unknown = unknown_bounds(kernel)
        self.symbols = tuple(dict.fromkeys([*kernel.sizes, *integers, *self.unknown]))
        self.wandering: set[str] = set()  # iterators whose range depends on data
        self.arrays: dict[str, Array] = {
            param.name: Array(param.name, param.dtype, param.mode, param.extents)
            for param in kernel.arrays
        }
        self.boxes: dict[tuple[str, tuple[int, ...]], IslSet] = {}
        self.statements: list[Statement] = []
        self.names: set[str] = set()
        self.counts: dict[str, int] = {}
        self.next: list[int] = [0]  # next position at each level
        self.params = isl.set_space(context, self.symbols, ())
        self.known = self._parameter_context()

    def build(self) -> PolyProgram:
        scope = _Scope((), (), isl.universe(self.params), isl.Reader(self.params))
        self._body(self.kernel.body, scope)
        return PolyProgram(
            self.kernel,
            self.arrays,
            tuple(self.statements),
            self.symbols,
            self.known,
            unknown=self.unknown,
        )

    # ------------------------------------------------------------------------- parameters

    def _parameter_context(self) -> IslSet:
        """Sizes are at least 0, and so is every extent of an argument."""
        reader = isl.Reader(self.params)
        known = isl.universe(self.params)
        zero = reader.constant(0)
        for size in self.kernel.sizes:
            value = reader.affine({size: 1})
            known = known.intersect(value.ge_set(zero))
        for param in self.kernel.arrays:
            for extent in param.extents:
                if isinstance(extent, Symbol):
                    continue
                value = reader.piecewise(extent)
                if value is not None:
                    known = known.intersect(value.ge_set(zero))
        for loop in walk_stmts(self.kernel.body):
            for each in _ranges_of(loop):
                if loads(each.lower) or loads(each.upper):
                    # The interval is around all iterations, so it may as well not be empty.
                    low = reader.piecewise(_as_symbol(each.lower))
                    high = reader.piecewise(_as_symbol(each.upper))
                    if low is not None and high is not None:
                        known = known.intersect(low.lt_set(high))
        return known.params()

    def _assume(self, stmt: Assume, scope: _Scope) -> None:
        """Keeps the parameters for which the condition holds in every iteration."""
        holds = scope.reader.condition(stmt.condition, scope.domain)
        if holds is None or scope.predicate is not None:
            return
        broken = scope.domain.subtract(holds)
        count = broken.dim(isl.SET)
        self.known = self.known.subtract(broken.project_out(isl.SET, 0, count).params())

    # ---------------------------------------------------------------------------- helpers

    def _fresh(self, prefix: str) -> str:
        self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"{prefix}{self.counts[prefix]}"

    def _identity(self, label: str) -> str:
        """A statement id: the label, with a suffix if loops were unrolled into several."""
        name = label or self._fresh("S_")
        candidate, number = name, 1
        while candidate in self.names:
            number += 1
            candidate = f"{name}.{number}"
        self.names.add(candidate)
        return candidate

    def _position(self, scope: _Scope) -> tuple[int, ...]:
        at = self.next[-1]
        self.next[-1] += 1
        return (*scope.positions, at)

    def _proved(self, domain: IslSet, violation: IslSet) -> bool:
        return domain.intersect(violation).intersect_params(self.known).is_empty()

    def _enter(self, scope: _Scope, loop: Loop) -> _Scope:
        """The scope inside `loop`."""
        space = isl.set_space(
            self.context, self.symbols, [*(each.iterator for each in scope.loops), loop.iterator]
        )
        reader = isl.Reader(space)
        domain = scope.domain.insert_dims(isl.SET, len(scope.loops), 1).set_dim_name(
            isl.SET, len(scope.loops), loop.iterator
        )
        possible = domain.intersect_params(self.known)
        lower = reader.piecewise(loop.lower, possible)
        upper = reader.piecewise(loop.upper, possible)
        if lower is None or upper is None:
            bound = loop.lower if lower is None else loop.upper
            raise LimitError(
                Diagnostic(
                    "data-dependent-bound",
                    f"a bound of the loop over `{loop.iterator.split('.')[0]}` is not affine",
                    bound.span,
                    fix="let the loop run over all it may need, and test in it: `if j < end:`",
                )
            )
        if loop.unknown or (iterators(loop.lower) | iterators(loop.upper)) & self.wandering:
            self.wandering.add(loop.iterator)
        here = reader.affine({loop.iterator: 1})
        if loop.step > 0:
            domain = domain.intersect(here.ge_set(lower)).intersect(here.lt_set(upper))
        else:
            domain = domain.intersect(here.le_set(lower)).intersect(here.gt_set(upper))
        if abs(loop.step) > 1:
            phase = here.sub(lower).mod_val(reader.number(abs(loop.step)))
            domain = domain.intersect(phase.eq_set(reader.constant(0)))
        return replace(scope, loops=(*scope.loops, loop), domain=domain, reader=reader)

    # ------------------------------------------------------------------------- statements

    def _body(self, body: tuple[Stmt, ...], scope: _Scope) -> None:
        for stmt in body:
            self._statement(stmt, scope)

    def _statement(self, stmt: Stmt, scope: _Scope) -> None:
        match stmt:
            case For():
                self._loop(stmt, scope)
            case If():
                self._conditional(stmt, scope)
            case Block(kind=kind, body=body):
                name = f"{kind}.{self._number(kind)}"
                self._body(body, replace(scope, fence=(*scope.fence, name)))
            case Temp(name=name, dtype=dtype, extents=extents, span=span):
                if any(iterators(extent) or loads(extent) for extent in extents):
                    raise LimitError(
                        Diagnostic(
                            "temp-extent",
                            f"the extents of `{name}` depend on an iterator",
                            span,
                            fix="declare it with extents made of sizes and integer parameters",
                        )
                    )
                self._declare(name, dtype, "temp", extents, scope)
            case Assume():
                self._assume(stmt, scope)
            case Define(name=name, dtype=dtype, value=value, label=label, span=span):
                self._declare(name, dtype, "scalar", (), scope)
                target = Load(name, (), dtype, span=span)
                self._add("define", label, target, value, scope, stmt)
            case Store(target=target, value=value, label=label, reduction=reduction):
                self._add("store", label, target, value, scope, stmt, reduction)
            case Reduce():
                self._reduce(stmt, scope)

    def _number(self, kind: str) -> int:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind]

    def _declare(
        self, name: str, dtype: DType, kind: str, extents: tuple[Expr, ...], scope: _Scope
    ) -> None:
        owners = tuple(loop.iterator for loop in scope.loops)
        self.arrays[name] = Array(name, dtype, kind, extents, owners)

    def _label(self, stmt: For | Reduce, scope: _Scope) -> str:
        """`L1`, `L2`, ... for whatever stands outermost; its parts keep their number."""
        if not scope.loops:
            return self._fresh("L")
        own = stmt.label if isinstance(stmt, For) else ""
        _, dot, part = own.partition(".")
        return f"{scope.label.split('.')[0]}.{part}" if dot else scope.label

    def _loop(self, stmt: For, scope: _Scope) -> None:
        label = self._label(stmt, scope)
        loop = Loop(
            stmt.iterator,
            _as_symbol(stmt.lower),
            _as_symbol(stmt.upper),
            stmt.step,
            label,
            stmt.span.line,
            parallel=stmt.parallel,
            fence=scope.fence,
            unknown=_unknown_of(stmt),
        )
        positions = self._position(scope)
        runs = _conjoin(scope.predicate, _runs(stmt))
        inner = replace(
            self._enter(scope, loop), positions=positions, label=label, predicate=runs
        )
        self.next.append(0)
        self._body(stmt.body, inner)
        self.next.pop()

    def _reduce(self, stmt: Reduce, scope: _Scope) -> None:
        """before: `let s = sum(k in 0..K: a[k])`
        after: `S1.init: s = 0`, then `for k in 0..K: S1: s = s + a[k]`."""
        label = self._label(stmt, scope)
        name = self._identity(stmt.label)
        self.names.add(f"{name}.init")
        op = _BOOL_REDUCTIONS.get(stmt.op, stmt.op)
        try:
            start = Const(neutral(stmt.op, stmt.dtype), stmt.dtype, span=stmt.span)
        except ValueError:
            raise LimitError(
                Diagnostic(
                    "arg-reduction",
                    f"`{stmt.op}` cannot be compiled yet",
                    stmt.span,
                    fix="reduce to the value, then find its index with a loop",
                )
            ) from None
        self._declare(stmt.name, stmt.dtype, "scalar", (), scope)
        target = Load(stmt.name, (), stmt.dtype, span=stmt.span)
        init = self._make(f"{name}.init", "init", stmt.label, target, start, scope, stmt, op)
        self.statements.append(init)
        inner = replace(scope, label=label)
        runs: Expr | None = None  # the accumulator is private to what is around; its ranges are not
        for place in stmt.ranges:
            runs = _conjoin(runs, _runs(place))
            loop = Loop(
                place.iterator,
                _as_symbol(place.lower),
                _as_symbol(place.upper),
                place.step,
                label,
                stmt.span.line,
                reduction=True,
                fence=scope.fence,
                unknown=_unknown_of(place),
            )
            positions = self._position(inner)
            inner = replace(self._enter(inner, loop), positions=positions)
            self.next.append(0)
        self._body(stmt.body, inner)
        update = self._make(name, "update", stmt.label, target, stmt.value, inner, stmt, op, runs)
        self.statements.append(update)
        for _ in stmt.ranges:
            self.next.pop()

    def _conditional(self, stmt: If, scope: _Scope) -> None:
        """Affine conjuncts restrict the domain; what is left predicates the stores inside."""
        exact, rest = self._split(stmt.condition, scope)
        if rest is None:
            assert exact is not None
            inside = scope.domain.intersect(exact)
            self._body(stmt.then, replace(scope, domain=inside))
            outside = scope.domain.subtract(exact)
            self._body(stmt.otherwise, replace(scope, domain=outside))
            return
        whole = stmt.condition
        if self._is_overwritten(stmt):
            name = f"{KEPT}{self._number('if')}"
            first = next(
                (s for s in walk_stmts((*stmt.then, *stmt.otherwise)) if isinstance(s, Store)),
                None,
            )
            self._declare(name, DType.BOOL, "scalar", (), scope)
            target = Load(name, (), DType.BOOL, span=whole.span)
            label = f"{first.label}.if" if first is not None and first.label else ""
            outer = replace(scope, predicate=None)
            asked = _under(scope.predicate, whole) if _asks(whole) else whole
            self._add("define", label, target, asked, outer, stmt)
            whole, rest = target, target
        possible = self._bound(stmt.condition, scope, scope.domain, surely=False)
        possible = exact if possible is None else possible
        inside = scope.domain if possible is None else scope.domain.intersect(possible)
        then = replace(scope, domain=inside, predicate=_under(scope.predicate, rest))
        self._body(stmt.then, then)
        negated = Unary("not", whole, DType.BOOL, span=whole.span)
        surely = self._bound(stmt.condition, scope, scope.domain, surely=True)
        outside = scope.domain if surely is None else scope.domain.subtract(surely)
        predicate = _under(scope.predicate, negated)
        self._body(stmt.otherwise, replace(scope, domain=outside, predicate=predicate))

    def _is_overwritten(self, stmt: If) -> bool:
        """A statement inside writes what the condition reads, so the condition must be kept.

        A single plain store may: it tests before it writes.
        """
        inside = list(walk_stmts((*stmt.then, *stmt.otherwise)))
        if len(inside) == 1 and isinstance(inside[0], Store):
            return False
        read = {name for load in loads(stmt.condition) for name in _names(load)}
        written = {
            name for each in inside if isinstance(each, Store) for name in _names(each.target)
        }
        return bool(read & written)

    def _split(self, condition: Expr, scope: _Scope) -> tuple[IslSet | None, Expr | None]:
        """(affine part as a set, the rest as an expression); either may be missing."""
        exact = scope.reader.condition(condition, scope.domain.intersect_params(self.known))
        if exact is not None:
            return exact, None
        match condition:
            case Binary(op="and", left=left, right=right):
                first, rest = self._split(left, scope)
                second, more = self._split(right, scope)
                both = first if second is None else second
                if first is not None and second is not None:
                    both = first.intersect(second)
                return both, _conjoin(rest, more) if more is not None else rest
            case Select(condition=guard, then=then, otherwise=Const(value=False)):
                # `guard and then`, where `then` is evaluated only under the guard
                first, rest = self._split(guard, scope)
                second, more = self._split(then, scope)
                if rest is not None or (first is None and second is None):
                    return None, condition
                both = first if second is None else second
                if first is not None and second is not None:
                    both = first.intersect(second)
                return both, more
            case _:
                return None, condition

    def _bound(
        self, condition: Expr, scope: _Scope, where: IslSet, *, surely: bool
    ) -> IslSet | None:
        """Iterations in which a condition on iterators and data holds `surely`, else those in which
        it can hold; None where that says nothing.

        before: i == n-1 or x[i+1] < 0
        after:  surely in {i = n-1}; possible in every iteration
        """
        exact = scope.reader.condition(condition, where.intersect_params(self.known))
        if exact is not None:
            return exact
        match condition:
            case Unary(op="not", operand=operand):
                inner = self._bound(operand, scope, where, surely=not surely)
                return None if inner is None else scope.domain.subtract(inner)
            case (
                Binary(op="and", left=left, right=right)
                | Select(condition=left, then=right, otherwise=Const(value=False))
            ):
                one_is_enough = not surely
            case (
                Binary(op="or", left=left, right=right)
                | Select(condition=left, then=Const(value=True), otherwise=right)
            ):
                one_is_enough = surely
            case _:
                return None
        first = self._bound(left, scope, where, surely=surely)
        second = self._bound(right, scope, where, surely=surely)
        if first is None or second is None:
            return (second if first is None else first) if one_is_enough else None
        return first.union(second) if one_is_enough == surely else first.intersect(second)

    # ----------------------------------------------------------------- one statement

    def _add(
        self,
        kind: str,
        label: str,
        target: Load,
        value: Expr,
        scope: _Scope,
        stmt: Stmt,
        reduction: str = "",
    ) -> None:
        name = self._identity(label)
        made = self._make(name, kind, label or name, target, value, scope, stmt, reduction)
        self.statements.append(made)

    def _make(
        self,
        name: str,
        kind: str,
        label: str,
        target: Load,
        value: Expr,
        scope: _Scope,
        stmt: Stmt,
        reduction: str = "",
        runs: Expr | None = None,
    ) -> Statement:
        reads: list[Access] = []
        # What is declared under a predicate is private to it, so computing it always is harmless
        # (and nobody else sees it); only its accesses are then more than the program makes. But
        # subscripts that are checked are asked for only where the program asks for them.
        predicate = scope.predicate if kind == "store" else runs
        if scope.predicate is not None and kind in ("define", "update") and _asks(value):
            if kind == "update":
                predicate = _conjoin(scope.predicate, runs)
            else:
                nothing = Const(neutral("sum", value.dtype), value.dtype, span=value.span)
                value = Select(scope.predicate, value, nothing, value.dtype, span=value.span)
        scatter = ""
        if any(is_checked(each) for each in target.index):
            if predicate is None:
                predicate = Const(True, DType.BOOL, span=target.span)
            reduction, scatter = "", reduction  # nobody can tell which updates are of one element
        if predicate is not None:
            predicate = self._lower(predicate, scope.domain, scope, name, reads)
        value = self._lower(value, scope.domain, scope, name, reads)
        index = [self._lower(each, scope.domain, scope, name, reads) for each in target.index]
        target = replace(target, index=tuple(index))
        write = self._access(target, scope.domain, scope, name)
        if predicate is not None:
            reads.append(write)
        elif scope.predicate is not None:
            reads = [replace(read, exact=False) for read in reads]
            write = replace(write, exact=False)
        return Statement(
            name,
            label,
            kind,
            scope.loops,
            self._position(scope),
            scope.domain.set_tuple_name(name),
            target,
            write,
            value,
            tuple(reads),
            predicate,
            reduction,
            stmt.span,
            scatter,
        )

    def _lower(
        self, expr: Expr, where: IslSet, scope: _Scope, name: str, reads: list[Access]
    ) -> Expr:
        """`expr` without edge modes; its reads are appended in evaluation order.

        `where` is the set of iterations in which `expr` is evaluated: a Select with an affine
        condition narrows it for its arms.
        """
        match expr:
            case Load():
                # A mode may repeat the subscripts: then their reads are counted when it is gone.
                found: list[Access] = [] if expr.mode else reads
                below = tuple(
                    self._lower(child, where, scope, name, found) for child in children(expr)
                )
                plain = with_children(expr, below)
                assert isinstance(plain, Load)
                if plain.mode:
                    return self._lower_mode(plain, where, scope, name, reads)
                reads.append(self._access(plain, where, scope, name))
                return plain
            case Select(condition=condition, then=then, otherwise=otherwise):
                test = self._lower(condition, where, scope, name, reads)
                holds = scope.reader.condition(condition, where.intersect_params(self.known))
                first, second = where, where
                if _has_load(then) or _has_load(otherwise):
                    possible = self._bound(condition, scope, where, surely=False)
                    surely = self._bound(condition, scope, where, surely=True)
                    first = where if possible is None else where.intersect(possible)
                    second = where if surely is None else where.subtract(surely)
                before = len(reads)
                new = (
                    test,
                    self._lower(then, first, scope, name, reads),
                    self._lower(otherwise, second, scope, name, reads),
                )
                if holds is None:  # either arm, in every iteration: more than is read
                    reads[before:] = [replace(read, exact=False) for read in reads[before:]]
                return with_children(expr, new)
            case _:
                below = children(expr)
                if not below:
                    return expr
                return with_children(
                    expr, tuple(self._lower(child, where, scope, name, reads) for child in below)
                )

    def _lower_mode(
        self, load: Load, where: IslSet, scope: _Scope, name: str, reads: list[Access]
    ) -> Expr:
        def known(subscript: Expr, extent: Expr) -> tuple[bool, bool]:
            if obviously_inside(subscript, extent, scope.loops):
                return True, True
            value = scope.reader.piecewise(subscript, where)
            end = scope.reader.piecewise(extent, where)
            if value is None or end is None:
                return False, False
            low = self._proved(where, value.lt_set(scope.reader.constant(0)))
            high = self._proved(where, value.ge_set(end))
            # Of what never runs all is provable; who puts it elsewhere must not read beyond the array.
            return (False, False) if low and high and where.is_empty() else (low, high)

        def is_known(subscript: Expr) -> bool:
            return is_affine(subscript) and not (iterators(subscript) & self.wandering)

        lowered = lower_load(load, self.arrays[load.array].extents, known, is_known)
        return self._lower(lowered, where, scope, name, reads)

    # ------------------------------------------------------------------------ accesses

    def _access(self, load: Load, where: IslSet, scope: _Scope, name: str) -> Access:
        array = self.arrays[load.array]
        reader = scope.reader
        values = [reader.affine({owner: 1}) for owner in array.private_to]
        lead = len(values)
        unknown: list[int] = []
        possible = where
        if any(linear(subscript) is None for subscript in load.index):
            possible = where.intersect_params(self.known)
        for position, subscript in enumerate(load.index):
            value = reader.piecewise(subscript, possible)
            if value is None:
                unknown.append(lead + position)
                value = reader.constant(0)
            values.append(value)
        places: list[tuple[str, IslSet]] = [(load.array, where)]
        exact = not unknown
        if load.swapped is not None:
            parity = reader.piecewise(load.swapped.parity, where)
            if parity is None:
                places.append((load.swapped.array, where))
                exact = False
            else:
                odd = parity.eq_set(reader.constant(1))
                places = [
                    (load.array, where.subtract(odd)),
                    (load.swapped.array, where.intersect(odd)),
                ]
        parts: list[tuple[str, IslMap]] = []
        for target, part in places:
            relation = isl.relation_of(reader.space, values, target).intersect_domain(part)
            for position in unknown:
                relation = relation.project_out(isl.OUT, position, 1).insert_dims(
                    isl.OUT, position, 1
                )
            if unknown:
                # Bounded there by the array; elsewhere it stays what the subscript says.
                relation = relation.set_tuple_name(isl.OUT, target)
                relation = relation.intersect_range(self._box(target, tuple(unknown)))
            parts.append((target, relation.set_tuple_name(isl.IN, name)))
        return Access(load, tuple(parts), exact)

    def _box(self, name: str, along: tuple[int, ...]) -> IslSet:
        """{ A[private..., subscripts...] }, inside the array along those dimensions."""
        found = self.boxes.get((name, along))
        if found is None:
            found = array_box(self.context, self.symbols, self.arrays[name], along)
            self.boxes[name, along] = found
        return found


def unknown_bounds(kernel: Kernel) -> tuple[str, ...]:
    """The scalars that are bounds of the kernel's loops: symbols of the model."""
    found: dict[str, None] = {}
    for stmt in walk_stmts(kernel.body):
        for each in _ranges_of(stmt):
            found |= dict.fromkeys(_unknown_of(each))
    return tuple(found)


def _ranges_of(stmt: Stmt) -> tuple[For | Range, ...]:
    match stmt:
        case For():
            return (stmt,)
        case Reduce(ranges=ranges):
            return ranges
        case _:
            return ()


def _unknown_of(each: For | Range) -> tuple[str, ...]:
    return tuple(load.array for bound in (each.lower, each.upper) for load in loads(bound))


def _as_symbol(bound: Expr) -> Expr:
    """before: the scalar k_start        after: the symbol k_start"""
    return Symbol(bound.array, DType.I64, span=bound.span) if isinstance(bound, Load) else bound


def _runs(each: For | Range) -> Expr | None:
    """Is the iterator inside the bounds that this run of the loop has? None where it always is."""
    here = Iter(each.iterator, span=each.span)
    low = Compare("ge", here, each.lower, span=each.span) if loads(each.lower) else None
    high = Compare("lt", here, each.upper, span=each.span) if loads(each.upper) else None
    return _conjoin(low, high)


def obviously_inside(subscript: Expr, extent: Expr, loops: tuple[Loop, ...]) -> bool:
    """`subscript` is an iterator that runs inside 0..extent: the common case, without isl."""
    if not isinstance(subscript, Iter):
        return False
    for loop in loops:
        if loop.iterator == subscript.name:
            start = loop.lower
            return (
                loop.step > 0
                and isinstance(start, Const)
                and start.value >= 0
                and loop.upper == extent
            )
    return False


def array_box(
    context: isl.Context,
    symbols: tuple[str, ...],
    array: Array,
    along: tuple[int, ...] | None = None,
) -> IslSet:
    """The elements that `array` has; leading private dimensions are not bounded. `along`: bounded
    along those dimensions (of all) alone, whether or not it is empty along others."""
    lead = len(array.private_to)
    dims = [f"p{k}" for k in range(lead)] + [f"d{k}" for k in range(len(array.extents))]
    space = isl.set_space(context, symbols, dims, array.name)
    reader = isl.Reader(space)
    box = isl.universe(space)
    zero = reader.constant(0)
    for position, extent in enumerate(array.extents):
        if along is not None and lead + position not in along:
            continue
        here = reader.affine({dims[lead + position]: 1})
        box = box.intersect(here.ge_set(zero))
        end = reader.piecewise(extent)
        if end is not None:
            box = box.intersect(here.lt_set(end))
    return box


def _names(load: Load) -> tuple[str, ...]:
    """The arrays a load may touch."""
    return (load.array,) if load.swapped is None else (load.array, load.swapped.array)


def _has_load(expr: Expr) -> bool:
    return bool(loads(expr))


def _conjoin(left: Expr | None, right: Expr | None) -> Expr | None:
    if left is None or right is None:
        return left if right is None else right
    return Binary("and", left, right, DType.BOOL, span=left.span)


def _under(predicate: Expr | None, condition: Expr) -> Expr:
    """Both hold; what the condition asks for is asked for only where the predicate holds."""
    if predicate is None:
        return condition
    if not _asks(condition):
        return Binary("and", predicate, condition, DType.BOOL, span=predicate.span)
    never = Const(False, DType.BOOL, span=condition.span)
    return Select(predicate, condition, never, DType.BOOL, span=condition.span)


def _asks(value: Expr) -> bool:
    """Does the value read at a subscript that is checked when it runs?"""
    return any(is_checked(each) for load in loads(value) for each in load.index)
