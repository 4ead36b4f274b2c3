"""What one thread of a kernel runs: loops, guards and computes for the statements of a group.

The one place where program statements become LoopTree leaves. Strategies decide the loops around
(who runs which iteration); `BodyBuilder` fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import TRUE, conjoin, in_range, trip_count
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, Select, Symbol, compare, integer, zero
from loopfuse.lang.walk import children, iterators, map_expr, substitute, symbols, with_children
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import Item, Nest, statements_of
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.recompute import Resolver, Value, within
from loopfuse.plan.units.storage import Store
from loopfuse.poly.isl import Reader
from loopfuse.poly.isl_relations import condition_expr, simplify_within
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Copy,
    Global,
    Guard,
    Loop,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import (
    Mapping as Where,
)


@dataclass
class Names:
    """Hands out names that are unique in a tree, and collects its buffers. `strided`: arguments
    that are views, and `rows` how many of their last dimensions lie without gaps (0: none, or not
    known); `copies`: by array, the workspace that holds it between blocks of time steps."""

    used: set[str] = field(default_factory=set[str])
    strided: frozenset[str] = frozenset()
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    copies: dict[str, str] = field(default_factory=dict[str, str])

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with a number behind it."""
        name, count = wanted, self.counts.get(wanted, 1)
        while name in self.used:
            name = f"{wanted}_{count}"
            count += 1
        self.counts[wanted] = count
        self.used.add(name)
        return name

    def copy(self) -> Names:
        """The same names, for a body that is made for a look at it."""
        return replace(
            self, used=set(self.used), buffers=dict(self.buffers), counts=dict(self.counts),
            copies=dict(self.copies),
        )  # fmt: skip

    def add(self, buffer: Buffer) -> Buffer:
        """Records a buffer."""
        self.buffers[buffer.name] = buffer
        return buffer

    def declare(self, buffers: Iterable[Buffer]) -> None:
        """Records those that are not yet, under the names that they have."""
        for buffer in buffers:
            if buffer.name not in self.buffers:
                self.used.add(buffer.name)
                self.add(buffer)

    def register(self, wanted: str, load: Load, count: int = 0) -> Load:
        """A new register, or `count` of them, for what `load` gives."""
        name = self.fresh(wanted)
        array = self.buffers[load.array].array if load.array in self.buffers else load.array
        self.add(Buffer(name, array, load.dtype, (integer(count),) if count else (), Register()))
        return Load(name, (), load.dtype)


