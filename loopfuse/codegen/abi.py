"""The calling convention: which arguments a launch takes, its grid, and the manifest.

A launch takes only what it uses, in this order: array pointers in parameter order, workspaces in
the tree's order, sizes in the kernel's order, scalar parameters in order, host loop variables
outermost first, and last `aligned`. CPU entry points take `begin` and `end` besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, assert_never

from loopfuse.base.diagnostics import Diagnostic, InternalError, LimitError
from loopfuse.base.dtypes import DType
from loopfuse.base.machine import THREADS
from loopfuse.base.options import Target
from loopfuse.lang import nodes
from loopfuse.lang.index import is_checked
from loopfuse.lang.index_text import COMPARISONS
from loopfuse.lang.walk import map_expr, walk_expr
from loopfuse.tree.looptree import (
    ALIGNED,
    RESIDENT,
    Arrive,
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
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Prefetch,
    Raise,
    Rescale,
    Running,
    Scan,
    Ticket,
    TreeNode,
    modulus_of,
)
from loopfuse.tree.price import launch_prices
from loopfuse.tree.rewrite.numbers import as_numbers


def not_lowered(what: str) -> LimitError:
    """The limit error for a tree node that codegen cannot lower yet."""
    return LimitError(Diagnostic("tree-not-lowered", f"code for {what} cannot be made yet"))


def broken(what: str) -> InternalError:
    """The error for a tree that breaks LoopTree's own rules."""
    return InternalError(Diagnostic("bad-loop-tree", what))


# ------------------------------------------------------------------------------------ walking


def walk_nodes(body: tuple[TreeNode, ...]) -> Iterator[TreeNode]:
    """Every node of `body`, a parent before what is inside it."""
    for node in body:
        yield node
        match node:
            case Loop(body=inner) | Ticket(body=inner):
                yield from walk_nodes(inner)
            case Guard(then=then, otherwise=otherwise):
                yield from walk_nodes(then)
                yield from walk_nodes(otherwise)
            case _:
                pass


def node_expressions(node: TreeNode) -> tuple[nodes.Expr, ...]:
    """The expressions `node` itself holds; targets come as Loads."""
    match node:
        case Loop(lower=lower, upper=upper):
            return (lower, upper)
        case Guard(condition=condition):
            return (condition,)
        case Compute(target=target, value=value, predicate=predicate):
            return (target, value) if predicate is None else (predicate, target, value)
        case Copy(target=target, value=value) | Fold(target=target, value=value):
            return (target, value)
        case Raise(flag=flag, value=value) | Await(flag=flag, value=value):
            return (flag, value)
        case Ticket(counter=counter, count=count):
            return (counter, count)
        case Prefetch(source=source):
            return (source,)
        case Scan(index=index):
            return index
        case Combine() | Barrier() | Arrive() | Running() | Rescale():  # (the last two are numbers by now)
            return ()
        case _:
            assert_never(node)


def accessed_buffers(body: tuple[TreeNode, ...]) -> tuple[dict[str, int], frozenset[str]]:
    """How often each buffer occurs in `body`, and which buffers it writes."""
    counts: dict[str, int] = {}
    written: set[str] = set()
    for node in walk_nodes(body):
        for expression in node_expressions(node):
            for each in walk_expr(expression):
                if isinstance(each, nodes.Load):
                    counts[each.array] = counts.get(each.array, 0) + 1
        match node:
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                written.add(target.array)
            case Raise(flag=target) | Await(flag=target) | Ticket(counter=target):
                written.add(target.array)
            case Combine(buffer=buffer):
                counts[buffer] = counts.get(buffer, 0) + 1
                written.add(buffer)
            case Scan(buffer=buffer, words=words):
                for each in (buffer, words) if words else (buffer,):
                    counts[each] = counts.get(each, 0) + 1
                    written.add(each)
            case _:
                pass
    return counts, frozenset(written)


@dataclass(frozen=True, slots=True)
class Chain:
    """A launch's mapped loops, outermost first, and what is inside them."""

    grid: tuple[Loop, ...]
    cluster: tuple[Loop, ...]
    block: tuple[Loop, ...]
    body: tuple[TreeNode, ...]


_GRID = (Mapping.GRID, Mapping.THREAD)
_BLOCK = (Mapping.BLOCK, Mapping.WARP, Mapping.LANE)


