"""Two passes over a row that one can do: a reduction, and sums that depend on its result in a form that can be corrected.

    m = max(c: x[c]);  s = sum(c: exp(x[c] - m))
    t = sum(c: x[c]);  mean = t / C;  v = sum(c: (x[c] - mean) ** 2)

What is summed about the value so far is brought to another by a few operations (`tree.rewrite.running`). So a row that is
read again in each pass is read once less.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.lang.nodes import Const, Expr, Load
from loopfuse.lang.walk import is_alike
from loopfuse.plan.mapping.lanes import Update
from loopfuse.plan.strategies.rows.body import Body, Pass
from loopfuse.tree.looptree import Compute, TreeNode
from loopfuse.tree.rewrite.terms import exponential, factor, other_of, term


@dataclass(frozen=True, slots=True)
class Pair:
    """Two passes, of which the second is step `last` of a body; `starts`: what begins from a number between them; `between`: what else stands
    there. `reference`: the update of the first whose value so far is the second's; `result`: the value that this then depends on."""

    last: int
    one: Pass
    other: Pass
    starts: tuple[TreeNode, ...]
    between: tuple[TreeNode, ...]
    reference: Update
    result: Load


def pairs_of(body: Body) -> dict[int, Pair]:
    """Those of a body, by the step that is the first of each; no step is in two."""
    found: dict[int, Pair] = {}
    taken = -1
    for first, one in enumerate(body.steps):
        if first <= taken or not isinstance(one, Pass) or not _is_updates(one):
            continue
        last = next((k for k in range(first + 1, len(body.steps)) if isinstance(body.steps[k], Pass)), first)
        other = body.steps[last]
        between = [step for step in body.steps[first + 1 : last] if not isinstance(step, Pass)]
        if other is one or not isinstance(other, Pass) or other.space != one.space or not _is_updates(other):
            continue
        if all(isinstance(step, Compute) and step.predicate is None and not step.target.index and step.target not in body.once for step in between):
            starts, rest = (tuple(step for step in between if _is_start(step) is way) for way in (True, False))
            pair = _reference(one, other, rest)
            if pair is not None:
                found[first] = Pair(last, one, other, starts, rest, *pair)
                taken = last
    return found


def is_read_once(body: Body) -> bool:
    """Are all passes over the row one, so that nothing need be held?"""
    return len(body.passes) == 2 and bool(pairs_of(body))


def _is_start(step: TreeNode) -> bool:
    """Does a value begin there from a number?"""
    return isinstance(step, Compute) and isinstance(step.value, Const)


def _is_updates(one: Pass) -> bool:
    """Does an iteration update, one value after the other, and nothing else?"""
    statements = [node.statement for node in one.nodes if isinstance(node, Compute)]
    return len(statements) == len(one.nodes) and statements == [update.statement for update in one.updates]


def _reference(one: Pass, other: Pass, between: tuple[TreeNode, ...]) -> tuple[Update, Load] | None:
    """The value of the one pass that each sum of the other depends on, and what it does; None where that is of no form that can be corrected."""
    made = [node.target for node in between if isinstance(node, Compute)]
    added = [value for node in other.nodes if (value := other_of(node, "add")) is not None]
    if len(added) < len(other.updates) or any(each.op != "sum" or not each.whole for each in other.updates):
        return None
    for node, update in zip(one.nodes, one.updates, strict=True):
        is_sum = update.op == "sum"
        taken = other_of(node, "add" if is_sum else update.op)
        if taken is None or not update.whole or not update.target.dtype.is_float or update.op not in ("sum", "max", "min"):
            continue
        for result in made if is_sum else [update.target]:
            terms = [term(value, result, update.op) for value in added]
            alike = all(found is not None and is_alike(found, taken) for found in terms)
            types = {result.dtype, *(each.target.dtype for each in other.updates)}
            is_one = len(added) == 1 if is_sum else len({exponential(value, result) for value in added}) == 1
            if alike and is_one and types == {update.target.dtype}:
                return update, result
    return None


def factor_of(node: TreeNode, seen: Load, was: Load, now: Load, op: str) -> Expr | None:
    """What brings a sum that the node updates to another value."""
    added = other_of(node, "add")
    return None if added is None else factor(added, seen, was, now, op)
