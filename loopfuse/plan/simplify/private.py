"""Privatisation: a temporary that each iteration of a loop writes before it reads it becomes the iteration's own.

before:  temp row[N]; for i: (for j: row[j] = f(i, j)); for j: y[i, j] = row[N - 1 - j]
after:   for i: temp row[N]; (for j: row[j] = f(i, j)); for j: y[i, j] = row[N - 1 - j]

No value goes from one iteration to another through it, only its elements are used again; then that puts the iterations
in no order any more. Done where it frees a loop from all that keeps its iterations in order, for those statements at
least that use the temporary, and where a copy for each iteration takes no more bytes than the caller's arrays, whatever
the sizes. Where the copies live, if anywhere, is for the plan to say (`plan.units.storage`). Arguments keep their
storage: the caller sees it. `proof.private` shows that every read finds what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from loopfuse.lang.index import evaluate_index
from loopfuse.lang.nodes import Expr
from loopfuse.lang.walk import iterators
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.isl_relations import affine_map, equate, is_equal_along, with_leading
from loopfuse.poly.model import Access, Array, Dependence, Dependences, Loop, PolyProgram, Statement

MODERATE, HUGE = 64, 1 << 20
"""Sizes at which bytes are counted: each of them huge in turn, the others moderate."""


def privatise(program: PolyProgram, deps: Dependences) -> PolyProgram:
    """`program` with its rewritten temporaries private to the loops that this frees; itself where there are none."""
    if not deps.complete:
        return program
    depths = {
        name: depth
        for name, array in program.arrays.items()
        if not array.is_argument and (depth := _depth(array, program, deps)) > len(array.private_to)
    }
    if not depths:
        return program
    wanted = {name: depth for name in depths if (depth := _freed(name, depths, program, deps))}
    if not wanted:
        return program
    arrays = dict(program.arrays)
    for name, depth in wanted.items():
        first = next(s for s in program.statements if _touches(s, name))
        arrays[name] = replace(arrays[name], private_to=first.iterators[:depth])
    statements = tuple(
        _moved(s, program.arrays, {name: depth for name, depth in wanted.items() if _touches(s, name)})
        for s in program.statements
    )
    return replace(program, arrays=arrays, statements=statements)


def _touches(statement: Statement, name: str) -> bool:
    return any(name == part for access in (*statement.reads, statement.write) for part, _ in access.parts)


def _depth(array: Array, program: PolyProgram, deps: Dependences) -> int:
    """How many loops around all its users each have the array's values made and used in one iteration; no more than
    have room for as many copies."""
    users = [s for s in program.statements if _touches(s, array.name)]
    known = len(array.private_to)
    if not users or any(len(access.parts) > 1 for s in users for access in (*s.reads, s.write)):
        return known
    common = 0
    for loops in zip(*(s.loops for s in users), strict=False):
        if len({loop.iterator for loop in loops}) > 1 or any(loop.unknown for loop in loops):
            break
        common += 1
    flows = [d for d in deps.flow if d.array == array.name]
    depth = known
    while depth < common and all(is_equal_along(d.relation, depth, depth) for d in flows):
        depth += 1
    for s in users:
        for number, access in enumerate(s.reads):
            if access.array == array.name and depth > known:
                _, rest = flow_of_read(program, deps, s.id, number)
                if not rest.intersect_params(program.context).is_empty():
                    return known  # what nothing wrote is zero, in each copy again
    while depth > known and not _has_room(array, users[0].loops[:depth], program):
        depth -= 1
    return depth


def _freed(name: str, depths: Mapping[str, int], program: PolyProgram, deps: Dependences) -> int:
    """The depth of the innermost loop that is parallel for the users of array `name` once it is private to it, and is not
    now; 0: there is none."""
    users = [s for s in program.statements if _touches(s, name)]
    for depth in range(depths[name], len(program.arrays[name].private_to), -1):
        place = depth - 1
        inside = {s.id: s for s in program.statements if s.iterators[:depth] == users[0].iterators[:depth]}
        carried: list[tuple[Dependence, bool]] = []  # with whether the loop carries it
        is_blocked = False
        for d in deps.all:
            if d.source not in inside or d.sink not in inside:
                continue
            here = equate(d.relation, [(k, k) for k in range(place)])
            if here.is_empty():
                continue
            moves = not d.reduction and not is_equal_along(here, place, place)
            if d.kind != "flow" and depths.get(d.array, 0) >= depth:
                is_blocked = is_blocked or (moves and d.array == name)
                here = equate(here, [(place, place)])
                moves = False
                if here.is_empty():
                    continue
            carried.append((d, moves))
        if is_blocked and not _in_order({s.id for s in users}, carried):
            return depth
    return 0


def _in_order(users: set[str], dependences: Sequence[tuple[Dependence, bool]]) -> bool:
    """Does a dependence that the loop carries go in a circle with the users, so that no distribution takes it away?"""
    after: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for d, _ in dependences:
        after.setdefault(d.source, set()).add(d.sink)
        before.setdefault(d.sink, set()).add(d.source)
    for user in users:
        circle = _reached(user, after) & _reached(user, before) | {user}
        if any(moves and d.source in circle and d.sink in circle for d, moves in dependences):
            return True
    return False


def _reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        more = set(edges.get(waiting.pop(), ())) - found
        found |= more
        waiting += more
    return found


# --------------------------------------------------------------------------------- bytes


def _has_room(array: Array, loops: Sequence[Loop], program: PolyProgram) -> bool:
    """Do copies for all iterations of the loops take no more bytes than the caller's arrays do, at any sizes?"""
    for huge in program.symbols or ("",):
        sizes = {name: HUGE if name == huge else MODERATE for name in program.symbols}
        room = sum(_bytes(each, sizes) for each in program.arrays.values() if each.is_argument)
        needed = _bytes(array, sizes)
        ranges: dict[str, tuple[int, int]] = {}
        for loop in loops:
            low, high = (_ends(bound, sizes, ranges) for bound in (loop.lower, loop.upper))
            first, end = (low[0], high[1]) if loop.step > 0 else (high[0], low[1])
            ranges[loop.iterator] = first, end
            needed *= max(0, end - first)
        if needed > room:
            return False
    return True


def _bytes(array: Array, sizes: Mapping[str, int]) -> int:
    total = array.dtype.bytes
    for extent in array.extents:
        total *= max(0, evaluate_index(extent, sizes))
    return total


def _ends(bound: Expr, sizes: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The least and the greatest value of a bound, where the iterators in it are at an end of theirs."""
    names = sorted(iterators(bound))
    values = [
        evaluate_index(bound, {**sizes, **dict(zip(names, corner, strict=True))})
        for corner in product(*(ranges[name] for name in names))
    ]
    return min(values), max(values)


# --------------------------------------------------------------------------------- accesses


def _moved(statement: Statement, arrays: Mapping[str, Array], depths: Mapping[str, int]) -> Statement:
    """The statement with each access of these arrays in its own iteration's copy."""
    if not depths:
        return statement

    def access(one: Access) -> Access:
        (name, relation), *rest = one.parts
        if rest or name not in depths:
            return one
        values = [{iterator: 1} for iterator in statement.iterators[: depths[name]]]
        leading = affine_map(statement.domain, values)
        return replace(one, parts=((name, with_leading(relation, leading, len(arrays[name].private_to))),))

    return replace(statement, write=access(statement.write), reads=tuple(access(one) for one in statement.reads))
