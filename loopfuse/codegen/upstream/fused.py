"""`STEM.fused.mlir`: the fused program before it is mapped to a machine."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.options import CPU, Target
from loopfuse.codegen.abi import walk_nodes
from loopfuse.codegen.mlir.module import emit_module
from loopfuse.codegen.mlir.print import print_module
from loopfuse.lang import nodes
from loopfuse.lang.walk import conjuncts
from loopfuse.tree.looptree import (
    ALIGNED,
    Await,
    Combine,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Raise,
    Scan,
    Shared,
    Ticket,
    TreeNode,
    strip_of,
)


def emit_fused(tree: LoopTree, kernel: nodes.Kernel, target: Target) -> str:
    """The tree as plain `scf` loops over memrefs, one function a launch.

    Mapped, unrolled and vector loops become serial ones, and of a guard on alignment the general
    side is shown. A tree whose threads work together (Combine, Scan, flags, shared memory) has no such
    form: its text is the module that is compiled for the target.
    """
    if not _is_independent(tree):
        return print_module(emit_module(tree, kernel, target if tree.device == "gpu" else CPU))
    body = tuple(_unmap_host(node) for node in tree.body)
    return print_module(emit_module(replace(tree, device="cpu", body=body), kernel, CPU))


def _is_independent(tree: LoopTree) -> bool:
    for buffer in tree.buffers:
        if isinstance(buffer.home, Shared) or strip_of(buffer.home) is not None:
            return False
    return not any(
        isinstance(node, Combine | Scan | Raise | Await | Ticket)
        for launch in tree.launches
        for node in walk_nodes(launch.body)
    )


def _unmap_host(node: HostNode) -> HostNode:
    if isinstance(node, Launch):
        return replace(node, body=_unmap(node.body))
    return HostLoop(
        node.var,
        node.lower,
        node.upper,
        node.step,
        tuple(_unmap_host(each) for each in node.body),
        node.turns,
    )


def _unmap(body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
    out: list[TreeNode] = []
    for node in body:
        match node:
            case Loop():
                out.append(replace(node, mapping=Mapping.SERIAL, body=_unmap(node.body)))
            case Guard(condition=condition, otherwise=otherwise) if ALIGNED in conjuncts(condition):
                out += _unmap(otherwise)
            case Guard(then=then, otherwise=otherwise):
                out.append(replace(node, then=_unmap(then), otherwise=_unmap(otherwise)))
            case _:
                out.append(node)
    return tuple(out)
