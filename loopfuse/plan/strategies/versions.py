"""Launches of which the length of a loop says which runs: loops of the host that run once or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, combine, integer
from loopfuse.plan.mapping.body import Names
from loopfuse.tree.looptree import HostLoop, HostNode, Launch

Write = Callable[[int, int], tuple[HostNode, ...]]
"""Writes launches for at least and at most so many iterations (0: any number)."""

Version = tuple[int, Write]
"""How many iterations at most, and what writes the launches for them."""


def by_length(names: Names, length: Expr, versions: Sequence[Version], said: str, step: int = 1) -> tuple[HostNode, ...]:
    """The versions, shortest first, for a loop over `length` places in steps of `step`; the last takes any number.
    `said`: what its launches say, around the words for how many. Of a length that is known there is one."""
    count = constant_value(length)
    if count is not None:
        iterations = max(0, -(-count // step))
        most, write = next((one for one in versions if iterations <= one[0]), versions[-1])
        return write(iterations, most if iterations <= most else 0)
    nodes: list[HostNode] = []
    beyond = 0
    for number, (most, write) in enumerate(versions):
        at_most = most if number < len(versions) - 1 else 0
        launches = write(beyond + 1 if beyond else 0, at_most)
        words = said.format(_words(beyond, at_most))
        once: Expr = integer(1)
        if beyond:
            once = combine("min", once, combine("max", tidy(length - beyond * step), integer(0)))
        if at_most:
            once = combine("min", once, combine("max", tidy((at_most * step + 1) - length), integer(0)))
        body = tuple(_with_words(node, words) for node in launches)
        nodes.append(HostLoop(names.fresh("once"), integer(0), once, 1, body))
        beyond = most
    return tuple(nodes)


def _words(beyond: int, most: int) -> str:
    if not most:
        return f"more than {beyond}"
    return f"{beyond + 1} to {most}" if beyond else f"up to {most}"


def _with_words(node: HostNode, words: str) -> HostNode:
    """The node, its launches with what decides that they run."""
    if isinstance(node, Launch):
        return replace(node, specialised=(words, *node.specialised))
    return replace(node, body=tuple(_with_words(each, words) for each in node.body))
