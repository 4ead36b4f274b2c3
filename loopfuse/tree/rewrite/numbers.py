"""What interpreters and code generation run: the tree in which linear maps and running reductions are the numbers that they compute with."""

from __future__ import annotations

from loopfuse.tree.looptree import LoopTree
from loopfuse.tree.rewrite import maps, running


def as_numbers(tree: LoopTree) -> LoopTree:
    """The tree as it runs."""
    return running.as_numbers(maps.as_numbers(tree))
