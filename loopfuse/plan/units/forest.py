"""Loop forests: statements put back into the loops they share, and the units that may fuse.

A `Unit` is what fusion moves as a whole: a loop nest (or a lone statement) of the source, or a
part of one after loop distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from loopfuse.lang.nodes import Expr, Iter
from loopfuse.lang.walk import iterators, substitute
from loopfuse.poly.isl_relations import equate, is_equal_along
from loopfuse.poly.model import Dependence, Loop, Statement


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop and what stands directly inside it, in text order."""

    loop: Loop
    children: tuple[Item, ...]


Item = Nest | Statement


@dataclass(frozen=True)  # no slots: `ids` is kept once it is asked for
class Unit:
    """What fusion moves as a whole.

    `items` are consecutive trees (an accumulator's initialisation and its loop stay together);
    `common` are the loops, below the scope's host loops, around every statement but such
    initialisations, down to the first whose bounds depend on data; `parallel` names those of them along which no dependence inside the unit
    moves; `relaxed` the same if reductions may change their order, which those of the statements
    `carried` then do. `rank` numbers the units of one sequence as they run, which need not be text
    order: where a loop is distributed, what reads an element goes before what overwrites it.
    """

    label: str
    items: tuple[Item, ...]
    statements: tuple[Statement, ...]
    common: tuple[Loop, ...]
    parallel: tuple[str, ...]
    relaxed: tuple[str, ...]
    carried: frozenset[str] = frozenset()
    rank: int = 0

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of its statements."""
        return frozenset(statement.id for statement in self.statements)

    def only(self, ids: frozenset[str]) -> Unit:
        """The unit with these of its statements alone."""
        statements = tuple(s for s in self.statements if s.id in ids)
        return replace(self, items=_only(self.items, ids), statements=statements, carried=self.carried & ids)

    def in_turn(self) -> Unit:
        """The unit with no loop free: all its iterations run one after the other."""
        return replace(self, parallel=(), relaxed=(), carried=frozenset())

    @property
    def line(self) -> int:
        """The line of its outermost loop or first statement."""
        first = self.items[-1]
        return first.loop.line if isinstance(first, Nest) else first.line


def _only(items: Iterable[Item], ids: frozenset[str]) -> tuple[Item, ...]:
    """`items` with these statements alone; no loop is left empty."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Statement):
            found += [item] if item.id in ids else []
        elif children := _only(item.children, ids):
            found.append(Nest(item.loop, children))
    return tuple(found)


