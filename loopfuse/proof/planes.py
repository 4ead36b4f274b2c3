"""Planes in shared memory that the steps of a STREAMED loop fill and read: races, in closed form.

All threads of a block run the loop together, past barriers that stand in its body itself. So two
accesses without a barrier between them are of one step, or the first stands behind the last barrier
of a step and the other before the first barrier of the next. A plane is `t + c` modulo the number
of planes kept: which of those pairs touch one plane shows in the numbers; only of these is asked
whether the rest of the subscripts makes the cell one thread's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopfuse.lang.linear import coefficients
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write, union
from loopfuse.proof.events import BLOCK, LANE, Leaf
from loopfuse.tree.looptree import Barrier, Shared


def is_apart_in_steps(accesses: Accesses, here: Sequence[Read | Write]) -> bool:
    """Are the accesses of one phase to a buffer plainly without a race between threads of a block?
    False only means that this is not the way to tell."""
    home = accesses.events.buffers[here[0].load.array].home
    loop = here[0].leaf.rotated
    if not isinstance(home, Shared) or not home.rows or loop is None:
        return False
    planes: list[int] = []
    for access in here:
        leaf = access.leaf
        if leaf.rotated is not loop or len(leaf.host) + len(leaf.chain) != leaf.names.index(loop.var):
            return False
        plane = _ahead(access.load.index[0], loop.var)
        if plane is None:
            return False
        planes.append(plane)
    barriers = [
        leaf.number
        for leaf in accesses.events.leaves
        if isinstance(leaf.node, Barrier)
        and leaf.node.scope in ("block", "cluster")
        and leaf.rotated is loop
        and any(leaf.node is each for each in loop.body)
    ]
    if not barriers:
        return False
    for one, first in zip(here, planes, strict=True):
        for other, second in zip(here, planes, strict=True):
            if isinstance(one, Read) and isinstance(other, Read):
                continue
            for later in _steps_apart(one.leaf, other.leaf, barriers):
                if (second + later - first) % home.rows == 0 and not _is_own(one, other, loop.var):
                    return False
    return True


def _steps_apart(one: Leaf, other: Leaf, barriers: Sequence[int]) -> list[int]:
    """By how many steps `other` may come after `one` (0: in the same) with no barrier between."""
    out: list[int] = []
    low, high = sorted((one.number, other.number))
    if not any(low < barrier < high for barrier in barriers):
        out.append(0)
    if one.number > max(barriers) and other.number < min(barriers):
        out.append(1)
    return out


def _is_own(one: Read | Write, other: Read | Write, step: str) -> bool:
    """Does one thread alone touch what both may touch, at any plane?"""
    touched = [_threads(access, step) for access in ((one,) if one is other else (one, other))]
    if len(touched) > 1:
        common = touched[0].domain().intersect(touched[1].domain())
        touched = [each.intersect_domain(common) for each in touched]
    return bool(union(touched, None).is_single_valued())


def _threads(access: Read | Write, step: str) -> Any:
    """{ [what is common, the cell in its plane] -> thread }; the steps of both need not be one."""
    leaf = access.leaf
    outer: list[Expr | int] = [Iter(var) for var in (*leaf.host, *leaf.level_vars(range(BLOCK)))]
    place = leaf.relation([*outer, *access.load.index[1:]], "place")
    if isinstance(access, Read):  # the read may stand for only some of its leaf's instances
        place = place.intersect_domain(access.cell.set_tuple_name(isl.IN, leaf.name).domain())
    threads: list[Expr | int] = [Iter(var) for var in leaf.level_vars((BLOCK, LANE))]
    return isl.simplified(place.reverse().apply_range(leaf.relation(threads, "thread")))


def _ahead(plane: Expr, step: str) -> int | None:
    """c of a plane `step + c`."""
    constant, named, linear = coefficients(plane)
    if not linear or {name: n for name, n in named.items() if n} != {step: 1}:
        return None
    return constant
