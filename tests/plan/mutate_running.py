"""Rows of the mutation table on reductions in one pass with sums that depend on them. Teams are small, so that short rows have
several parts for each thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Const, Expr, Load, compare, integer
from loopfuse.lang.walk import map_expr
from loopfuse.plan.strategies.rows import sizes
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Guard,
    Loop,
    LoopTree,
    Rescale,
    Running,
    TreeNode,
)
from loopfuse.tree.walk import map_expressions, walk_nodes
from tests.plan.mutate_edit import Edit, bounds
from tests.plan.mutate_table import Base, Made, Row, planned
from tests.plan.mutate_windows import each

SMALL = {
    "HELD": 2, "STAGED": 2, "THREADS": 32, "FEW_THREADS": 32, "MORE_THREADS": 32, "REGISTERS": 2, "SHORT": 1, "FEW": 2, "MANY": 4,
    "PARTS": ((16, 2),), "NARROW": 0, "SHAPES": (replace(sizes.SHAPES[-1], outer=2, inner=16, staged=2, shares=False),),
}  # fmt: skip


@contextmanager
def small_teams() -> Generator[None, None, None]:
    """Rows are planned for teams that have little."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(patch.object(sizes, name, value))
        yield


EXPONENTIALS = """
kernel f(x: f32[R, C], out z: f32[R], out w: f32[R]):
    for r in 0..R:
        let top = max(c in 0..C: x[r, c])
        let total = sum(c in 0..C: exp(x[r, c] - top))
        let mean = sum(c in 0..C: exp(x[r, c] - top) * x[r, c])
        z[r] = top + log(total)
        w[r] = mean / total
"""
VARIANCE = """
kernel f(x: f32[N, D, P], out y: f32[N]):
    for n in 0..N:
        let mean = sum(d in 0..D, p in 0..P: x[n, d, p]) / (D * P)
        y[n] = sum(d in 0..D, p in 0..P: (x[n, d, p] - mean) ** 2)
"""


def small(name: str, text: str, *at: dict[str, int]) -> Base:
    """A tree for small teams."""
    base = planned(name, "sm_80", *at, text=text, tuning=Tuning())

    def make() -> Made:
        with small_teams():
            return base.make()

    return replace(base, name=f"{name} running", make=cache(make))


BASES = [
    small("exponentials", EXPONENTIALS, {"R": 2, "C": 150}, {"R": 1, "C": 65}),
    small("variance", VARIANCE, {"N": 2, "D": 5, "P": 70}, {"N": 1, "D": 1, "P": 40}),
]


def _of_running(make: Callable[[Running], tuple[TreeNode, ...]]) -> Edit:
    return each("^running", make)


def _body(change: Callable[[tuple[TreeNode, ...]], tuple[TreeNode, ...]]) -> Edit:
    return _of_running(lambda node: (Running(change(node.body)),))


