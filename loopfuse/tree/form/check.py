"""Is a LoopTree well formed? The rules of `looptree`, one function each; no rule about meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.base.machine import CLUSTER, LANES
from loopfuse.lang.linear import coefficients, constant_value
from loopfuse.lang.nodes import Const, Expr, Iter, Load, Select, Symbol, combine
from loopfuse.lang.walk import walk_expr
from loopfuse.tree import chains
from loopfuse.tree.form.chains import chains_fault
from loopfuse.tree.form.late import late_fault, spread_fault
from loopfuse.tree.form.maps import maps_fault
from loopfuse.tree.form.running import running_fault
from loopfuse.tree.form.straddled import arrival_fault, form_fault
from loopfuse.tree.looptree import (
    ALIGNED,
    ATOMIC_OPERATIONS,
    ATOMIC_TYPES,
    LATE_BYTES,
    LINEAR,
    RESIDENT,
    STREAMED,
    WRITTEN_OUT,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    DistributedShared,
    Fold,
    Global,
    Guard,
    HostLoop,
    HostNode,
    Lanes,
    Launch,
    LineBuffer,
    Loop,
    LoopTree,
    Mapping,
    Prefetch,
    Raise,
    Register,
    Rescale,
    Running,
    Scan,
    Shared,
    Ticket,
    TreeNode,
    Window,
    modulus_of,
    owns_lane,
    print_home,
    strip_of,
)
from loopfuse.tree.printer import print_expr, print_node
from loopfuse.tree.rewrite.coalesce import coalesce_fault
from loopfuse.tree.rewrite.collapse import collapse_fault
from loopfuse.tree.rewrite.nontemporal import nontemporal_fault
from loopfuse.tree.walk import (
    atomic_update,
    may_be_predicated,
    node_expressions,
    split_chain,
    walk_nodes,
)

_RANK = {
    Mapping.GRID: 0, Mapping.THREAD: 0, Mapping.CLUSTER: 1, Mapping.BLOCK: 2, Mapping.WARP: 3,
    Mapping.LANE: 4,
}  # fmt: skip
_INNER = (Mapping.BLOCK, Mapping.WARP, Mapping.LANE)
FOLD_OPS = ("sum", "prod", "min", "max", "and", "or", "xor", LINEAR)


What = TreeNode | str
"""What a message is about: a node, or a name."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What stands around a node: every loop variable with its mapping; the variables (of threads)
    that decide whether the node is reached, or how often."""

    tree: LoopTree
    launch: str
    vars: dict[str, Mapping | None]  # None: a host loop's
    sizes: dict[str, int]  # constant trip counts of CLUSTER, BLOCK, WARP and LANE loops
    divergent: frozenset[str] = frozenset()
    trips: dict[str, int] = field(default_factory=dict[str, int])
    """How often STREAMED loops run."""
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """`unrolled_ranges` of the tree."""

    def fail(self, what: What, rule: str) -> InternalError:
        where = f" of launch `{self.launch}`" if self.launch else ""
        name = what if isinstance(what, str) else print_node(what)
        return InternalError(
            Diagnostic("bad-tree", f"in `{name}`{where}: {rule}", notes=(_REPORT,))
        )


_REPORT = "this is a bug in loopfuse; please report it with the program that caused it"


def check_tree(tree: LoopTree) -> None:
    """Raise InternalError[bad-tree], naming the node, where `tree` breaks a rule of `looptree`."""
    place = _Place(tree, "", {}, {}, ranges=unrolled_ranges(tree))
    if tree.device not in ("cpu", "gpu"):
        raise place.fail(tree.device, "a tree's device is cpu or gpu")
    if tree.resident is not None:
        _check_resident(tree.resident, place)
    names = Counter(buffer.name for buffer in tree.buffers)
    arguments = Counter(buffer.array for buffer in tree.buffers if buffer.argument)
    for buffer in tree.buffers:
        if names[buffer.name] > 1:
            raise place.fail(buffer.name, "two buffers have this name")
        _check_buffer(buffer, place)
        if buffer.argument and arguments[buffer.array] > 1:
            raise place.fail(buffer.name, f"two buffers are the argument `{buffer.array}`")
    for name, times in Counter(launch.name for launch in tree.launches).items():
        if times > 1:
            raise place.fail(name, "two launches have this name")
    _check_host(tree.body, place)
    turning = {buffer.name for buffer in tree.buffers if buffer.turns}
    if turning:
        for name, turns in _turning(tree.body, frozenset()):
            if name in turning - turns:
                raise place.fail(name, "it has its turns in a host loop that is not around this")
    faults = (late_fault, collapse_fault, coalesce_fault, maps_fault, chains_fault, nontemporal_fault, running_fault)
    for fault in (find(tree) for find in faults):
        if fault:
            raise place.fail(tree.kernel, fault)


def _check_resident(condition: Expr, place: _Place) -> None:
    """Is it a condition that the host can ask when it is called?"""
    if place.tree.device != "cpu" or condition.dtype is not DType.BOOL:
        raise place.fail("resident", "it is a condition, of a tree for a CPU")
    if any(isinstance(node, Iter | Load) or node == RESIDENT for node in walk_expr(condition)):
        raise place.fail("resident", "it is asked of sizes")


def _check_buffer(buffer: Buffer, place: _Place) -> None:
    home, device = buffer.home, place.tree.device
    if buffer.argument and not (isinstance(home, Global) and buffer.array):
        raise place.fail(buffer.name, "an argument's buffer is global and names its array")
    if not isinstance(home, Global) and any(constant_value(e) is None for e in buffer.extents):
        raise place.fail(buffer.name, f"a {print_home(home)} buffer has constant extents")
    if isinstance(home, Shared | DistributedShared | Lanes) and device != "gpu":
        raise place.fail(buffer.name, f"{print_home(home)} exists on the GPU only")
    if strip_of(home) is not None and device != "gpu":
        raise place.fail(buffer.name, "lanes exist on the GPU only")
    if buffer.strides is not None and not buffer.argument:
        _check_strides(buffer, place)
    if isinstance(home, LineBuffer) and device != "cpu":
        raise place.fail(buffer.name, "a line buffer exists on the CPU only")
    if isinstance(home, LineBuffer | Window) and home.rows < 1:
        raise place.fail(buffer.name, "it has at least one row")
    if isinstance(home, Shared) and home.rows < 0:
        raise place.fail(buffer.name, "a number of rows is not negative")
    rank = len(buffer.extents)
    least = int(isinstance(home, Lanes) or modulus_of(home) > 0)
    if rank < least + int(isinstance(home, Window) and strip_of(home) is not None):
        raise place.fail(buffer.name, f"{print_home(home)} needs more dimensions than {rank}")


def _check_host(nodes: tuple[HostNode, ...], place: _Place) -> None:
    for node in nodes:
        if isinstance(node, HostLoop):
            what = f"host loop {node.var}"
            _check_index(tuple(_way(bound, what, place) for bound in (node.lower, node.upper)), what, place)
            if node.step <= 0:
                raise place.fail(what, "a step is positive")
            _check_turns(node, what, place)
            _check_host(node.body, _enter(place, what, node.var, None))
        else:
            _check_launch(node, replace(place, launch=node.name))


def _way(bound: Expr, what: What, place: _Place) -> Expr:
    """The bound of a host loop, where it asks for RESIDENT without that."""
    if isinstance(bound, Select) and bound.condition == RESIDENT:
        if place.tree.resident is None:
            raise place.fail(what, "the tree does not say when RESIDENT is true")
        return combine("min", bound.then, bound.otherwise)
    return bound


def _check_turns(loop: HostLoop, what: What, place: _Place) -> None:
    """Does each buffer that turns with the loop stand for one buffer like it in each iteration?"""
    trips = constant_value(loop.upper) if constant_value(loop.lower) == 0 and loop.step == 1 else None
    for name in loop.turns:
        buffer = _declared(name, what, place)
        if not buffer.turns or trips != len(buffer.turns):
            raise place.fail(what, f"`{name}` has {len(buffer.turns)} turns, not one an iteration")
        for other in buffer.turns:
            there = _declared(other, what, place)
            like = replace(
                there, name=name, array=buffer.array, argument=False, zeroed=False, turns=buffer.turns
            )
            if like != buffer or there.turns or not isinstance(there.home, Global):
                raise place.fail(what, f"`{name}` stands for `{other}`, which is not like it")


def _turning(nodes: Sequence[HostNode], turns: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """(buffer that a launch touches, the buffers that turn around it)."""
    for node in nodes:
        if isinstance(node, HostLoop):
            yield from _turning(node.body, turns | {*node.turns})
        else:
            for inner in walk_nodes(node.body):
                for expr in node_expressions(inner):
                    yield from ((p.array, turns) for p in walk_expr(expr) if isinstance(p, Load))


def _enter(place: _Place, what: What, var: str, mapping: Mapping | None) -> _Place:
    if var in place.vars:
        raise place.fail(what, f"`{var}` is already the variable of a loop around it")
    return replace(place, vars={**place.vars, var: mapping})


def _check_launch(launch: Launch, place: _Place) -> None:
    chain, body = split_chain(launch)
    previous = 0
    for loop in chain:
        what = loop
        _check_loop(loop, place)
        rank = _RANK[loop.mapping]
        if rank < previous:
            raise place.fail(what, "the chain goes grid, cluster, block, warp, lane")
        if (loop.mapping is Mapping.THREAD) != (place.tree.device == "cpu"):
            raise place.fail(what, f"a {place.tree.device} launch has no {loop.mapping.value} loops")
        previous = rank
        place = _enter(place, what, loop.var, loop.mapping)
        if rank:
            size = constant_value(loop.upper)
            place = replace(place, sizes={**place.sizes, loop.var: size or 0})
    if sum(loop.mapping is Mapping.LANE for loop in chain) > 1:
        raise place.fail(launch.name, "a warp has one lane loop")
    if launch.ends_first:
        _check_ends_first(launch, chain, place)
    threads = 1
    for size in (place.sizes[v] for v, m in place.vars.items() if m in _INNER):
        threads *= size
    if threads > 1024:
        raise place.fail(launch.name, f"a block has at most 1024 threads, not {threads}")
    blocks = prod(place.sizes[v] for v, m in place.vars.items() if m is Mapping.CLUSTER)
    if blocks > CLUSTER:
        raise place.fail(launch.name, f"a cluster has at most {CLUSTER} blocks, not {blocks}")
    _check_nodes(body, place)


def _check_ends_first(launch: Launch, chain: Sequence[Loop], place: _Place) -> None:
    grids = sum(loop.mapping is Mapping.GRID for loop in chain)
    if not 1 <= grids <= 3:
        raise place.fail(launch.name, f"ends come first in one to three grid loops, not {grids}")
    if any(isinstance(node, Await) for node in walk_nodes(launch.body)):
        raise place.fail(launch.name, "where blocks wait for others, they start in order")


def _check_loop(loop: Loop, place: _Place) -> None:
    what = loop
    _check_index((loop.lower, loop.upper), what, place)
    if loop.step <= 0:
        raise place.fail(what, "a step is positive")
    lower, upper = constant_value(loop.lower), constant_value(loop.upper)
    if loop.mapping in (Mapping.CLUSTER, *_INNER) and (lower != 0 or upper is None or loop.step > 1):
        raise place.fail(what, "it runs from 0 to a constant by ones")
    if loop.mapping is Mapping.LANE and upper != LANES:
        raise place.fail(what, f"a warp has {LANES} lanes")
    if loop.mapping in WRITTEN_OUT and (lower is None or upper is None):
        raise place.fail(what, "its bounds are constants")
    if loop.mapping in STREAMED and (lower != 0 or upper is None or loop.step > 1):
        raise place.fail(what, "it runs from 0 to a constant by ones")


def _check_straddled(loop: Loop, place: _Place) -> None:
    buffers = {buffer.name: buffer for buffer in place.tree.buffers}
    if loop.mapping in (Mapping.STRADDLED, Mapping.SPREAD):
        is_spread = loop.mapping is Mapping.SPREAD
        if fault := spread_fault(loop) if is_spread else form_fault(loop, buffers):
            raise place.fail(loop, fault)
        if Mapping.LANE not in place.vars.values():
            raise place.fail(loop, "a warp runs it, but no lane loop is around it")
        _check_converged("warp", loop, place)
    if loop.mapping in STREAMED and (fault := arrival_fault(loop, buffers)):
        raise place.fail(loop, fault)
    if loop.mapping is Mapping.SHIFTED and (fault := _shift_fault(loop, buffers)):
        raise place.fail(loop, fault)


def _shift_fault(loop: Loop, buffers: dict[str, Buffer]) -> str:
    """Which window does not move one row with every step of the SHIFTED `loop`, wherever its body
    names it; "" if all that move do."""
    moves: dict[str, set[int]] = {}
    exprs = [expr for node in walk_nodes(loop.body) for expr in node_expressions(node)]
    for load in (part for expr in exprs for part in walk_expr(expr)):
        if isinstance(load, Load) and isinstance(buffers[load.array].home, Window):
            _, named, linear = coefficients(load.index[0])
            moves.setdefault(load.array, set()).add(named.get(loop.var, 0) if linear else -1)
    wrong = sorted(name for name, steps in moves.items() if steps not in ({0}, {1}))
    return f"the rows of {wrong[0]} do not move by one with {loop.var}" if wrong else ""


def _check_nodes(nodes: tuple[TreeNode, ...], place: _Place) -> None:
    for node in nodes:
        _check_node(node, place)


def _check_node(node: TreeNode, place: _Place) -> None:
    what = node
    match node:
        case Loop():
            if node.mapping.is_parallel:
                raise place.fail(what, "a parallel loop stands alone in the chain at the top")
            _check_loop(node, place)
            _check_straddled(node, place)
            inside = _enter(place, what, node.var, node.mapping)
            trips = constant_value(node.upper)
            if node.mapping in STREAMED and trips is not None:
                inside = replace(inside, trips={**inside.trips, node.var: trips})
            _check_nodes(node.body, _diverge(inside, node.lower, node.upper))
        case Guard():
            _check_names(node.condition, what, place, in_guard=True)
            if node.condition.dtype is not DType.BOOL:
                raise place.fail(what, "a condition is a bool")
            homes = {buffer.name: buffer.home for buffer in place.tree.buffers} if node.predicated else {}
            if node.predicated and (node.otherwise or not may_be_predicated(node.then, homes)):
                raise place.fail(what, "what is predicated computes from registers, and cannot fault")
            inside = _diverge(place, node.condition)
            _check_nodes(node.then, inside)
            _check_nodes(node.otherwise, inside)
        case Compute():
            _check_index(node.iteration, what, place)
            if node.atomic:
                _check_atomic(node, what, place)
            _check_move(node.value, node.target, what, place)
            if node.predicate is not None:
                _check_names(node.predicate, what, place)
                _check_shuffles(node.predicate, what, place)
                if node.predicate.dtype is not DType.BOOL:
                    raise place.fail(what, "a predicate is a bool")
        case Copy():
            _check_move(node.value, node.target, what, place)
            if not isinstance(node.value, Load | Const):
                raise place.fail(what, "a copy moves a load or a constant")
            if node.late:
                _check_late(node, what, place)
        case Arrive(pending=pending):
            if pending < 0:
                raise place.fail(what, "it leaves no group or more under way")
        case Prefetch(source=source):
            _check_names(source, what, place)
            if not isinstance(place.tree.buffer(source.array).home, Global):
                raise place.fail(what, "only global memory is asked for ahead")
        case Fold():
            _check_move(node.value, node.target, what, place)
            _check_op(node.op, what, place)
            if node.atomic:
                _check_atomic(node, what, place)
        case Combine() | Scan():
            _check_combine(node, what, place)
        case Running(body=body):
            if any(isinstance(each, Running) for each in walk_nodes(body)):
                raise place.fail(what, "running reductions stand in no others")
            _check_nodes(body, place)
        case Rescale(places=places):
            for load in places:
                _check_names(load, what, place)
                if not isinstance(place.tree.buffer(load.array).home, Register) or load.index:
                    raise place.fail(what, "it names single registers")
        case Barrier(scope=scope):
            if scope not in ("warp", "block", "cluster"):
                raise place.fail(what, "its scope is warp, block or cluster")
            _check_converged(scope, what, place)
        case Raise() | Await() | Ticket():
            _check_flag(node, what, place)


def _check_atomic(node: Compute | Fold, what: What, place: _Place) -> None:
    if place.tree.device != "gpu":
        raise place.fail(what, "only threads of a GPU update atomically")
    target = node.target
    if isinstance(node, Fold):
        op, rest = node.op, (node.value, *target.index)
    else:
        op, value = atomic_update(node)
        rest = (value, *target.index, *([] if node.predicate is None else [node.predicate]))
    if op not in ATOMIC_OPERATIONS or target.dtype not in ATOMIC_TYPES:
        raise place.fail(what, f"{op or 'this'} of {target.dtype.value} is no atomic update")
    if not isinstance(place.tree.buffer(target.array).home, Global | Shared):
        raise place.fail(what, "what is updated atomically lies in memory")
    if any(isinstance(part, Load) and part.array == target.array for expr in rest for part in walk_expr(expr)):
        raise place.fail(what, "an atomic update reads its own place alone")


def _check_strides(buffer: Buffer, place: _Place) -> None:
    """Strides of shared memory: of the dimensions in some order, without gaps."""
    strides = [constant_value(each) for each in buffer.strides or ()]
    extents = [constant_value(each) for each in buffer.extents]
    if not isinstance(buffer.home, Shared) or buffer.home.rows or len(strides) != len(extents):
        raise place.fail(buffer.name, "arguments and buffers in shared memory have strides, one a dimension")
    step = 1
    for stride, extent in sorted(zip((each or 0 for each in strides), (each or 0 for each in extents), strict=True)):
        if stride != step and extent != 1:
            raise place.fail(buffer.name, "its strides are no order of its dimensions")
        step *= extent


def _check_late(node: Copy, what: What, place: _Place) -> None:
    source = node.value
    ends = isinstance(place.tree.buffer(node.target.array).home, Shared) and (
        isinstance(source, Load)
        and isinstance(place.tree.buffer(source.array).home, Global)
    )
    if not ends or place.tree.device != "gpu":
        raise place.fail(what, "only from global to shared memory does a copy come late")
    if node.target.dtype.bytes not in LATE_BYTES or node.target.dtype != source.dtype:
        raise place.fail(what, "elements of 4 or 8 bytes come late")


def _diverge(place: _Place, *conditions: Expr) -> _Place:
    """Inside a node that the values of `conditions` decide on."""
    names = {n.name for e in conditions for n in walk_expr(e) if isinstance(n, Iter)}
    if any(isinstance(n, Load) for e in conditions for n in walk_expr(e)):
        # What a thread loaded is its own.
        names |= {var for var, mapping in place.vars.items() if mapping in (Mapping.CLUSTER, *_INNER)}
    return replace(place, divergent=place.divergent | names)


def _check_converged(scope: str, what: What, place: _Place) -> None:
    """Do all threads of `scope` reach this node together?"""
    mappings = {var: mapping for var, mapping in place.vars.items() if mapping is not None}
    has_lanes = Mapping.LANE in mappings.values()
    within = {
        "warp": (Mapping.LANE,) if has_lanes else _INNER,
        "block": _INNER,
        "cluster": (Mapping.CLUSTER, *_INNER),
    }[scope]
    varying = sorted(var for var in place.divergent if mappings.get(var) in within)
    if varying:
        raise place.fail(
            what, f"not every thread of the {scope} comes here: that depends on {', '.join(varying)}"
        )


def _check_combine(node: Combine | Scan, what: What, place: _Place) -> None:
    _check_op(node.op, what, place)
    buffer = _declared(node.buffer, what, place)
    rank = len(node.index) if isinstance(node, Scan) and node.words else 0
    if not isinstance(buffer.home, Register) or len(buffer.extents) != rank:
        raise place.fail(what, "it combines the copies of one register (a 0-d register buffer)")
    if not node.over or len(set(node.over)) != len(node.over):
        raise place.fail(what, "`over` names loops, each once")
    if isinstance(node, Combine) and any(place.vars.get(var) is Mapping.CLUSTER for var in node.over):
        _check_combine_of_cluster(node, what, place)
        return
    over = node.over
    if isinstance(node, Scan) and bool(node.words) != (place.vars.get(over[0]) is Mapping.GRID):
        raise place.fail(what, "blocks, and they alone, hand on what they have through memory")
    if isinstance(node, Scan) and node.words:
        over = over[1 + len(node.index) :]
        inside = [var for var, mapping in place.vars.items() if mapping in (Mapping.CLUSTER, *_INNER)]
        if list(over) != inside or prod(place.sizes[var] for var in over) < chains.CHAIN:
            raise place.fail(what, f"it is over all threads of a block, {chains.CHAIN} or more")
    threads = 1
    for var in over:
        if place.vars.get(var) not in _INNER:
            raise place.fail(what, f"`{var}` is not a block, warp or lane loop around it")
        threads *= place.sizes[var]
    if threads > 1024:
        raise place.fail(what, f"it combines at most 1024 threads, not {threads}")
    if isinstance(node, Scan) and threads % LANES:
        raise place.fail(what, f"it scans over whole warps, not {threads} threads")
    if isinstance(node, Combine) and node.everywhere and threads % LANES and LANES % threads:
        raise place.fail(what, f"whole warps or equal parts of one have a result everywhere, not {threads} threads")
    lanes_only = all(place.vars[var] is Mapping.LANE for var in node.over)
    _check_converged("warp" if lanes_only else "block", what, place)


def _check_combine_of_cluster(node: Combine, what: What, place: _Place) -> None:
    inside = [var for var, mapping in place.vars.items() if mapping in (Mapping.CLUSTER, *_INNER)]
    blocks = [var for var in inside if place.vars[var] is Mapping.CLUSTER]
    threads = prod(place.sizes[var] for var in node.over if place.vars.get(var) in _INNER)
    is_column = list(node.over) == inside[: len(node.over)] and len(node.over) > len(blocks) and threads == LANES
    if node.op == LINEAR:
        raise place.fail(what, "a cluster does not put linear maps together")
    if not (list(node.over) == inside or is_column) or not node.everywhere:
        raise place.fail(
            what, f"a cluster combines all its threads, over {', '.join(inside)}, or {LANES} outer ones of each block, everywhere"
        )
    if threads % LANES:
        raise place.fail(what, f"blocks of a cluster combine whole warps, not {threads} threads")
    _check_converged("cluster", what, place)


def _check_flag(node: Raise | Await | Ticket, what: What, place: _Place) -> None:
    flag = node.counter if isinstance(node, Ticket) else node.flag
    _check_access(flag, what, place)
    buffer = place.tree.buffer(flag.array)
    if not (isinstance(buffer.home, Global) and buffer.zeroed and buffer.dtype is DType.I32):
        raise place.fail(what, f"`{flag.array}` is not a zeroed global buffer of i32")
    if place.tree.device != "gpu":
        raise place.fail(what, "only blocks of a grid use flags and tickets")
    _check_index((node.count if isinstance(node, Ticket) else node.value,), what, place)
    _check_converged("block", what, place)
    if isinstance(node, Ticket):
        _check_nodes(node.body, place)


def _check_op(op: str, what: What, place: _Place) -> None:
    if op not in FOLD_OPS:
        raise place.fail(what, f"`{op}` is not one of {', '.join(FOLD_OPS)}")


def _check_move(value: Expr, target: Expr, what: What, place: _Place) -> None:
    if not isinstance(target, Load):
        raise place.fail(what, "a target is a place in a buffer")
    _check_names(value, what, place)
    _check_access(target, what, place)
    if value.dtype is not target.dtype:
        raise place.fail(what, f"a {value.dtype.value} is put into a {target.dtype.value}")
    _check_shuffles(value, what, place)
    strip = strip_of(place.tree.buffer(target.array).home)
    if strip is not None:
        lane = next((v for v, m in place.vars.items() if m is Mapping.LANE), None)
        if lane is None or not owns_lane(strip, target, lane, place.ranges):
            raise place.fail(what, "a lane writes only its own columns")


def _check_shuffles(value: Expr, what: What, place: _Place) -> None:
    """The whole warp takes part in reading another lane's columns."""
    lane = next((v for v, m in place.vars.items() if m is Mapping.LANE), "")
    for load in walk_expr(value):
        strip = strip_of(place.tree.buffer(load.array).home) if isinstance(load, Load) else None
        if not isinstance(load, Load) or strip is None:
            continue
        if not owns_lane(strip, load, lane, place.ranges):
            _check_converged("warp", what, place)


