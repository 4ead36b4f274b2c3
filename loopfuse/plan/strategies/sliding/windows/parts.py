"""Arrays of which a time loop uses one part at a time, as one array for each part (reports say planes).

    before:  for t: for y, x: u[(t + 1) % 2, y, x] = f(u[t % 2, y, x-1..x+1])      u[2, H, W]
    after:   u@0[H, W] and u@1[H, W], which exchange their roles from one iteration to the next

Blocks of a time loop are unrolled, so that in each of their iterations a subscript of `t` alone is
a number, if it comes round with the blocks: `t % 2` does with every pair of them, `t % 3` where
their length is a multiple of three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

from loopfuse.lang.index import evaluate_index
from loopfuse.lang.linear import coefficients, constant_value, linear_form
from loopfuse.lang.nodes import Binary, Const, Expr, Load, integer
from loopfuse.lang.walk import iterators, map_expr
from loopfuse.plan.units.forest import Item, Nest, Unit, statements_of
from loopfuse.plan.units.groups import TimeBlock
from loopfuse.poly.model import Array, PolyProgram, Statement


@dataclass(frozen=True, slots=True)
class Parts:
    """Which dimensions of which arrays number parts, and the program's arrays with their parts
    (`u@0`) added."""

    program: PolyProgram
    positions: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def split(self, load: Load, time: TimeBlock | None, ahead: int) -> Load:
        """The access, of an iteration `ahead` in a block, as one of a part."""
        if load.array not in self.positions:
            return load
        places: list[int] = []
        for position in self.positions[load.array]:
            place = settled(load.index[position], time, ahead)
            assert place is not None
            places.append(place)
        kept = [p for k, p in enumerate(load.index) if k not in self.positions[load.array]]
        return replace(load, array=part_name(load.array, places), index=tuple(kept))

    def whole(self, load: Load) -> Load:
        """An access of a part as one of the program's array."""
        name, _, places = load.array.partition("@")
        if not places:
            return load
        index = list(load.index)
        for position, place in zip(self.positions[name], places.split("@"), strict=True):
            index.insert(position, integer(int(place)))
        return replace(load, array=name, index=tuple(index))

    def resolve(self, unit: Unit, time: TimeBlock | None, ahead: int) -> Unit:
        """The unit with its accesses of parts, `ahead` iterations into a block."""
        if not self.positions:
            return unit

        def one(node: Expr) -> Expr:
            return self.split(node, time, ahead) if isinstance(node, Load) else node

        def statement(s: Statement) -> Statement:
            def load(node: Load) -> Load:
                return self.split(node, time, ahead)

            reads = tuple(replace(access, load=load(access.load)) for access in s.reads)
            write = replace(s.write, load=load(s.write.load))
            value = map_expr(one, s.value)
            return replace(s, target=load(s.target), write=write, value=value, reads=reads)

        def item(each: Item) -> Item:
            if isinstance(each, Nest):
                return replace(each, children=tuple(item(child) for child in each.children))
            return statement(each)

        items = tuple(item(each) for each in unit.items)
        return replace(unit, items=items, statements=statements_of(items))


def find_parts(
    units: Sequence[Unit], program: PolyProgram, time: TimeBlock | None
) -> Parts | str:
    """The parts of the arrays that have more dimensions than the units' loops, or why subscripts
    of the time loop make none."""
    if time is None:
        return Parts(program)
    depth = len(units[0].common)
    positions: dict[str, tuple[int, ...]] = {}
    arrays = dict(program.arrays)
    by_array: dict[str, list[Load]] = {}
    for load in _accesses(units):
        by_array.setdefault(load.array, []).append(load)
        if load.swapped is not None:
            by_array.setdefault(load.swapped.array, []).append(load)
    for name, accesses in by_array.items():
        array = program.arrays[name]
        if len(array.extents) <= depth:
            continue
        found: list[int] = []
        for position, extent in enumerate(array.extents):
            subscripts = [load.index[position] for load in accesses]
            if any(iterators(part) - {time.iterator} for part in subscripts):
                continue
            size = constant_value(extent)
            if size is None:
                return f"`{name}` has planes, and no constant number of them"
            for part in subscripts:
                for ahead in range(time.steps):
                    place = settled(part, time, ahead)
                    if place is None:
                        return _why_not(name, part, time)
                    if not 0 <= place < size:
                        return f"`{name}` has planes, and is read outside of them"
            found.append(position)
        if not found or len(array.extents) - len(found) < min(depth, 2):
            continue
        if len(array.extents) - 1 in found:
            return f"neighbouring columns of `{name}` are not neighbours in memory"
        if any(load.swapped is not None for load in accesses):
            return f"`{name}` has planes, and is swapped"
        positions[name] = tuple(found)
        for load in accesses:
            for ahead in range(time.steps):
                places = [settled(load.index[p], time, ahead) or 0 for p in found]
                part = part_name(name, places)
                kept = tuple(e for k, e in enumerate(array.extents) if k not in found)
                arrays[part] = Array(part, array.dtype, array.kind, kept, array.private_to)
    if not positions:
        return Parts(program)
    return Parts(replace(program, arrays=arrays), positions)


def _why_not(name: str, subscript: Expr, time: TimeBlock) -> str:
    period = _period(subscript, time.iterator)
    plain = time.iterator.split(".")[0]
    if not period:
        return f"`{name}` keeps what each iteration of `{plain}` makes"
    if 2 * time.steps % period:
        return f"the planes of `{name}` come round every {period} iterations of `{plain}`"
    return f"the first iteration of `{plain}` is not known, and so which plane of `{name}` it reads"


def settled(subscript: Expr, time: TimeBlock | None, ahead: int) -> int | None:
    """What a subscript of constants and the time loop is `ahead` iterations into every block of
    this kind; None where that is no number."""
    total, terms = linear_form(subscript)
    for atom, factor in terms:
        match atom:
            case Binary(op="mod", left=inner, right=Const(value=int(size))) if time and size > 0:
                constant, named, linear = coefficients(inner)
                speed = named.pop(time.iterator, 0)
                if not linear or any(named.values()) or speed * 2 * time.steps % size:
                    return None
                try:
                    first = evaluate_index(time.origin, {})
                except (KeyError, ValueError):
                    return None
                total += factor * ((constant + speed * (first + time.first + ahead)) % size)
            case _:
                return None
    return total


def common_period(units: Sequence[Unit], iterator: str) -> int:
    """After how many iterations of the time loop all parts are back in their roles (1: there are
    none)."""
    periods = [_period(part, iterator) for load in _accesses(units) for part in load.index]
    return lcm(*(period for period in periods if period))


def _period(subscript: Expr, iterator: str) -> int:
    """After how many iterations the subscript comes round; 0: never."""
    period = 1
    for atom, _ in linear_form(subscript)[1]:
        match atom:
            case Binary(op="mod", left=inner, right=Const(value=int(size))) if size > 0:
                speed = coefficients(inner)[1].get(iterator, 0)
                period = lcm(period, size // gcd(speed, size))
            case _ if iterator in iterators(atom):
                return 0
            case _:
                pass
    return period


def part_name(array: str, places: Sequence[int]) -> str:
    """What the part of the array at these places is called."""
    return "@".join((array, *map(str, places)))


def _accesses(units: Sequence[Unit]) -> Iterator[Load]:
    for unit in units:
        for s in unit.statements:
            for load in (s.target, *(access.load for access in s.reads)):
                if load.index:
                    yield load
