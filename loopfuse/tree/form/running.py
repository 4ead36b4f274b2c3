"""What a tree's Running nodes may hold: what makes one pass of two the same, and lets nothing large come and go.

In real numbers a sum of `g * exp(e - m)` is, times `exp(m - n)`, the sum of `g * exp(e - n)`; and a sum of squares of distances from one
value is that from another, and what `count` and the sum of the distances say. So:

- each update of a sum is of such a form, of `seen`, which nothing else reads, and `seen` and a thread's `own` are what the last Rescale says;
- all of a thread's sums are brought to the result before they are combined;
- a part of the pass has its updates of `reference`, then a Rescale, then those of the sums, over the same elements under the same conditions: what an
  update of the reference takes is the `e` of the sums. No exponent is positive then, and no distance is from a value that is far from all elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopfuse.lang.nodes import Const, Expr, Iter
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads, substitute
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
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.terms import factor, other_of, term, with_zero
from loopfuse.tree.walk import bodies, touched_by, walk_nodes

RUNS = (Where.SERIAL, Where.UNROLLED, Where.VECTOR)
OWN = {"max": 1, "min": 1, "sum": 3}
"""Registers that a Rescale has of its own, by the reduction."""


def running_fault(tree: LoopTree) -> str:
    """What is wrong with reductions in one pass, in words; "" where nothing is."""
    for launch in tree.launches:
        inside: set[int] = set()
        for node in walk_nodes(launch.body):
            if isinstance(node, Running):
                inside |= {id(each) for each in walk_nodes(node.body)}
                if fault := _Running(node, launch.body).fault():
                    return f"in launch `{launch.name}` {fault}"
            elif isinstance(node, Rescale) and id(node) not in inside:
                return f"in launch `{launch.name}` a rescale stands in no running reduction"
    return ""


class _Running:
    """One of them."""

    def __init__(self, node: Running, launch: Sequence[TreeNode]) -> None:
        self.body, self.launch = node.body, launch

    def fault(self) -> str:
        rescales = [each for each in walk_nodes(self.body) if isinstance(each, Rescale)]
        if not rescales or len({(each.op, each.places, each.factor) for each in rescales}) > 1:
            return "all rescales are of the same registers"
        self.one = one = rescales[0]
        self.update = "add" if one.op == "sum" else one.op
        if one.op not in OWN or not one.sums or len(one.own) != OWN[one.op] or (one.op == "sum" and len(one.sums) > 1):
            return "a rescale is by the greatest or the least, or by the sum"
        self.own = {one.seen.array, *(each.array for each in one.own)}
        self.sums = {each.array for each in one.sums}
        names = [one.reference.array, one.seen.array, *(each.array for each in (*one.own, *one.sums)), *([one.result.array] if one.op == "sum" else [])]
        if len(set(names)) < len(names) or (one.op != "sum" and one.result != one.reference):
            return "a rescale is of registers apart"
        if not one.seen.dtype.is_float or any(each.dtype is not one.seen.dtype for each in one.places):
            return "a rescale is of floats of one type"
        if any(isinstance(n, Loop) and n.mapping not in RUNS for n in walk_nodes(self.body)):
            return "loops of a running reduction run in order"
        return self.outside() or self.order() or self.parts(self.body)

    def outside(self) -> str:
        """Nobody else touches what tells the passes apart."""
        inside = {id(each) for each in walk_nodes(self.body)}
        for node in walk_nodes(tuple(self.launch)):
            if id(node) not in inside and touched_by(node) & self.own:
                return "what sums were scaled by is read or written elsewhere"
        return ""

    def order(self) -> str:
        """From nothing; behind the pass the reference is combined, the sums are brought to the result, then combined."""
        one, dtype = self.one, self.one.seen.dtype
        at = next((k for k, each in enumerate(self.body) if self._updates(each)), 0)
        starts = {each.target.array: each.value for each in self.body[:at] if isinstance(each, Copy)}
        wanted = {one.reference.array: neutral(one.op, dtype), **dict.fromkeys((*self.own, *self.sums), 0.0)}
        if one.op != "sum":
            wanted[one.own[0].array] = neutral(one.op, dtype)
        if any(not isinstance(value := starts.get(name), Const) or value.value != number for name, number in wanted.items()):
            return "a running reduction begins from nothing"
        last = [k for k, each in enumerate(self.body) if any(isinstance(n, Rescale) and n.last for n in walk_nodes((each,)))]
        combined = {each.buffer: (k, each) for k, each in enumerate(self.body) if isinstance(each, Combine)}
        if len(last) != 1 or sum(isinstance(n, Combine) for n in walk_nodes(self.body)) != len(combined):
            return "sums are brought to the result once"
        reference = combined.get(one.reference.array)
        if reference is None or not (reference[1].everywhere and reference[1].op == one.op and reference[0] < last[0]):
            return "sums are brought to what all threads have combined"
        if any(name not in combined or combined[name][0] < last[0] or combined[name][1].op != "sum" for name in self.sums):
            return "sums are combined once they are brought to the result"
        if any(each.over != reference[1].over for _, each in combined.values()):
            return "all of it is combined over the same threads"
        if any(self._kind(n) == "other" for each in self.body[: reference[0]] for n in walk_nodes((each,))):
            return "partial results are for their own updates alone"
        between, behind = self.body[reference[0] : last[0]], self.body[last[0] + 1 :]
        if any(self._updates(each) for each in (*between, *behind)) or not all(isinstance(each, Combine) for each in behind):
            return "nothing is added once the reference is combined"
        made = [each for each in walk_nodes(tuple(between)) if not self._is_start(each)]
        if any(not isinstance(each, Compute | Combine | Guard) or touched_by(each) & (self.own | self.sums) for each in made):
            return "the result is made of the reference alone"
        return self.finish(self.body[last[0]])

    def finish(self, node: TreeNode) -> str:
        """Sums are brought to the result wherever something was added to them."""
        asked: list[Expr] = []
        while isinstance(node, Guard) and len(node.then) == 1 and not node.otherwise:
            asked.append(node.condition)
            node = node.then[0]
        if not isinstance(node, Rescale):
            return "sums are brought to the result behind the pass"
        if any(not {*way}.issuperset(asked) for way in self._conditions(self.body, ())):
            return "sums that something was added to are brought to the result"
        return ""

    def _conditions(self, nodes: Sequence[TreeNode], above: tuple[Expr, ...]) -> Iterator[tuple[Expr, ...]]:
        """What surely holds where each update runs."""
        for node in nodes:
            match node:
                case Guard(condition=condition, then=then, otherwise=otherwise):
                    yield from self._conditions(then, (*above, condition))
                    yield from self._conditions(otherwise, above)
                case Loop(body=body):
                    yield from self._conditions(body, above)
                case _ if self._updates(node):
                    yield above
                case _:
                    pass

    def parts(self, nodes: Sequence[TreeNode]) -> str:
        """Each part of the pass has the reference's updates, a Rescale, the sums' updates over the same elements."""
        middles = [k for k, each in enumerate(nodes) if isinstance(each, Rescale) and not each.last]
        if not middles:
            if any(isinstance(each, Compute) and self._updates(each) for each in nodes):
                return "updates stand around no rescale"
            inside = (body for each in nodes if isinstance(each, Loop | Guard) for body in bodies(each))
            return next((fault for body in inside if (fault := self.parts(body))), "")
        if len(middles) > 1:
            return "a part of the pass has one rescale"
        first = [*_elements(nodes[: middles[0]], {}, 0, ())]
        then = [*_elements(nodes[middles[0] + 1 :], {}, 0, ())]
        if any(self._kind(each.node) == "sum" for each in first) or any(self._kind(each.node) == "reference" for each in then):
            return "sums are added to behind the rescale"
        taken = [(each.conditions, self._taken(each)) for each in first if self._kind(each.node) == "reference"]
        added = [(each.conditions, self._added(each)) for each in then if self._kind(each.node) == "sum"]
        if any(value is None for _, value in (*taken, *added)):
            return "an update is of another form"
        if len(added) != len(taken) * len(self.sums) or any(added.count(each) != taken.count(each) * len(self.sums) for each in taken):
            return "sums are of other elements than the value that they are scaled by"
        return ""

    # ------------------------------------------------------------------------- updates

    def _kind(self, node: TreeNode) -> str:
        """What a node of the body is: an update of the reference, or of a sum; something else that touches them, but for what they begin from; or
        none of this."""
        if isinstance(node, Rescale | Combine) or self._is_start(node) or not touched_by(node) & {self.one.reference.array, *self.own, *self.sums}:
            return ""
        if isinstance(node, Compute) and node.predicate is None and node.target in loads(node.value):
            if node.target == self.one.reference:
                return "reference"
            if node.target in self.one.sums:
                return "sum"
        return "other"

    @staticmethod
    def _is_start(node: TreeNode) -> bool:
        return isinstance(node, Compute | Copy) and isinstance(node.value, Const)

    def _updates(self, node: TreeNode) -> bool:
        return any(self._kind(each) in ("reference", "sum") for each in walk_nodes((node,)))

    def _taken(self, one: _Element) -> Expr | None:
        """What the reference takes; None where it takes something of its own, or of the sums."""
        value = other_of(one.node, self.update)
        return None if value is None or self._is_own(value) else substitute(value, one.names)

    def _added(self, one: _Element) -> Expr | None:
        """The `e` of what a sum adds."""
        value = other_of(one.node, "add")
        found = None if value is None else term(value, self.one.seen, self.one.op)
        seen, now = self.one.seen, self.one.reference
        if value is None or found is None or self._is_own(with_zero(value, seen)):
            return None
        if self.one.op != "sum" and self.one.factor != factor(value, seen, self.one.own[0], now, self.one.op):
            return None
        return substitute(found, one.names)

    def _is_own(self, value: Expr) -> bool:
        return not {load.array for load in loads(value)}.isdisjoint({self.one.reference.array, *self.own, *self.sums})


@dataclass(frozen=True, slots=True)
class _Element:
    """A leaf of a part of the pass, with names of the loops around it by how deep they stand and where they end, and under which conditions."""

    node: TreeNode
    names: Mapping[str, Expr]
    conditions: tuple[tuple[Expr, bool], ...]


def _elements(
    nodes: Sequence[TreeNode], names: Mapping[str, Expr], depth: int, conditions: tuple[tuple[Expr, bool], ...]
) -> Iterator[_Element]:
    for node in nodes:
        match node:
            case Loop(var=var, lower=lower, upper=upper, body=body):
                name = Iter(f"{depth} from {substitute(lower, names)} to {substitute(upper, names)}")
                yield from _elements(body, {**names, var: name}, depth + 1, conditions)
            case Guard(condition=condition, then=then, otherwise=otherwise):
                test = substitute(condition, names)
                yield from _elements(then, names, depth, (*conditions, (test, True)))
                yield from _elements(otherwise, names, depth, (*conditions, (test, False)))
            case _:
                yield _Element(node, names, conditions)