def unrolled_ranges(tree: LoopTree) -> dict[str, tuple[int, int]]:
    """First and last value of each UNROLLED or VECTOR variable, over all its loops; without names
    that are a variable of other loops too."""
    out: dict[str, tuple[int, int]] = {}
    others: set[str] = set()
    for launch in tree.launches:
        for node in walk_nodes(launch.body):
            if not isinstance(node, Loop):
                continue
            low, high = constant_value(node.lower), constant_value(node.upper)
            is_unrolled = node.mapping in WRITTEN_OUT
            if is_unrolled and low is not None and high is not None:
                old = out.get(node.var, (low, high - 1))
                out[node.var] = (min(low, old[0]), max(high - 1, old[1]))
            else:
                others.add(node.var)
    return {name: ends for name, ends in out.items() if name not in others}


def _declared(name: str, what: What, place: _Place) -> Buffer:
    try:
        return place.tree.buffer(name)
    except KeyError:
        raise place.fail(what, f"`{name}` is not a buffer of the tree") from None


def _check_names(expr: Expr, what: What, place: _Place, in_guard: bool = False) -> None:
    """Every variable is of a loop around the node, every Load of a declared buffer."""
    for node in walk_expr(expr):
        match node:
            case Iter(name=name) if name not in place.vars:
                raise place.fail(what, f"`{name}` is not the variable of a loop around it")
            case Symbol() if node == ALIGNED and not in_guard:
                raise place.fail(what, "ALIGNED is asked for by guards alone")
            case Symbol() if node == RESIDENT:
                raise place.fail(what, "RESIDENT is asked for by bounds of host loops alone, as a whole")
            case Load():
                _check_access(node, what, place)
            case _:
                pass