@dataclass
class BodyBuilder:
    """Builds thread bodies of one group. `redirect` sends an array, in one statement, to
    another buffer load (a private accumulator of a combining kernel)."""

    program: PolyProgram
    group: Group
    stores: dict[str, Store]
    names: Names
    extents: dict[str, tuple[Expr, Expr]]
    redirect: dict[tuple[str, str], Load] = field(default_factory=dict[tuple[str, str], Load])
    skip: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.resolver = Resolver(self.program, self.group)
        self.values: dict[Value, str] = {}
        self.parity: dict[Expr, int] = {}
        units = [placed.unit for placed in self.group.members]
        in_turn = {name for unit in units for s in unit.statements for name in s.iterators if name not in unit.parallel}
        self.free = frozenset(name for unit in units for name in unit.parallel) - in_turn
        """The loops whose iterations may run in any order in every part of the group (those of a loop that was
        distributed have one name): one that counts down counts up, as what cuts off edges and what makes vectors
        like it."""

    # ------------------------------------------------------------------ units and items

    def unit(self, placed: Placed, known: Sequence[Expr], point: Mapping[str, Expr]) -> list[TreeNode]:
        """A placed unit at group point `point` (dimension -> value). `known`: conditions on the
        unit's iterators that hold there (the bounds of the loops around)."""
        iteration = {
            c.iterator: tidy(substitute(c.value(), point)) for c in placed.coordinates
        }
        if self.group.scope is not None:
            iteration |= self.group.scope.values()
        inside = [*known, *host_conditions(self.group)]
        return merge_guards(self.items(placed.unit.items, iteration, inside))

    def items(
        self, items: Sequence[Item], iteration: Mapping[str, Expr], known: list[Expr]
    ) -> list[TreeNode]:
        """`items` in order; iterators in `iteration` are already fixed."""
        out: list[TreeNode] = []
        for item in items:
            if isinstance(item, Statement) and item.id in self.skip:
                continue
            if isinstance(item, Statement):
                out += self.statement(item, iteration, known)
            elif item.loop.iterator in iteration:
                out += self.items(item.children, iteration, known)
            else:
                out += self.serial(item, iteration, known)
        return out

    def serial(self, nest: Nest, iteration: Mapping[str, Expr], known: list[Expr]) -> list[TreeNode]:
        """A loop that the thread runs in order."""
        loop = nest.loop
        lower = self.scalars(tidy(substitute(loop.lower, iteration)), iteration)
        upper = self.scalars(tidy(substitute(loop.upper, iteration)), iteration)
        var = self.names.fresh(loop.iterator)
        value: Expr = Iter(var)
        if loop.step > 0:
            bounds = (lower, upper, loop.step)
        elif loop.step == -1 and loop.iterator in self.free:
            bounds = (tidy(upper + 1), tidy(lower + 1), 1)
        else:
            step = Iter(var) * (-loop.step)
            value = lower - step
            bounds = (integer(0), trip_count(lower, upper, loop.step), 1)
        inside = known + loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
        # Bounds that are data are read only where the program sets them: elsewhere the register
        # holds anything, and the loop would run for as long.
        defined = self.defined(loop.lower, loop.upper, known=known)
        if defined != TRUE:
            inside.append(defined)
        saved = dict(self.values)
        here = {**iteration, loop.iterator: value}
        body = merge_guards(self.items(nest.children, here, inside))
        body = [*self.cleared(nest, here), *body] if body else []
        self.values = saved
        if not body or defined == Const(False, TRUE.dtype):
            return []
        out = Loop(var, *bounds, Where.UNROLLED if self.names_registers(nest) else Where.SERIAL, tuple(body))
        if defined == TRUE:
            return [out]
        return [Guard(self.scalars(substitute(defined, iteration), iteration), (out,))]

    def names_registers(self, nest: Nest) -> bool:
        """Does the loop's iterator say which register something is in?"""
        accessed = [load for s in statements_of(nest.children) for load in (s.target, *(a.load for a in s.reads))]
        names = {name for load in accessed if self.stores[load.array].elements for part in load.index for name in iterators(part)}
        return nest.loop.iterator in names

    def cleared(self, nest: Nest, iteration: Mapping[str, Expr]) -> list[TreeNode]:
        """Zeros for the arrays that are private to an iteration of the loop, where all iterations
        share one copy."""
        out: list[TreeNode] = []
        touched = {s.target.array for s in statements_of(nest.children)}
        for name in sorted(touched):
            if self.stores[name].cleared != nest.loop.iterator:
                continue
            array = self.program.arrays[name]
            names = [self.names.fresh(f"{name}_{k}") for k in range(len(array.extents))]
            place = Load(name, tuple(Iter(each) for each in names), array.dtype)
            at = self.storage(place, self.program.statements[0], iteration)
            nodes: tuple[TreeNode, ...] = (Copy(at, zero(array.dtype)),)
            for var, extent in reversed([*zip(names, array.extents, strict=True)]):
                end = self.scalars(tidy(substitute(extent, iteration)), iteration)
                nodes = (Loop(var, integer(0), end, 1, Where.SERIAL, nodes),)
            out += nodes
        return out

    def defined(self, *bounds: Expr, known: Sequence[Expr]) -> Expr:
        """The part of the condition that `known` does not imply under which the scalars in
        `bounds` (data-dependent ones) have been set."""
        names = {name for bound in bounds for name in symbols(bound)} & set(self.program.unknown)
        setters = [s for s in self.program.statements if s.target.array in names]
        conditions = [guard_of(s, known, self.program) for s in setters]
        return conjoin(*dict.fromkeys(c for c in conditions if c != TRUE))

    # ----------------------------------------------------------------------- statements

    def statement(
        self, statement: Statement, iteration: Mapping[str, Expr], known: Sequence[Expr]
    ) -> list[TreeNode]:
        """One statement instance, behind what it recomputes, guarded by what is not known; one
        version for each parity of a swap."""
        touched = (statement.target, *(access.load for access in statement.reads))
        return self.in_versions(touched, iteration, lambda: self._statement(statement, iteration, known))

    def in_versions(
        self, touched: Sequence[Load], iteration: Mapping[str, Expr], make: Callable[[], list[TreeNode]]
    ) -> list[TreeNode]:
        """What `make` makes, in a version for each parity of a swap that stands in the accesses."""
        swaps = {load.swapped.parity for load in touched if load.swapped is not None}
        open_swaps = sorted((p for p in swaps if p not in self.parity), key=repr)
        if not open_swaps:
            return make()
        parity = open_swaps[0]
        versions: list[tuple[TreeNode, ...]] = []
        saved = dict(self.values)
        for value in (1, 0):
            self.parity[parity] = value
            versions.append(tuple(self.in_versions(touched, iteration, make)))
            self.values = dict(saved)  # what one version recomputes, the other does not have
        del self.parity[parity]
        test = compare("eq", tidy(substitute(parity, iteration)), integer(1))
        return [Guard(test, versions[0], versions[1])]

    def _statement(
        self, statement: Statement, iteration: Mapping[str, Expr], known: Sequence[Expr]
    ) -> list[TreeNode]:
        condition = guard_of(statement, known, self.program)
        if condition == Const(False, TRUE.dtype):
            return []
        condition = self.scalars(substitute(condition, iteration), iteration)
        saved = dict(self.values)
        out: list[TreeNode] = []
        for value in self.resolver.closure(statement, iteration):
            out += self.value(value)
        point = tuple(iteration[name] for name in statement.iterators)
        sources = iter(self.resolver.sources(statement, iteration))
        predicate = None
        if statement.predicate is not None:
            expr = substitute(statement.predicate, iteration)
            predicate = self.redirected(expr, sources, statement, iteration)
        expr = substitute(statement.value, iteration)
        value_expr = self.redirected(expr, sources, statement, iteration)
        target = tidy_load(substitute(statement.target, iteration))
        index = tuple(
            self.redirected(each, sources, statement, iteration) for each in target.index
        )
        target = self.target(replace(target, index=index), statement, iteration)
        out.append(Compute(statement.id, point, target, value_expr, predicate))
        if condition != TRUE:
            self.values = saved
            return [Guard(condition, tuple(merge_guards(out)))]
        return out

    def value(self, value: Value) -> list[TreeNode]:
        """A recomputed value, into a register of its own (once per place)."""
        if value in self.values:
            return []
        statement = self.resolver.statements[value.statement]
        array = statement.target.array
        name = self.names.fresh(array)
        dtype = statement.target.dtype
        self.names.add(Buffer(name, array, dtype, (), Register()))
        iteration = dict(zip(statement.iterators, value.iteration))
        sources = iter(
            None if s is None else within(s, value.needed)
            for s in self.resolver.sources(statement, iteration)
        )
        expr = substitute(statement.value, iteration)
        expr = self.redirected(expr, sources, statement, iteration)
        self.values[value] = name
        node = Compute(statement.id, value.iteration, Load(name, (), dtype), expr)
        return [node] if value.needed == TRUE else [Guard(value.needed, (node,))]

    def redirected(
        self,
        expr: Expr,
        sources: Iterator[Value | None],
        statement: Statement,
        iteration: Mapping[str, Expr],
    ) -> Expr:
        """`expr` with each load sent to its buffer."""
        if isinstance(expr, Load):
            index = tuple(
                self.redirected(each, sources, statement, iteration) for each in expr.index
            )
            source = next(sources)
            if source is not None:
                return Load(self.values[source], (), expr.dtype, span=expr.span)
            return self.storage(tidy_load(replace(expr, index=index)), statement, iteration)
        if isinstance(expr, Select):
            condition = self.redirected(expr.condition, sources, statement, iteration)
            then = self.redirected(expr.then, sources, statement, iteration)
            other = self.redirected(expr.otherwise, sources, statement, iteration)
            return with_children(expr, (condition, then, other))
        below = children(expr)
        if not below:
            return expr
        return with_children(
            expr,
            tuple(self.redirected(child, sources, statement, iteration) for child in below),
        )

    def scalars(self, expr: Expr, iteration: Mapping[str, Expr]) -> Expr:
        """`expr` with the symbols that stand for scalars (data-dependent bounds) read."""

        def one(node: Expr) -> Expr:
            if isinstance(node, Symbol) and node.name in self.program.unknown:
                scalar = Load(node.name, (), node.dtype, span=node.span)
                return self.storage(scalar, self.program.statements[0], iteration)
            return node

        return map_expr(one, expr) if self.program.unknown else expr

    def storage(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The buffer element that holds `load` (subscripts already in tree variables)."""
        if (statement.id, load.array) in self.redirect and not _is_of_operand(load, statement, iteration):
            return self.redirect[statement.id, load.array]
        if load.swapped is not None:
            parity = self.original_parity(load, statement)
            other = load.swapped.array if self.parity[parity] else load.array
            load = Load(other, load.index, load.dtype, span=load.span)
        store, array = self.stores[load.array], self.program.arrays[load.array]
        if store.home == "register":
            if load.array not in self.names.buffers:
                self.names.used.add(load.array)
                extents = array.extents if store.elements else ()
                self.names.add(Buffer(load.array, load.array, array.dtype, extents, Register()))
            return Load(load.array, load.index if store.elements else (), load.dtype, span=load.span)
        leading = tuple(
            tidy(iteration[name] - self.extents[name][0]) for name in store.leading
        )
        name = declare_global(self.program, self.stores, self.extents, self.names, load.array)
        return Load(name, (*leading, *load.index), load.dtype, span=load.span)

    def target(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The buffer element that a statement writes."""
        return self.storage(load, statement, iteration)

    def original_parity(self, load: Load, statement: Statement) -> Expr:
        """The parity of a substituted load as the statement writes it."""
        for each in (statement.target, *(access.load for access in statement.reads)):
            if each.swapped is not None and each.span == load.span and each.array == load.array:
                return each.swapped.parity
        raise KeyError(load.array)


def _is_of_operand(load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> bool:
    """Is it a load of an update's operand, from another place of the array that it updates?"""
    return statement.has_own_operand and load.index != tidy_load(substitute(statement.target, iteration)).index


def guard_of(statement: Statement, known: Sequence[Expr], program: PolyProgram) -> Expr:
    """The part of the statement's domain that `known` does not imply, in its iterators."""
    reader = Reader(statement.domain.get_space())
    certain: Any = reader.condition(TRUE)
    for condition in known:
        part = reader.condition(condition)
        if part is not None:  # what is not affine is simply not known
            certain = certain.intersect(part)
    rest = simplify_within(statement.domain, certain, program.context)
    return condition_expr(rest, program.symbols)


def host_conditions(group: Group) -> list[Expr]:
    """What holds of the iterators of the host loops around a group."""
    out: list[Expr] = []
    for loop in group.scope.host if group.scope else ():
        out += loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
    return out


def tidy_load(expr: Expr) -> Load:
    """`tidy` of a Load."""
    out = tidy(expr)
    assert isinstance(out, Load)
    return out


def loop_conditions(iterator: str, lower: Expr, upper: Expr, step: int) -> list[Expr]:
    """What holds of an iterator inside its loop."""
    it = Iter(iterator)
    if step < 0:
        out = [it <= lower, it > upper]
    else:
        out = in_range(it, lower, upper)
    if abs(step) != 1:
        away = (it - lower) % abs(step)
        out.append(compare("eq", away, integer(0)))
    return out


def stride_symbols(array: str, rank: int) -> tuple[Expr, ...]:
    """The strides of an argument that is a view, as the caller passes them."""
    return tuple(Symbol(f"{array}__stride{k}", DType.I64) for k in range(rank))


def view_strides(array: str, extents: tuple[Expr, ...], packed: int) -> tuple[Expr, ...]:
    """The strides of a view, in elements: symbols, but where the last `packed` dimensions lie without
    gaps what follows from the extents."""
    found = list(stride_symbols(array, len(extents)))
    step: Expr = integer(1)
    for number in range(len(extents) - 1, len(extents) - 1 - packed, -1):
        found[number] = step
        step = step * extents[number]
    return tuple(found)


def declare_global(
    program: PolyProgram,
    stores: Mapping[str, Store],
    extents: Mapping[str, tuple[Expr, Expr]],
    names: Names,
    array_name: str,
) -> str:
    """The Global buffer of an array, made on first use; its name."""
    array, store = program.arrays[array_name], stores[array_name]
    if array_name not in names.buffers:
        names.used.add(array_name)
        leading = tuple(
            tidy(extents[name][1] - extents[name][0]) for name in store.leading
        )
        names.add(
            Buffer(
                array_name,
                array_name,
                array.dtype,
                (*leading, *array.extents),
                Global(),
                argument=array.is_argument,
                zeroed=store.zeroed and not array.is_argument,
                strides=view_strides(array_name, array.extents, names.rows.get(array_name, 0))
                if array_name in names.strided
                else None,
                copies=len(leading),
            )
        )
    return array_name


def merge_guards(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """Neighbouring guards with one condition become one."""
    out: list[TreeNode] = []
    for node in nodes:
        last = out[-1] if out else None
        if (
            isinstance(node, Guard)
            and isinstance(last, Guard)
            and node.condition == last.condition
        ):
            out[-1] = Guard(
                node.condition,
                tuple(merge_guards((*last.then, *node.then))),
                tuple(merge_guards((*last.otherwise, *node.otherwise))),
            )
        else:
            out.append(node)
    return out