def split_chain(launch: Launch) -> Chain:
    """The chain of parallel loops at the head of `launch`: GRID or THREAD, CLUSTER, then BLOCK, WARP, LANE."""
    grid: list[Loop] = []
    cluster: list[Loop] = []
    block: list[Loop] = []
    body = launch.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].mapping.is_parallel:
        loop = body[0]
        if loop.mapping in _GRID and not (cluster or block):
            grid.append(loop)
        elif loop.mapping in _BLOCK:
            block.append(loop)
        elif loop.mapping is Mapping.CLUSTER and not block:
            cluster.append(loop)
        else:
            raise broken(f"a {loop.mapping.value} loop stands inside the block of {launch.name}")
        body = loop.body
    for node in walk_nodes(body):
        if isinstance(node, Loop) and node.mapping.is_parallel:
            raise broken(f"the {node.mapping.value} loop {node.var} is not in the head chain")
    for number, loop in enumerate(grid):
        outer = {each.var for each in grid[:number]}
        if outer & (_iterators(loop.lower) | _iterators(loop.upper)):
            raise not_lowered(f"the {loop.mapping.value} loop {loop.var} with non-rectangular bounds")
    return Chain(tuple(grid), tuple(cluster), tuple(block), body)


def _iterators(expr: nodes.Expr) -> frozenset[str]:
    return frozenset(each.name for each in walk_expr(expr) if isinstance(each, nodes.Iter))