def _check_index(exprs: tuple[Expr, ...], what: What, place: _Place) -> None:
    for expr in exprs:
        _check_names(expr, what, place)
        if not expr.dtype.is_integer:
            raise place.fail(what, f"`{print_expr(expr)}` is not an integer")


def _check_access(load: Load, what: What, place: _Place) -> None:
    buffer = _declared(load.array, what, place)
    if load.mode or load.swapped is not None:
        raise place.fail(what, f"`{load.array}` has an edge mode or a swap left")
    if len(load.index) != len(buffer.extents):
        raise place.fail(
            what, f"`{load.array}` has {len(buffer.extents)} dimensions, not {len(load.index)}"
        )
    if load.dtype is not buffer.dtype:
        raise place.fail(what, f"`{load.array}` holds {buffer.dtype.value}, not {load.dtype.value}")
    for part in load.index:
        _check_names(part, what, place)
    home = buffer.home
    mappings = place.vars.values()
    if isinstance(home, Register | Window) and strip_of(home) is None:
        modulus = home.rows if isinstance(home, Window) else 0
        for position, part in enumerate(load.index):
            if not _is_constant(part, modulus if position == 0 else 0, place):
                raise place.fail(
                    what, f"register index `{print_expr(part)}` is not constant once unrolled"
                )
    if strip_of(home) is not None and Mapping.LANE not in mappings:
        raise place.fail(what, f"`{load.array}` lives in lanes, but no lane loop is around it")
    if isinstance(home, DistributedShared) and Mapping.CLUSTER not in mappings:
        raise place.fail(what, f"`{load.array}` lives in a cluster, but no cluster is around it")


def _is_constant(index: Expr, modulus: int, place: _Place) -> bool:
    """Is `index` (modulo `modulus`, if that is not 0) a constant once UNROLLED and VECTOR loops
    are written out, and STREAMED ones often enough?"""
    _, named, linear = coefficients(index)
    if linear:
        return all(
            place.vars.get(name) in WRITTEN_OUT
            or (modulus and coefficient % modulus == 0)
            or (modulus and place.trips.get(name, 1) % modulus == 0)
            for name, coefficient in named.items()
        )
    atoms = [node for node in walk_expr(index) if isinstance(node, Iter | Symbol | Load)]
    return all(isinstance(a, Iter) and place.vars.get(a.name) in WRITTEN_OUT for a in atoms)