def _moved(is_it: Callable[[TreeNode], bool], is_other: Callable[[TreeNode], bool]) -> Edit:
    """What is told by the one stands before what is told by the other."""

    def change(body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        one = next(node for node in body if is_it(node))
        rest = [node for node in body if node is not one]
        rest.insert(next(k for k, node in enumerate(rest) if is_other(node)), one)
        return tuple(rest)

    return _body(change)


def _is_last(node: TreeNode) -> bool:
    return any(isinstance(each, Rescale) and each.last for each in walk_nodes((node,)))


def _combines(name: str) -> Callable[[TreeNode], bool]:
    return lambda node: isinstance(node, Combine) and node.buffer.startswith(name)


def _rescaled(change: Callable[[Rescale], Rescale], last: bool | None = None) -> Edit:
    """Each Rescale (of the pass or behind it alone) changed."""
    return each("^rescale", lambda node: (change(node) if last in (None, node.last) else node,))


def _reading(statement: str, change: Callable[[Load], Expr]) -> Edit:
    """What a statement's updates read."""

    def one(node: Compute) -> tuple[TreeNode, ...]:
        value = map_expr(lambda part: change(part) if isinstance(part, Load) and part != node.target else part, node.value)
        return (replace(node, value=value),)

    return each(rf"^{statement}\[", one)


def _parts(change: Callable[[list[TreeNode]], list[TreeNode]]) -> Edit:
    """The nodes of each part of the pass."""

    def one(node: Loop) -> tuple[TreeNode, ...]:
        here = any(isinstance(each, Rescale) for each in node.body)
        return (replace(node, body=tuple(change([*node.body]))),) if here else (node,)

    return each(r"^(serial|unrolled) for [qp]", one)


def _is_rescale(node: Any) -> bool:
    return isinstance(node, Rescale)


def _behind(nodes: list[TreeNode]) -> list[TreeNode]:
    """The Rescale stands behind the part."""
    return [node for node in nodes if not _is_rescale(node)] + [node for node in nodes if _is_rescale(node)]


def _ahead(nodes: list[TreeNode]) -> list[TreeNode]:
    """The Rescale stands ahead of the part."""
    return [node for node in nodes if _is_rescale(node)] + [node for node in nodes if not _is_rescale(node)]


def _starting(word: str, value: float) -> Edit:
    return each(rf"^copy [\w.]*_{word}\w*\[\] = ", lambda node: (replace(node, value=Const(value, node.target.dtype)),) if isinstance(node, Copy) else (node,))


def _guarded(node: TreeNode) -> tuple[TreeNode, ...]:
    return (Guard(compare("gt", integer(0), integer(1)), (node,)),)


def _without(is_it: Callable[[TreeNode], bool]) -> Edit:
    return _body(lambda body: tuple(node for node in body if not is_it(node)))


def _seen_outside(tree: LoopTree) -> LoopTree:
    """The last value that the pass went by is what is stored."""
    seen = next(node.seen for launch in tree.launches for node in walk_nodes(launch.body) if isinstance(node, Rescale))
    reference = next(node.reference for launch in tree.launches for node in walk_nodes(launch.body) if isinstance(node, Rescale))

    def one(node: Compute) -> tuple[TreeNode, ...]:
        return map_expressions((node,), lambda expr: map_expr(lambda part: seen if part == reference else part, expr))

    return each(r"^S4\[", one)(tree)


ONE, TWO = "exponentials running", "variance running"
ROWS = [
    Row("running, not rescaled", ONE, "sums are of what was greatest at first", _parts(lambda nodes: [n for n in nodes if not _is_rescale(n)])),
    Row("running, rescaled too late", ONE, "behind the sums of the part", _parts(_behind)),
    Row("running, rescaled too early", ONE, "ahead of the part's greatest", _parts(_ahead)),
    Row("running, not rescaled at last", ONE, "each thread's sums are of its own greatest", _without(_is_last)),
    Row("running, rescaled at last before the greatest is known", ONE, "by each thread's own",
        _moved(_is_last, _combines("top"))),
    Row("running, combined before it is rescaled", ONE, "sums of unlike threads are added",
        _moved(_combines("total"), _is_last)),
    Row("running, rescaled at last nowhere", ONE, "under a condition that never holds",
        each("^rescale", lambda node: _guarded(node) if node.last else (node,))),
    Row("running, rescaled the other way", ONE, "by exp(new - old)", _rescaled(lambda node: replace(node, factor=map_expr(
        lambda part: replace(part, left=part.right, right=part.left) if getattr(part, "op", "") == "sub" else part, node.factor)))),  # type: ignore[arg-type,attr-defined,call-arg]
    Row("running, rescaled by 1", ONE, "the factor is left out", _rescaled(lambda node: replace(node, factor=Const(1.0, node.seen.dtype)))),
    Row("running, one sum not rescaled", ONE, "the first alone is", _rescaled(lambda node: replace(node, sums=node.sums[:1]))),
    Row("running, not rescaled by the same in each part", ONE, "the last part rescales the second sum alone",
        each("^unrolled for p", lambda node: (replace(node, body=tuple(
            replace(n, sums=n.sums[1:]) if isinstance(n, Rescale) else n for n in node.body)),))),
    Row("running by the least", ONE, "a sum of exponentials of the greatest", _rescaled(lambda node: replace(node, op="min"))),
    Row("running from another value", ONE, "the greatest begins at 0, as it was", _starting("was", 0.0)),
    Row("running, sums of the value so far", ONE, "read as it is, not as it is seen",
        _reading("S2", lambda load: replace(load, array=load.array.replace("_seen", "")) if "_seen" in load.array else load)),
    Row("running, sums of other elements", ONE, "of the first of each part alone",
        _reading("S2", lambda load: replace(load, index=(integer(0),)) if load.index else load)),
    Row("running, greatest of other elements", ONE, "of the first of each part alone",
        _reading("S1", lambda load: replace(load, index=(integer(0),)) if load.index else load)),
    Row("running, a part left out", ONE, "the last but one", bounds("q_3", "0", "(C - 1) // 64 - 1")),
    Row("running, a part too many", ONE, "the last one twice", bounds("q_3", "0", "(C - 1) // 64 + 1")),
    Row("running, what was seen is stored", ONE, "in place of the greatest", _seen_outside),
    Row("running variance, not brought to the mean", TWO, "each thread's is about its own", _without(_is_last)),
    Row("running variance, about the thread's own mean", TWO, "brought to its sum",
        _rescaled(lambda node: replace(node, result=node.reference), last=True)),
    Row("running variance, brought to the mean before it is known", TWO, "ahead of its sum", _moved(_is_last, _combines("mean"))),
    Row("running variance, combined before it is brought to the mean", TWO, "squares of unlike threads are added",
        _moved(_combines("y"), _is_last)),
    Row("running variance, not moved along", TWO, "squares are of distances from 0",
        _parts(lambda nodes: [n for n in nodes if not _is_rescale(n)])),
    Row("running variance, moved behind the squares", TWO, "the first part's are of distances from 0", _parts(_behind)),
    Row("running variance, counted once", TWO, "how many there are is how many there were", _rescaled(
        lambda node: replace(node, own=(node.own[0], node.own[0], node.own[2])))),
    Row("running variance, counted from one", TWO, "an element that is none", _starting("count", 1.0)),
    Row("running variance of other elements", TWO, "squares of the first of each part alone",
        _reading("S3", lambda load: replace(load, index=(integer(0),)) if load.index else load)),
    Row("running variance as a greatest", TWO, "the wrong algebra", _rescaled(lambda node: replace(node, op="max"))),
]  # fmt: skip
