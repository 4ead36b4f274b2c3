"""Whether launches that ask for ALIGNED do the same where it is true as where it is false: asked before
the whole tree is proved a second time.

Only the launches that differ are looked at, without the others. They do the same to memory, whatever
the others do, if

* they are not inside loops of the host, and keep no windows;
* what they read from memory is written by no launch of the tree: so it holds at their start what it
  holds in the program's, also where the others run;
* alone, with ALIGNED true, they pass every check: instances, values, bounds, races, vectors, headers,
  and each of their reads, register by register;
* each leaves in every buffer that it writes the values that it leaves there with ALIGNED false.

Then the proof of the whole tree for ALIGNED false is one for ALIGNED true. Where one of these does
not hold, or is not known, nothing is said, and the whole tree is proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, assert_never

from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import loads
from loopfuse.poly import isl
from loopfuse.proof.events import Undecided
from loopfuse.proof.found import Values
from loopfuse.tree.looptree import (
    Arrive,
    Await,
    Barrier,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    Home,
    HostLoop,
    Launch,
    Loop,
    LoopTree,
    Prefetch,
    Raise,
    Rescale,
    Running,
    Scan,
    Ticket,
)
from loopfuse.tree.walk import has_windows, walk_nodes


class Checked(Protocol):
    """A checker that has run."""

    values: Values


class Check(Protocol):
    """Runs every check on a tree alone; None where it is not proved."""

    def __call__(self, tree: LoopTree) -> Checked | None: ...


def same_effect(first: LoopTree, second: LoopTree, check: Check) -> bool:
    """Do the launches in which the trees differ do the same to memory? False: not known."""
    parts = _parts(first, second)
    if parts is None:
        return False
    try:
        effects: list[dict[tuple[str, str], Any]] = []
        for part in parts:
            checked = check(part)
            if checked is None:
                return False
            effects.append(_effects(checked.values, part))
    except Undecided:
        return False
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
        return False
    one, other = effects
    return one.keys() == other.keys() and all(one[key].is_equal(other[key]) for key in one)


def _parts(first: LoopTree, second: LoopTree) -> tuple[LoopTree, LoopTree] | None:
    """The trees of the launches that differ, alone; None where the others could have a say."""
    if len(first.body) != len(second.body):
        return None
    pairs = [(a, b) for a, b in zip(first.body, second.body) if a != b]
    if not pairs or len(pairs) == len(first.body):
        return None  # all of it is to be looked at anyway
    changed = {name for tree in (first, second) for launch in tree.launches for name in _written(launch)}
    parts: list[LoopTree] = []
    for tree, launches in zip((first, second), zip(*pairs)):
        homes = {buffer.name: buffer.home for buffer in tree.buffers}
        named: set[str] = set()
        for launch in launches:
            if isinstance(launch, HostLoop):
                return None
            read = _read(launch, homes)
            if read is None or any(isinstance(homes[name], Global) for name in read & changed):
                return None
            named |= read | _written(launch)
        buffers = tuple(b for b in tree.buffers if b.argument or b.name in named)
        part = replace(tree, body=launches, buffers=buffers)
        if has_windows(part):
            return None
        parts.append(part)
    return parts[0], parts[1]


def _written(launch: Launch) -> set[str]:
    """The buffers that a launch changes."""
    found: set[str] = set()
    for node in walk_nodes(launch.body):
        match node:
            case Compute(target=place) | Copy(target=place) | Fold(target=place):
                found.add(place.array)
            case Raise(flag=place) | Await(flag=place) | Ticket(counter=place):
                found.add(place.array)
            case Combine(buffer=name) | Scan(buffer=name):
                found.add(name)
            case Loop() | Guard() | Barrier() | Prefetch() | Arrive() | Running() | Rescale():  # (the last two are erased)
                pass
            case _:
                assert_never(node)
    return found


def _read(launch: Launch, homes: Mapping[str, Home]) -> set[str] | None:
    """The buffers that a launch of loops, conditions, computations and copies reads, also in
    subscripts, bounds and conditions; None where it holds more than that."""
    found: set[str] = set()
    for node in walk_nodes(launch.body):
        match node:
            case Loop(lower=lower, upper=upper):
                expressions: tuple[Expr, ...] = (lower, upper)
            case Guard(condition=condition):
                expressions = (condition,)
            case Compute(iteration=iteration, target=target, value=value, predicate=predicate):
                if predicate is not None and isinstance(homes[target.array], Global):
                    return None  # elsewhere its target keeps what it held
                expressions = (*iteration, *target.index, value)
                expressions += () if predicate is None else (predicate,)
            case Copy(target=target, value=value, late=False):
                expressions = (*target.index, value)
            case _:
                return None
        found |= {load.array for expr in expressions for load in loads(expr)}
    return found


def _effects(values: Values, tree: LoopTree) -> dict[tuple[str, str], Any]:
    """What each launch leaves in memory: by buffer and kind of value, { launch[element] -> value }."""
    found: dict[tuple[str, str], Any] = {}
    for buffer in tree.buffers:
        if not isinstance(buffer.home, Global) or buffer.name not in values.accesses.writes:
            continue
        sums = values.memory.sums_of(buffer.name)
        if sums is None:
            raise Undecided(f"what is left in {buffer.name} is not one value")
        for event, written, kinds in sums:
            whole = written
            for kind in kinds:
                whole = whole.subtract(kind.domain())
                key = (buffer.name, f"{event.name} {isl.range_name(kind)}")
                found[key] = found[key].union(kind) if key in found else kind
            if not whole.is_empty():
                raise Undecided(f"something is left in {buffer.name} that has no value")
    return found