def constant_extent(loop: Loop) -> int:
    """The number of iterations of a loop with constant bounds."""
    match loop.lower, loop.upper:
        case nodes.Const(value=lower), nodes.Const(value=upper):
            return max(0, -((int(lower) - int(upper)) // loop.step))
        case _:
            raise broken(f"the {loop.mapping.value} loop {loop.var} has bounds that are not constant")


def block_threads(chain: Chain) -> int:
    """How many threads a block has."""
    threads = 1
    for loop in chain.block:
        threads *= constant_extent(loop)
    if not 1 <= threads <= THREADS:
        raise broken(f"a block of {threads} threads")
    return threads


def cluster_blocks(chain: Chain) -> int:
    """How many blocks a cluster has: 1 where there are no clusters."""
    return prod(map(constant_extent, chain.cluster))


# --------------------------------------------------------------------------- Python formulas

_PRECEDENCE = {"add": 1, "sub": 1, "mul": 2, "floordiv": 2, "mod": 2}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def python_name(name: str) -> str:
    """A name as formulas and the manifest write it: host loop variables may hold dots."""
    return name.replace(".", "__")


def to_python(expr: nodes.Expr) -> str:
    """An index expression as Python text: `// % min max`, and `a if c else b` where the bound
    itself depends on a condition."""
    return _python(expr, 0)


def _python(expr: nodes.Expr, level: int) -> str:
    match expr:
        case nodes.Const(value=value):
            text = str(int(value))
            return f"({text})" if text[0] == "-" and level else text
        case nodes.Iter(name=name) | nodes.Symbol(name=name):
            return python_name(name)
        case nodes.Select(condition=condition, then=then, otherwise=otherwise):
            arms = f"{_python(then, 1)} if {_python(condition, 1)} else {_python(otherwise, 1)}"
            return f"({arms})"
        case nodes.Compare(op=op, left=left, right=right):
            return f"({_python(left, 1)} {COMPARISONS[op]} {_python(right, 1)})"
        case nodes.Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
            return f"({_python(left, 1)} {op} {_python(right, 1)})"
        case nodes.Unary(op="not", operand=operand):
            return f"(not {_python(operand, 1)})"
        case nodes.Unary(op="neg", operand=operand):
            return f"(-{_python(operand, 3)})"
        case nodes.Cast(operand=operand):
            return _python(operand, level)
        case nodes.Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({_python(left, 0)}, {_python(right, 0)})"
        case nodes.Binary(op=op, left=left, right=right) if op in _SIGNS:
            mine = _PRECEDENCE[op]
            text = f"{_python(left, mine)} {_SIGNS[op]} {_python(right, mine + 1)}"
            return f"({text})" if mine < level else text
        case _:
            raise broken(f"no formula for {expr}")


def extent_formula(loop: Loop) -> str:
    """How many iterations `loop` has, as Python text."""
    lower, upper = to_python(loop.lower), _python(loop.upper, 1)
    count = upper if lower == "0" else f"{upper} - {_python(loop.lower, 2)}"
    if loop.step != 1:
        count = f"({count} + {loop.step - 1}) // {loop.step}"
    return str(max(0, int(count))) if count.lstrip("-").isdecimal() else f"max(0, {count})"


def grid_formula(chain: Chain) -> str:
    """Blocks (GPU) or iterations (CPU) of a launch, as Python text."""
    factors = [extent_formula(loop) for loop in (*chain.grid, *chain.cluster)]
    factors = [factor for factor in factors if factor != "1"] or ["1"]
    return " * ".join(factors)


# -------------------------------------------------------------------------------- arguments


def launch_buffers(tree: LoopTree, launch: Launch, kernel: nodes.Kernel) -> tuple[Buffer, ...]:
    """The Global buffers that `launch` uses: arguments in parameter order, then workspaces."""
    counts, _ = accessed_buffers(launch.body)
    places = sorted(tree.places[name] for name in counts if name in tree.places)
    used = [each for each in map(tree.buffers.__getitem__, places) if isinstance(each.home, Global)]
    order = {array.name: number for number, array in enumerate(kernel.arrays)}
    arguments = sorted(
        (each for each in used if each.argument), key=lambda each: order[each.array]
    )
    return (*arguments, *(each for each in used if not each.argument))


def launch_arguments(
    tree: LoopTree, launch: Launch, kernel: nodes.Kernel
) -> tuple[dict[str, Any], ...]:
    """The arguments of `launch`, in order, as the manifest lists them (base/artifact.py)."""
    out: list[dict[str, Any]] = []
    names: set[str] = set()

    def note(expr: nodes.Expr) -> None:
        for each in walk_expr(expr):
            if isinstance(each, nodes.Iter | nodes.Symbol):
                names.add(each.name)

    for buffer in launch_buffers(tree, launch, kernel):
        name = buffer.array if buffer.argument else buffer.name
        out.append({"kind": "pointer", "name": name})
        for extent in buffer.extents[1:] if buffer.strides is None else buffer.strides:
            note(extent)
    for node in walk_nodes(launch.body):
        for expression in node_expressions(node):
            note(expression)
    for _, condition in launch.nontemporal:
        note(condition)
    values = [(name, "i64") for name in kernel.sizes]
    values += [(scalar.name, scalar.dtype.value) for scalar in kernel.scalars]
    values += [
        (stride.name, "i64")
        for buffer in launch_buffers(tree, launch, kernel)
        for stride in buffer.strides or ()
        if isinstance(stride, nodes.Symbol)
    ]
    values += [(name, "i64") for name in host_variables(tree, launch)]
    out += [
        {"kind": "value", "name": python_name(name), "dtype": dtype}
        for name, dtype in values
        if name in names
    ]
    if ALIGNED.name in names:
        out.append({"kind": "aligned", "dtype": "bool"})
    if any(True for _ in checked_accesses(launch)):
        out.append({"kind": "error"})
    return tuple(out)


def checked_accesses(launch: Launch) -> Iterator[tuple[nodes.Load, int, bool]]:
    """(access, dimension of the buffer, is it a write) for each subscript that is checked."""
    for node in walk_nodes(launch.body):
        target = node.target if isinstance(node, Compute | Copy | Fold) else None
        for expression in node_expressions(node):
            for each in walk_expr(expression):
                if isinstance(each, nodes.Load):
                    for position, subscript in enumerate(each.index):
                        if is_checked(subscript):
                            yield each, position, each is target


def check_key(load: nodes.Load, position: int, writes: bool) -> tuple[str, int, int, int, bool]:
    """What tells the checks of a kernel apart."""
    span = load.index[position].span
    return load.array, position, span.line, span.column, writes


def check_table(tree: LoopTree) -> dict[tuple[str, int, int, int, bool], dict[str, Any]]:
    """The run-time checks of a kernel, numbered from 1 in order, as the manifest has them."""
    found: dict[tuple[str, int, int, int, bool], dict[str, Any]] = {}
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    for launch in tree.launches:
        for load, position, writes in checked_accesses(launch):
            key = check_key(load, position, writes)
            if key in found:
                continue
            call = load.index[position]
            assert isinstance(call, nodes.Call)
            span = call.span
            found[key] = {
                "array": buffers[load.array].array,
                "dimension": position - buffers[load.array].copies,
                "extent": to_python(call.arguments[1]),
                "writes": writes,
                "line": span.line,
                "column": span.column,
                "end_line": span.end_line,
                "end_column": span.end_column,
            }
    return found


def host_variables(tree: LoopTree, launch: Launch) -> tuple[str, ...]:
    """The variables of the host loops around `launch`, outermost first."""
    return tree.host_variables.get(id(launch), ())


def entry_name(launch: Launch) -> str:
    """The entry point's symbol: the launch's name with anything else than letters, digits and
    underscores replaced."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in launch.name)
    return f"_{name}" if name[:1].isdigit() else name


# --------------------------------------------------------------------------------- manifest


def build_manifest(
    tree: LoopTree,
    kernel: nodes.Kernel,
    target: Target,
    index_bits: int,
    asked: dict[str, int],
    preconditions: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """The manifest of `base.artifact` for `tree`. `asked`: the bytes of shared memory that launches
    have to ask for, by name (`shared_memory.placed_in`); code declares the others."""
    tree = as_numbers(tree)
    parameters: list[dict[str, Any]] = []
    for param in kernel.params:
        match param:
            case nodes.ArrayParam(name=name, dtype=dtype, extents=extents, mode=mode):
                parameters.append(
                    {
                        "name": name,
                        "kind": "array",
                        "dtype": dtype.value,
                        "mode": mode,
                        "extents": [to_python(each) for each in extents],
                    }
                )
            case nodes.ScalarParam(name=name, dtype=dtype):
                parameters.append({"name": name, "kind": "scalar", "dtype": dtype.value})
            case _:
                assert_never(param)

    prices = {} if target.is_gpu else launch_prices(tree)

    def steps(body: tuple[HostNode, ...]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for node in body:
            turning = isinstance(node, HostLoop) and node.turns
            out += in_turn(node) if isinstance(node, HostLoop) and turning else [step(node)]
        return out

    def in_turn(node: HostLoop) -> list[dict[str, Any]]:
        """One loop of one iteration for each: what turns is an argument, as what it stands for."""
        found: list[dict[str, Any]] = []
        for number, names in enumerate(tree.in_turn(node)):
            known = {name: tree.buffer(to) for name, to in names.items()}
            shown = {name: b.array if b.argument else b.name for name, b in known.items()}
            ends = {"lower": str(number), "upper": str(number + 1), "step": 1}
            body = [_renamed(each, shown) for each in steps(node.body)]
            found.append({"loop": {"var": python_name(node.var), **ends, "body": body}})
        return found

    def bound(expr: nodes.Expr) -> str:
        known = map_expr(lambda e: tree.resident if e == RESIDENT and tree.resident is not None else e, expr)
        return to_python(known)

    def step(node: HostNode) -> dict[str, Any]:
        if isinstance(node, HostLoop):
            return {
                "loop": {
                    "var": python_name(node.var),
                    "lower": bound(node.lower),
                    "upper": bound(node.upper),
                    "step": node.step,
                    "body": steps(node.body),
                }
            }
        chain = split_chain(node)
        return {
            "launch": {
                "name": entry_name(node),
                "arguments": list(launch_arguments(tree, node, kernel)),
                "grid": grid_formula(chain),
                "threads": block_threads(chain) if target.is_gpu else 1,
                "shared_bytes": asked.get(entry_name(node), 0),
                "cluster": cluster_blocks(chain),
                **({} if target.is_gpu else {"price": to_python(prices[id(node)])}),
            }
        }

    return {
        "schema": 1,
        "kernel": kernel.name,
        "target": target.name,
        "machine": target.machine_name,
        "index_bits": index_bits,
        "parameters": parameters,
        "sizes": list(kernel.sizes),
        "preconditions": list(preconditions),
        "checks": list(check_table(tree).values()),
        "buffers": [
            {
                "name": buffer.name,
                "dtype": buffer.dtype.value,
                "extents": [to_python(each) for each in buffer.extents],
                "zeroed": buffer.zeroed,
            }
            for buffer in tree.buffers
            if isinstance(buffer.home, Global) and not buffer.argument and not buffer.turns
        ],
        "steps": steps(tree.body),
    }


def _renamed(step: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A step with its pointers named so."""
    if "loop" in step:
        body = [_renamed(each, names) for each in step["loop"]["body"]]
        return {"loop": {**step["loop"], "body": body}}
    arguments = [
        {**one, "name": names.get(one["name"], one["name"])} if one["kind"] == "pointer" else one
        for one in step["launch"]["arguments"]
    ]
    return {"launch": {**step["launch"], "arguments": arguments}}


def buffer_size(buffer: Buffer) -> int:
    """Elements of a buffer with constant extents, of as many rows as its home keeps."""
    size = modulus_of(buffer.home) or 1
    for extent in buffer.extents[int(modulus_of(buffer.home) > 0) :]:
        if not isinstance(extent, nodes.Const):
            raise broken(f"the buffer {buffer.name} has an extent that is not constant")
        size *= int(extent.value)
    return max(size, 1)
