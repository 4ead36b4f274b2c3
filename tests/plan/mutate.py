"""Random small changes to LoopTrees: most make them wrong, and the checker must never be fooled."""

from __future__ import annotations

import random
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import (
    Await,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    HostLoop,
    HostNode,
    Lanes,
    LineBuffer,
    Loop,
    LoopTree,
    Mapping,
    Raise,
    Register,
    Shared,
    Ticket,
    TreeNode,
    Window,
)


class _Mutator:
    """Applies one change at the `at`-th place where the kind of change applies."""

    def __init__(
        self, kind: str, at: int, pick: random.Random, buffers: tuple[Buffer, ...] = ()
    ) -> None:
        self.kind, self.left, self.pick, self.buffers = kind, at, pick, buffers
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
            if self.kind == "buffer" and isinstance(node, Load) and self.hit(node.array):
                rank = len(node.index)
                others = [
                    b.name
                    for b in self.buffers
                    if b.dtype is node.dtype and len(b.extents) == rank and b.name != node.array
                ]
                return replace(node, array=self.pick.choice(others)) if others else node
            if self.kind == "compare" and isinstance(node, Compare) and self.hit(node.op):
                return replace(node, op=self.pick.choice(("lt", "le", "gt", "ge", "eq", "ne")))
            if self.kind == "real" and isinstance(node, Const) and node.dtype.is_float and (
                self.hit(f"{node.value}")
            ):
                return replace(node, value=self.pick.choice((0.0, 1.0, float(node.value) + 1)))
            if self.kind == "clamp" and isinstance(node, Binary) and node.op in ("min", "max") and (
                node.dtype is DType.I64 and self.hit(node.op)
            ):
                return self.pick.choice((node.left, node.right))
            if self.kind == "unchecked" and is_checked(node) and self.hit():
                return node.arguments[0]
            return node

        return map_expr(one, expr) if self.kind in IN_EXPRESSIONS else expr

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
            if self.kind == "mapping" and isinstance(node, Loop) and self.hit(node.var):
                out[-1] = replace(out[-1], mapping=self.pick.choice(list(Mapping)))
            if self.kind == "step" and isinstance(node, Loop) and self.hit(node.var):
                out[-1] = replace(out[-1], step=node.step + 1)
            if self.kind == "operation" and isinstance(node, Fold | Combine) and self.hit(node.op):
                out[-1] = replace(out[-1], op=self.pick.choice(("sum", "prod", "min", "max")))
            if self.kind == "predicate" and isinstance(node, Compute) and node.predicate is not None and (
                self.hit(node.statement)
            ):
                out[-1] = replace(out[-1], predicate=self.pick.choice((None, TRUE)))
            if self.kind == "scope" and isinstance(node, Barrier) and self.hit(node.scope):
                out[-1] = Barrier(self.pick.choice(("warp", "block", "cluster")))
            if self.kind == "else" and isinstance(node, Guard) and self.hit("guard"):
                out[-1] = Guard(node.condition, node.otherwise, node.then)
            if self.kind == "sink" and isinstance(node, Loop) and node.body and self.hit(node.var):
                out[-1:] = [replace(node, body=node.body[:-1]), node.body[-1]]
            if self.kind == "fission" and isinstance(node, Loop) and len(node.body) > 1 and self.hit(node.var):
                out[-1:] = [replace(node, body=node.body[:1]), replace(node, body=node.body[1:])]
            if self.kind == "guard" and self.hit(type(node).__name__) and names:
                var = Iter(self.pick.choice(names))
                limit = integer(self.pick.randrange(3))
                out[-1] = Guard(Compare(self.pick.choice(("ne", "ge", "le")), var, limit), (out[-1],))
            if self.kind == "overwrite" and isinstance(node, Compute | Copy) and (
                self.hit(node.target.array)
            ):
                out.append(Copy(node.target, _constant(node.target.dtype)))
            if self.kind == "after" and isinstance(node, Guard) and node.then and self.hit("guard"):
                out[-1:] = [replace(node, then=node.then[:-1]), node.then[-1]]
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
                    predicate=None if node.predicate is None else self.expr(node.predicate, names),
                )
            case Copy():
                return Copy(self.load(node.target, names), self.expr(node.value, names))
            case Fold():
                return replace(node, target=self.load(node.target, names), value=self.load(node.value, names))
            case Ticket():
                return Ticket(
                    self.load(node.counter, names),
                    self.expr(node.count, names),
                    self.nodes(node.body, names),
                )
            case Raise():
                return Raise(self.load(node.flag, names), self.expr(node.value, names))
            case Await():
                return Await(self.load(node.flag, names), self.expr(node.value, names))
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


IN_EXPRESSIONS = (
    "constant", "variable", "shift", "buffer", "compare", "real", "clamp", "unchecked",
)  # fmt: skip
KINDS = (
    *IN_EXPRESSIONS, "constant", "shift", "drop", "double", "unwrap", "swap", "mapping", "step",
    "operation", "predicate", "scope", "else", "sink", "fission", "guard", "home", "zeroed",
    "overwrite", "after",
)  # fmt: skip
TRUE = Const(True, DType.BOOL)


def _constant(dtype: DType) -> Const:
    return Const(True if dtype is DType.BOOL else 7.0 if dtype.is_float else 7, dtype)


def mutate(tree: LoopTree, seed: int) -> tuple[LoopTree, str] | None:
    """The tree with one random change, and what it was; None where it does not apply."""
    pick = random.Random(seed)
    kind = pick.choice(KINDS)
    if kind in ("home", "zeroed"):
        return _mutate_buffer(tree, kind, pick)
    places = _Mutator(kind, 10**9, pick, tree.buffers)
    places.host(tree.body, [])
    count = 10**9 - places.left
    if not count:
        return None
    change = _Mutator(kind, pick.randrange(count), pick, tree.buffers)
    changed = replace(tree, body=change.host(tree.body, []))
    return None if changed == tree else (changed, change.what)


def _mutate_buffer(
    tree: LoopTree, kind: str, pick: random.Random
) -> tuple[LoopTree, str] | None:
    """A workspace declared otherwise: smaller, larger, fewer rows, of others, zeroed or not."""
    own = [buffer for buffer in tree.buffers if not buffer.argument]
    if not own:
        return None
    old = pick.choice(own)
    if kind == "zeroed":
        new = replace(old, zeroed=not old.zeroed)
    elif isinstance(old.home, Window | LineBuffer):
        new = replace(old, home=replace(old.home, rows=max(1, old.home.rows - pick.choice((1, -1)))))
    elif isinstance(old.home, Lanes):
        new = replace(old, home=Lanes(max(1, old.home.columns - pick.choice((1, -1)))))
    elif old.extents and pick.random() < 0.5:
        at = pick.randrange(len(old.extents))
        parts = list(old.extents)
        parts[at] = combine("add", parts[at], integer(pick.choice((-1, 1))))
        new = replace(old, extents=tuple(parts))
    else:
        new = replace(old, home=pick.choice((Global(), Register(), Shared())))
    buffers = tuple(new if buffer is old else buffer for buffer in tree.buffers)
    return None if new == old else (replace(tree, buffers=buffers), f"{kind} {old.name}")