def in_order(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """`units` of one sequence as they run."""
    return tuple(sorted(units, key=lambda unit: unit.rank))


@dataclass(frozen=True)  # no slots: what is looked up by name is kept once it is asked for
class Scope:
    """Where in the program planning stands: the host loops around, and the dependences between
    instances that share an iteration of those loops."""

    host: tuple[Loop, ...]
    dependences: tuple[Dependence, ...]
    reassociate: bool

    @cached_property
    def flows(self) -> dict[str, tuple[Dependence, ...]]:
        """The flow dependences over each array."""
        found: dict[str, list[Dependence]] = {}
        for dependence in self.dependences:
            if dependence.kind == "flow":
                found.setdefault(dependence.array, []).append(dependence)
        return {array: tuple(flows) for array, flows in found.items()}

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """Which dependences have an end at each statement."""
        found: dict[str, list[int]] = {}
        for number, dependence in enumerate(self.dependences):
            for id in {dependence.source, dependence.sink}:
                found.setdefault(id, []).append(number)
        return found

    def touching(self, ids: Iterable[str]) -> list[Dependence]:
        """The dependences with an end at a statement of `ids`, in order. (A kernel may have many
        hundred loops, and each is asked about its own.)"""
        numbers = {number for id in ids for number in self._numbers.get(id, ())}
        return [self.dependences[number] for number in sorted(numbers)]

    def values(self) -> dict[str, Expr]:
        """The host iterators in terms of the tree's host loop variables, which have their names
        (one that counts down is numbered from 0)."""
        out: dict[str, Expr] = {}
        for loop in self.host:
            if loop.step > 0:
                out[loop.iterator] = Iter(loop.iterator)
            else:
                away = Iter(loop.iterator) * (-loop.step)
                out[loop.iterator] = substitute(loop.lower, out) - away
        return out

    def numbers(self) -> dict[str, Expr]:
        """The inverse of `values`: the tree's host loop variables in terms of the host iterators, for those that are
        something else."""
        return {
            loop.iterator: (loop.lower - Iter(loop.iterator)) // -loop.step for loop in self.host if loop.step < 0
        }

    def enter(self, loop: Loop, statements: dict[str, Statement]) -> Scope:
        """The scope of one iteration of host loop `loop`."""
        kept: list[Dependence] = []
        for dependence in self.dependences:
            source, sink = statements[dependence.source], statements[dependence.sink]
            if loop.iterator not in source.iterators or loop.iterator not in sink.iterators:
                continue
            pair = (
                source.iterators.index(loop.iterator),
                sink.iterators.index(loop.iterator),
            )
            relation = equate(dependence.relation, [pair])
            if not relation.is_empty():
                kept.append(
                    Dependence(
                        dependence.kind,
                        dependence.array,
                        dependence.source,
                        dependence.sink,
                        relation,
                        dependence.by_element,
                        dependence.reduction,
                        dependence.exact,
                    )
                )
        return Scope((*self.host, loop), tuple(kept), self.reassociate)


def build_forest(statements: Sequence[Statement], depth: int = 0) -> tuple[Item, ...]:
    """The trees of `statements` (text order) below their first `depth` loops."""
    items: list[Item] = []
    index = 0
    while index < len(statements):
        first = statements[index]
        if len(first.loops) == depth:
            items.append(first)
            index += 1
            continue
        iterator = first.loops[depth].iterator
        end = index
        while (
            end < len(statements)
            and len(statements[end].loops) > depth
            and statements[end].loops[depth].iterator == iterator
        ):
            end += 1
        items.append(Nest(first.loops[depth], build_forest(statements[index:end], depth + 1)))
        index = end
    return tuple(items)


def statements_of(items: Iterable[Item]) -> tuple[Statement, ...]:
    """The statements of `items`, in text order."""
    out: list[Statement] = []
    for item in items:
        out += statements_of(item.children) if isinstance(item, Nest) else [item]
    return tuple(out)


def innermost(items: Iterable[Item]) -> Iterator[tuple[Statement, ...]]:
    """The statements that stand side by side in each loop of `items`."""
    for item in items:
        if isinstance(item, Nest):
            beside = tuple(child for child in item.children if isinstance(child, Statement))
            yield from (beside,) if beside else ()
            yield from innermost(item.children)


def cells(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """`items` cut where they may be separated: an `init` stays with everything up to the loop that
    holds its updates, and a data-dependent bound with everything up to its loop."""
    out: list[tuple[Item, ...]] = []
    current: list[Item] = []
    open_labels: set[str] = set()
    for item in items:
        current.append(item)
        inside = statements_of([item])
        if isinstance(item, Statement) and item.kind == "init":
            open_labels.add(item.label)
        if isinstance(item, Statement) and item.is_hidden:
            open_labels.add("")
        if isinstance(item, Nest):
            open_labels.discard("")
        open_labels -= {s.label for s in inside if s.kind == "update"}
        if not open_labels:
            out.append(tuple(current))
            current = []
    if current:
        out.append(tuple(current))
    return out


def fold_of(reduction: str) -> str:
    """What a tree calls the operation of a reduction (`Fold.op`, `Combine.op`)."""
    return {"any": "or", "all": "and"}.get(reduction, reduction)


def may_reorder(statement: Statement, reassociate: bool) -> bool:
    """May the updates of the reduction that the statement is part of run in another order? Always where the
    operation is exactly associative (integers, min, max, any, all), else only if reassociation is on."""
    if statement.reduction in ("", "xor"):
        return False  # trees have no fold for xor
    exact = statement.reduction in ("min", "max", "any", "all", "and", "or")
    return reassociate or exact or not statement.target.dtype.is_float


def order_is_free(dependence: Dependence, statement: Statement, reassociate: bool) -> bool:
    """The dependence is a reduction's own, and its order may change."""
    return bool(dependence.reduction) and may_reorder(statement, reassociate)


def make_unit(label: str, items: tuple[Item, ...], scope: Scope) -> Unit:
    """The unit of `items`, with its parallel loops found."""
    statements = statements_of(items)
    by_id = {statement.id: statement for statement in statements}
    main = [s for s in statements if s.kind != "init"] or list(statements)
    skip = len(scope.host)
    common: list[Loop] = []
    for depth in range(skip, min(len(s.loops) for s in main)):
        if len({s.loops[depth].iterator for s in main}) != 1:
            break
        if main[0].loops[depth].unknown:
            break  # each thread runs it in order, once it has read the bounds
        common.append(main[0].loops[depth])
    inside = [d for d in scope.touching(by_id) if d.source in by_id and d.sink in by_id]
    # A reduction over one iteration at most carries nothing, but starts from nothing also where there is none.
    parallel = tuple(
        loop.iterator for loop in common if not loop.reduction and _moves_nothing(loop.iterator, inside, by_id)
    )
    free = [
        d
        for d in inside
        if not order_is_free(d, by_id[d.source], scope.reassociate)
        and by_id[d.source].kind != "init"
        and by_id[d.sink].kind != "init"
    ]
    relaxed = tuple(loop.iterator for loop in common if _moves_nothing(loop.iterator, free, by_id))
    carried = frozenset(
        d.source
        for d in inside
        if d.reduction
        and by_id[d.source].kind != "init"
        and not all(_moves_nothing(iterator, [d], by_id) for iterator in relaxed)
    )
    moving = {
        frozenset(i for i in relaxed if not _moves_nothing(i, [d], by_id))
        for d in inside
        if d.reduction and d.source == d.sink and d.source in carried
    }
    inner = {name for s in main for name in s.iterators[skip:]}
    several = not parallel and any(inner & iterators(by_id[id].target) for id in carried)
    mixed = len(frozenset().union(*moving)) > min(map(len, moving), default=0)
    if not carried or several or mixed or any(
        _uses_partial_result(d, by_id) for d in inside if carried & {d.source, d.sink}
    ):
        # Results in several elements (partial results are for one), one result per iteration
        # beside one in all, or a partial result that is used.
        relaxed, carried = parallel, frozenset[str]()
    return Unit(label, items, statements, tuple(common), parallel, relaxed, carried)


def _uses_partial_result(dependence: Dependence, by_id: dict[str, Statement]) -> bool:
    """Does another statement read or overwrite what an update made, or the operand of an update what one makes?"""
    source, sink = by_id[dependence.source], by_id[dependence.sink]
    if source.label != sink.label:
        return dependence.kind != "anti" and bool(source.operation) and sink.kind != "init"
    return not dependence.reduction and dependence.kind != "output" and "init" not in (source.kind, sink.kind)


def _moves_nothing(
    iterator: str, dependences: Sequence[Dependence], by_id: dict[str, Statement]
) -> bool:
    for dependence in dependences:
        source, sink = by_id[dependence.source], by_id[dependence.sink]
        if iterator not in source.iterators or iterator not in sink.iterators:
            return False
        p, q = source.iterators.index(iterator), sink.iterators.index(iterator)
        if not is_equal_along(dependence.relation, p, q):
            return False
    return True


def serial_because(unit: Unit, scope: Scope) -> tuple[Dependence, Any] | tuple[None, None]:
    """A dependence that keeps the iterations of the unit's outermost loop in order, and its instances
    that do: of a value, where there is one. None where no one loop's instances say it."""
    by_id = {s.id: s for s in unit.statements}
    inside = [d for d in scope.touching(by_id) if d.source in by_id and d.sink in by_id]
    for d in sorted(inside, key=lambda d: d.kind != "flow"):
        ends = [by_id[id].iterators for id in (d.source, d.sink)]
        inside_loop = unit.common and all(unit.common[0].iterator in names for names in ends)
        if order_is_free(d, by_id[d.source], scope.reassociate) or not inside_loop:
            continue
        p, q = (names.index(unit.common[0].iterator) for names in ends)
        moving = d.relation.subtract(equate(d.relation, [(p, q)]))
        if not moving.is_empty():
            return d, moving
    return None, None


def carries_nothing(unit: Unit, scope: Scope) -> bool:
    """No dependence inside the unit moves along any loop: each iteration stands alone."""
    return set(unit.parallel) == {loop.iterator for loop in unit.common} and all(
        len(s.loops) == len(unit.common) + len(scope.host) for s in unit.statements
    )


def components(
    parts: Sequence[tuple[Item, ...]], scope: Scope
) -> list[list[tuple[Item, ...]]]:
    """Loop distribution: `parts` of one loop body grouped into strongly connected components of
    their dependences (`scope` is the loop's own, before entering it), in an order that respects
    the dependences between them and otherwise the text."""
    index = {
        statement.id: k for k, part in enumerate(parts) for statement in statements_of(part)
    }
    n = len(parts)
    reach = [[False] * n for _ in range(n)]
    for dependence in scope.touching(index):
        if dependence.source in index and dependence.sink in index:
            reach[index[dependence.source]][index[dependence.sink]] = True
    direct = [row[:] for row in reach]
    for k in range(n):
        for i in range(n):
            if reach[i][k]:
                reach[i] = [a or b for a, b in zip(reach[i], reach[k])]
    component = [min([j for j in range(n) if j == i or (reach[i][j] and reach[j][i])]) for i in range(n)]
    order: list[int] = []
    waiting = sorted(set(component))
    while waiting:
        ready = next(
            c
            for c in waiting
            if not any(
                direct[i][j] and component[i] != c and component[j] == c and component[i] in waiting
                for i in range(n)
                for j in range(n)
            )
        )
        order.append(ready)
        waiting.remove(ready)
    return [[parts[k] for k in range(n) if component[k] == c] for c in order]
