"""Random small changes to LoopTrees: most make them wrong, and the checker must never be fooled."""

from __future__ import annotations

import random
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Const, Expr, Iter, Load
from loopfuse.lang.walk import map_expr
from loopfuse.plan.looptree import (
    Compute,
    Copy,
    Fold,
    Guard,
    HostLoop,
    HostNode,
    Loop,
    LoopTree,
    Ticket,
    TreeNode,
)


class _Mutator:
    """Applies one change at the `at`-th place where the kind of change applies."""

    def __init__(self, kind: str, at: int, pick: random.Random) -> None:
        self.kind, self.left, self.pick = kind, at, pick
        self.what = ""

    def hit(self, what: str = "") -> bool:
        self.left -= 1
        if self.left == -1:
            self.what = f"{self.kind} {what}"
            return True
        return False

    # ------------------------------------------------------------------------- expressions

    def expr(self, expr: Expr, names: list[str]) -> Expr:
        def one(node: Expr) -> Expr:
            if (
                self.kind == "constant"
                and isinstance(node, Const)
                and node.dtype is DType.I64
                and self.hit(f"{node.value}")
            ):
                return replace(node, value=int(node.value) + self.pick.choice((-1, 1)))
            if self.kind == "variable" and isinstance(node, Iter) and self.hit(node.name):
                other = self.pick.choice([name for name in names if name != node.name] or ["?"])
                return node if other == "?" else Iter(other)
            if self.kind == "shift" and isinstance(node, Iter) and self.hit(node.name):
                return combine("add", node, integer(self.pick.choice((-1, 1))))
            return node

        return map_expr(one, expr) if self.kind in ("constant", "variable", "shift") else expr

    def load(self, load: Load, names: list[str]) -> Load:
        found = self.expr(load, names)
        assert isinstance(found, Load)
        return found

    # ------------------------------------------------------------------------- nodes

    def nodes(self, nodes: tuple[TreeNode, ...], names: list[str]) -> tuple[TreeNode, ...]:
        out: list[TreeNode] = []
        for node in nodes:
            if self.kind == "drop" and self.hit(type(node).__name__):
                continue
            out.append(self.node(node, names))
            if self.kind == "double" and self.hit(type(node).__name__):
                out.append(out[-1])
            if self.kind == "unwrap" and isinstance(node, Guard) and self.hit("guard"):
                out[-1:] = node.then
        for k in range(len(out) - 1):
            if self.kind == "swap" and self.hit(str(k)):
                out[k], out[k + 1] = out[k + 1], out[k]
                break
        return tuple(out)

    def node(self, node: TreeNode, names: list[str]) -> TreeNode:
        match node:
            case Loop():
                lower, upper = self.expr(node.lower, names), self.expr(node.upper, names)
                body = self.nodes(node.body, [*names, node.var])
                return replace(node, lower=lower, upper=upper, body=body)
            case Guard():
                return Guard(
                    self.expr(node.condition, names),
                    self.nodes(node.then, names),
                    self.nodes(node.otherwise, names),
                )
            case Compute():
                return replace(
                    node,
                    iteration=tuple(self.expr(part, names) for part in node.iteration),
                    target=self.load(node.target, names),
                    value=self.expr(node.value, names),
                )
            case Copy():
                return Copy(self.load(node.target, names), self.expr(node.value, names))
            case Fold():
                return Fold(node.op, self.load(node.target, names), self.load(node.value, names))
            case Ticket():
                return replace(node, body=self.nodes(node.body, names))
            case _:
                return node

    def host(self, nodes: tuple[HostNode, ...], names: list[str]) -> tuple[HostNode, ...]:
        out: list[HostNode] = []
        for node in nodes:
            if self.kind == "drop" and self.hit("launch"):
                continue
            if isinstance(node, HostLoop):
                body = self.host(node.body, [*names, node.var])
                lower, upper = self.expr(node.lower, names), self.expr(node.upper, names)
                out.append(replace(node, lower=lower, upper=upper, body=body))
            else:
                out.append(replace(node, body=self.nodes(node.body, names)))
        for k in range(len(out) - 1):
            if self.kind == "swap" and self.hit(f"launch {k}"):
                out[k], out[k + 1] = out[k + 1], out[k]
                break
        return tuple(out)


KINDS = ("constant", "constant", "shift", "variable", "drop", "double", "unwrap", "swap")


def mutate(tree: LoopTree, seed: int) -> tuple[LoopTree, str] | None:
    """The tree with one random change, and what it was; None where it does not apply."""
    pick = random.Random(seed)
    kind = pick.choice(KINDS)
    places = _Mutator(kind, 10**9, pick)
    places.host(tree.body, [])
    count = 10**9 - places.left
    if not count:
        return None
    change = _Mutator(kind, pick.randrange(count), pick)
    changed = replace(tree, body=change.host(tree.body, []))
    return None if changed == tree else (changed, change.what)

