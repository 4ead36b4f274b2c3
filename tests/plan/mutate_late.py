"""Rows of the mutation table on planes that come late: what is touched before it has come, and what
begins to come while it is still read."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Iter, combine, integer
from loopfuse.tree.looptree import Arrive, Barrier, Copy, Loop, Mapping, Shared, TreeNode
from tests.plan.mutate_blocks import CHAIN, IN_PLACE, SIZE, SMALL, STAR, WIDE, last_first, rotated
from tests.plan.mutate_edit import Edit, Nodes, home
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each, gone, reading, test, writing

BASES = [
    planned("late planes", "sm_90", {"D": 4, "H": 5, "W": 6}, SIZE, text=STAR,
            tuning=replace(SMALL, late=2)),
    planned("late planes of two", "sm_90", {**SIZE, "H": 14}, text=CHAIN,
            tuning=replace(WIDE, late=1)),
    planned("late planes in place", "sm_90", SIZE, text=IN_PLACE, tuning=replace(SMALL, late=2)),
]  # fmt: skip

TAKE = r"copy a_window\[.*= a_coming"
LATE = r"copy late a_coming"


def turns(keep: int) -> Edit:
    """Of the warp's barriers in a step, all but the one of this number."""

    def change(nodes: Nodes) -> Nodes:
        places = [k for k, n in enumerate(nodes) if isinstance(n, Barrier) and n.scope == "warp"]
        return (*nodes[: places[keep]], *nodes[places[keep] + 1 :])

    return rotated(change)


def waits(pending: int) -> Edit:
    """How many groups may be under way."""
    return each("^arrive", lambda node: (Arrive(pending),))


def not_late(at: str) -> Edit:
    """The copies come at once."""
    return each(at, lambda node: (replace(node, late=False) if isinstance(node, Copy) else node,))


def in_a_loop(node: TreeNode) -> Nodes:
    """The node in a loop of its own."""
    return (Loop("again", integer(0), integer(1), 1, Mapping.UNROLLED, (node,)),)


ROWS = [
    Row("no wait for late copies", "late planes windows", "at all", gone("^arrive")),
    Row("waits for one group too few", "late planes windows", "the plane may be under way", waits(2)),
    Row("waits for fewer than no groups", "late planes windows", "-1", waits(-1)),
    Row("waits at the end of a step", "late planes windows", "after the planes are taken",
        rotated(lambda nodes: (*nodes[1:], nodes[0]))),
    Row("waits in a loop", "late planes windows", "where that shows in no step", each("^arrive", in_a_loop)),
    Row("no barrier behind the wait", "late planes windows", "others' copies may be under way",
        turns(0)),
    Row("no barrier before the next copies", "late planes windows", "others may still read the plane",
        turns(1)),
    Row("copies begin before the plane is taken", "late planes windows", "into its place",
        last_first(LATE)),
    Row("late to another plane", "late planes windows", "the one that is taken next", writing(LATE, 0, 1)),
    Row("late from another plane", "late planes windows", "the next", reading(LATE, r"^a\[", 0, 1)),
    Row("late to another's cells", "late planes windows", "the next lane's", writing(LATE, 3, 1)),
    Row("late to another warp's cells", "late planes windows", "the next warp's", writing(LATE, 1, 1)),
    Row("taken from another's cells", "late planes windows", "the next lane's",
        reading(TAKE, r"^a_coming", 3, 1)),
    Row("taken a step too late", "late planes windows", "another plane is in its place",
        reading(TAKE, r"^a_coming", 0, -1)),
    Row("late twice to one cell", "late planes windows", "in a loop, of which either may come last",
        each(LATE, lambda node: (Loop("again", integer(0), integer(2), 1, Mapping.UNROLLED, (replace(
            node, value=replace(node.value, index=(*node.value.index[:-1], combine(
                "add", node.value.index[-1], combine("sub", integer(1), Iter("again")))))),)),))),
    Row("a smaller ring", "late planes windows", "one plane for two", home("a_coming", home=Shared(1))),
    Row("one plane too few", "late planes windows", "the last does not come",
        test(r"^if t\w* <= ", r"<= ", -1)),
    Row("late into registers", "late planes windows", "a window",
        each(TAKE, lambda node: (replace(node, late=True),))),
    Row("spread over copies at once", "late planes windows", "which no other lane may do",
        not_late(LATE)),
    Row("taken in a spread loop", "late planes of two windows", "it is not late",
        each(r"^vector", lambda node: (replace(node, mapping=Mapping.SPREAD),))),
    Row("written before it has come", "late planes in place windows", "a plane on, which is under way",
        writing(r"copy b\[", 0, 1)),
    Row("stored from the ring", "late planes in place windows", "a plane that is under way",
        reading(r"copy b_window\[.*= b_coming", r"^b_coming", 0, 1)),
    Row("zeros into another plane", "late planes windows", "at the edges of the array",
        each(r"copy a_coming\[.* = 0", lambda node: (replace(node, target=replace(
            node.target, index=(combine("add", node.target.index[0], integer(-1)), *node.target.index[1:]))),))),
]  # fmt: skip
