"""Tree nodes inside a launch, as `scf` around loads, arithmetic and stores."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from math import gcd, lcm
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import accessed_buffers, broken, walk_nodes
from loopfuse.codegen.build import INDEX, STORAGE
from loopfuse.codegen.ir import Type, Value
from loopfuse.codegen.mlir import division as mlir_division
from loopfuse.codegen.mlir.apart import Scopes, constant_trips, nowhere, scopes_in
from loopfuse.codegen.mlir.emit import Emitter, Storage
from loopfuse.codegen.mlir.ends import by_length, loads_memory
from loopfuse.codegen.mlir.expr import (
    checked_access,
    each_lane,
    emit_binary,
    emit_value,
    is_eager,
    store,
    together,
    varies,
)
from loopfuse.codegen.mlir.gpu import (
    await_start,
    emit_atomic,
    emit_await,
    emit_barrier,
    emit_combine,
    emit_raise,
    emit_ticket,
)
from loopfuse.codegen.mlir.index import (
    UNBOUNDED,
    bound,
    divisor,
    known_divisors,
    known_odd,
    linear,
)
from loopfuse.codegen.mlir.late import emit_arrive, emit_late, spread_over_lanes
from loopfuse.codegen.mlir.nontemporal import along_lines, emit_past_caches
from loopfuse.codegen.mlir.scalar import value_type
from loopfuse.codegen.mlir.scans import emit_grid_scan, emit_scan
from loopfuse.codegen.mlir.straddled import arrivals_in, emit_straddled
from loopfuse.codegen.mlir.together import emit_together, note_block, note_write, one_of_few
from loopfuse.lang import nodes
from loopfuse.lang.index import is_checked
from loopfuse.lang.ops import APPROXIMATE
from loopfuse.lang.walk import conjuncts, has_checks, is_alike, iterators, loads, walk_expr
from loopfuse.tree.looptree import (
    ALIGNED,
    LINEAR,
    Arrive,
    Await,
    Barrier,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    Loop,
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
)

FOLDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "and": "and", "or": "or", LINEAR: LINEAR}
"""What folds are called in this room; of linear maps there are only those of threads together (`tree.rewrite.maps`)."""


def emit_body(emitter: Emitter, body: tuple[TreeNode, ...], scopes: Scopes | None = None) -> None:
    """The nodes of `body`, in order; `scopes`: of accesses, in the body of an innermost loop."""
    if scopes is not None and scopes.declared:
        emitter.scope_of = scopes.find
        emit_body(emitter, body)
        emitter.scope_of = nowhere
        return
    early = _found_early(emitter, body)
    for load in early:
        emitter.forget_loads()
        emitter.early[load] = emit_value(emitter, load)
    for node in body if emitter.gpu else in_one_store(body):
        emitter.forget_loads()
        emit_node(emitter, node)
    emitter.forget_loads()
    for load in early:
        del emitter.early[load]


def in_one_store(body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
    """before: x = a where c; x = b where not c        after: x = a if c else b

    Loads are in bounds whatever data says (`poly.bounds`), so that both may be computed."""
    out: list[TreeNode] = []
    for node in body:
        before = out[-1] if out else None
        if isinstance(before, Compute) and isinstance(node, Compute) and (both := _either(before, node)) is not None:
            out[-1] = both
        else:
            out.append(node)
    return tuple(out)


def _either(one: Compute, other: Compute) -> Compute | None:
    """Two statements of which one runs, as one; None where they are no such statements."""
    asked, denied = one.predicate, other.predicate
    if asked is None or denied is None or one.target != other.target:
        return None
    if not is_alike(denied, nodes.Unary("not", asked, DType.BOOL)):
        return None
    target, parts = one.target, (asked, one.value, other.value)
    if one.atomic or other.atomic or target.array in {load.array for load in loads(asked)}:
        return None
    if has_checks(*parts, target):
        return None
    value = nodes.Select(asked, one.value, other.value, target.dtype, eager=True, span=one.value.span)
    return replace(one, value=value, predicate=None)


def _found_early(emitter: Emitter, body: tuple[TreeNode, ...]) -> list[nodes.Load]:
    """Elements where data says (`x[r, label[r]]`) that are needed after threads have waited for each other: no compiler
    behind moves them there, and each is two accesses, one after the other. Nothing writes them, and they are needed in any case."""
    if not emitter.gpu or not any(isinstance(node, Combine) for node in body):
        return []
    first = next(number for number, node in enumerate(body) if isinstance(node, Combine))
    found: list[nodes.Load] = []
    for node in body[first:]:
        if not isinstance(node, Compute) or node.predicate is not None:
            continue
        parts = list(walk_expr(node.value))
        if any(isinstance(part, nodes.Select) for part in parts):
            continue
        for part in parts:
            if isinstance(part, nodes.Load) and part not in emitter.early and part not in found:
                where = [each for index in part.index for each in loads(index)]
                if where and emitter.fixed.issuperset(each.array for each in (part, *where)):
                    found.append(part)
    return found


def emit_node(emitter: Emitter, node: TreeNode) -> None:
    """One node."""
    emitter.locate((node,))
    if emitter.is_starting:
        await_start(emitter, node)
    emitter.loops += isinstance(node, Loop)
    match node:
        case Scan(words=words) | Loop(body=(Scan(words=words),)) if words:
            scan = node.body[0] if isinstance(node, Loop) else node
            assert isinstance(scan, Scan)
            emit_grid_scan(emitter, FOLDS[scan.op], scan.buffer, words)
        case Loop(mapping=Mapping.SERIAL):
            emit_serial(emitter, node)
        case Loop(mapping=Mapping.ROTATED):
            emit_rotated(emitter, node)
        case Loop(mapping=Mapping.SHIFTED):
            emit_shifted(emitter, node)
        case Loop(mapping=Mapping.UNROLLED):
            by_lengths = by_length(emitter, node)
            if by_lengths is None:
                emit_unrolled(emitter, node)
            else:
                emit_node(emitter, by_lengths)
        case Loop(mapping=Mapping.VECTOR):
            emit_vector(emitter, node)
        case Loop(mapping=Mapping.STRADDLED):
            if not emit_straddled(emitter, node):
                emit_unrolled(emitter, node)
        case Loop(mapping=Mapping.SPREAD):
            emit_unrolled(emitter, spread_over_lanes(emitter, node))
        case Loop(var=var, mapping=mapping):
            raise broken(f"the {mapping.value} loop {var} is not in the head chain")
        case Guard():
            emit_guard(emitter, node)
        case Compute(atomic=True):
            emit_atomic_compute(emitter, node)
        case Compute(target=target, value=value, predicate=predicate):
            emit_compute(emitter, target, value, predicate)
        case Copy(late=True):
            emit_late(emitter, node)
        case Arrive():
            emit_arrive(emitter, node)
        case Copy(target=target, value=value):
            emit_compute(emitter, target, value, None)
        case Prefetch(source=source):
            emit_prefetch(emitter, source)
        case Fold(op=op, target=target, value=value, atomic=True):
            emit_atomic(emitter, FOLDS[op], target, emit_value(emitter, value))
        case Fold(op=op, target=target, value=value):
            a, b = together(emitter, emit_value(emitter, target), emit_value(emitter, value))
            store(emitter, target, emit_binary(emitter, FOLDS[op], a, b, target.dtype))
        case Combine(op=op, buffer=buffer, over=over, everywhere=everywhere):
            emit_combine(emitter, FOLDS[op], buffer, over, everywhere)
        case Scan(op=op, buffer=buffer, over=over):
            emit_scan(emitter, FOLDS[op], buffer, over)
        case Barrier(scope=scope):
            emit_barrier(emitter, scope)
        case Raise(flag=flag, value=value):
            emit_raise(emitter, flag, value)
        case Await(flag=flag, value=value):
            emit_await(emitter, flag, value)
        case Ticket(counter=counter, count=count, body=body):
            emit_ticket(emitter, counter, count, lambda: emit_body(emitter, body))
        case Running() | Rescale():
            raise AssertionError("running reductions are numbers here")
        case _:
            assert_never(node)
    note_write(emitter, node)
    emitter.loops -= isinstance(node, Loop)


def emit_compute(
    emitter: Emitter, target: nodes.Load, value: nodes.Expr, predicate: nodes.Expr | None
) -> None:
    """`target = value`, where `predicate` holds if there is one."""
    if predicate is None or predicate == nodes.Const(True, DType.BOOL):
        store(emitter, target, emit_value(emitter, value))
        return
    kept = nodes.Select(predicate, value, target, target.dtype, eager=True, span=value.span)
    if isinstance(emitter.storage[target.array].buffer.home, Register) and is_eager(emitter, kept):
        store(emitter, target, emit_value(emitter, kept))
        return
    if varies(emitter, predicate):
        each_lane(emitter, lambda: emit_compute(emitter, target, value, predicate))
        return

    def write() -> None:
        with emitter.scope():
            store(emitter, target, emit_value(emitter, value))

    emitter.builder.branch(emit_value(emitter, predicate), write)


def emit_atomic_compute(emitter: Emitter, node: Compute) -> None:
    """An update in one step, where the predicate holds and the place is inside."""
    update = node.value
    assert isinstance(update, nodes.Binary) and isinstance(update.left, nodes.Load)
    before, added = update.left, update.right

    def inside() -> None:
        with emitter.scope():
            value = emit_value(emitter, added)
            if not any(is_checked(each) for each in before.index):
                emit_atomic(emitter, update.op, before, value)
                return
            # Asked as its reading would be: it comes first.
            fits, plain, note = checked_access(emitter, before, writes=False)
            emitter.builder.branch(fits, lambda: emit_atomic(emitter, update.op, plain, value), note)

    if node.predicate is None or node.predicate == nodes.Const(True, DType.BOOL):
        inside()
    else:
        emitter.builder.branch(emit_value(emitter, node.predicate), inside)


def emit_prefetch(emitter: Emitter, source: nodes.Load) -> None:
    """`memref.prefetch`, once for all SIMD lanes."""
    storage, place = emitter.place(source.array, source.index)
    emitter.builder.prefetch(storage.memref, emitter.index(place))


def emit_guard(emitter: Emitter, node: Guard) -> None:
    """`scf.if`; what the condition says of alignment and divisors holds in `then`."""
    if node.predicated and _keeps_lanes(emitter, node):
        emit_predicated(emitter, node, emit_value(emitter, node.condition))
        return
    if varies(emitter, node.condition):
        each_lane(emitter, lambda: emit_guard(emitter, node))
        return
    condition = emit_value(emitter, node.condition)
    if node.predicated:
        emit_predicated(emitter, node, condition)
        return

    starting, before = emitter.is_starting, emitter.builder.block

    def then() -> None:
        note_block(emitter, before, node.condition, True)
        aligned, divisors = emitter.aligned, dict(emitter.facts.divisors)
        odd = emitter.facts.odd
        emitter.facts.odd |= known_odd(node.condition)
        emitter.aligned |= ALIGNED in conjuncts(node.condition)
        emitter.facts.divisors.update(known_divisors(node.condition, emitter.facts))
        with emitter.scope():
            emit_body(emitter, node.then)
        emitter.aligned, emitter.facts.divisors, emitter.facts.odd = aligned, divisors, odd

    def otherwise() -> None:
        note_block(emitter, before, node.condition, False)
        emitter.is_starting = starting
        with emitter.scope():
            emit_body(emitter, node.otherwise)

    emitter.builder.branch(condition, then, otherwise if node.otherwise else None)


def _keeps_lanes(emitter: Emitter, node: Guard) -> bool:
    """Does each lane of a vector keep what its register holds, or take what is computed?"""
    homes = (emitter.storage[each.target.array].buffer.home for each in node.then if isinstance(each, Compute | Copy))
    return varies(emitter, node.condition) and all(isinstance(home, Register) for home in homes)


def emit_predicated(emitter: Emitter, node: Guard, condition: Value) -> None:
    """before: if c: s = s + f(x); y[i] = g(x)     after: s = c ? s + f(x) : s; v = g(x); if c: y[i] = v"""
    for each in node.then:
        emitter.forget_loads()
        emitter.locate((each,))
        assert isinstance(each, Compute | Copy)
        value = emit_value(emitter, each.value)
        note_write(emitter, each)
        if isinstance(emitter.storage[each.target.array].buffer.home, Register):
            taken, before = condition, emit_value(emitter, each.target)
            if varies(emitter, node.condition):
                taken, value, before = together(emitter, condition, value, before)
            store(emitter, each.target, emitter.builder.select(taken, value, before))
            continue

        def write(target: nodes.Load = each.target, value: Value = value) -> None:
            with emitter.scope():
                store(emitter, target, value)

        emitter.builder.branch(condition, write)


def note_variable(emitter: Emitter, loop: Loop) -> None:
    """Records the range and the divisor of a loop's variable."""
    facts = emitter.facts
    lower, upper = linear(loop.lower, facts), linear(loop.upper, facts)
    largest = max(bound(lower, facts), bound(upper, facts))
    facts.bounds[loop.var] = largest if largest < 4 * facts.small else UNBOUNDED
    facts.divisors[loop.var] = gcd(divisor(lower, facts), loop.step)
    facts.ranges.pop(loop.var, None)  # an inner loop's comes last
    facts.ranges[loop.var] = lower, upper


def emit_rotated(emitter: Emitter, loop: Loop) -> None:
    """`scf.for` over as many copies of the body as bring every window's rows back to their places."""
    copies = 1
    for name in sorted(windows_along(loop.body, loop.var)):
        home = emitter.storage[name].buffer.home
        rotates = isinstance(home, Window | Shared)
        copies = lcm(copies, modulus_of(home) or 1 if rotates else 1)
    trips = constant_range(emitter, loop)
    if loop.step != 1 or trips.start or trips.stop % copies:
        raise broken(f"the windows along {loop.var} do not come round after {trips.stop} steps")

    def body() -> None:
        for ahead in range(copies):
            emitter.facts.offsets[loop.var] = ahead
            emit_body(emitter, loop.body)
        del emitter.facts.offsets[loop.var]

    emit_serial(emitter, replace(loop, step=copies, body=()), body)


def emit_shifted(emitter: Emitter, loop: Loop) -> None:
    """`scf.for` over one copy of the body, in which every window along the loop has the row of the
    loop's first step in its first place; behind it each row moves to the place before. Planes in shared
    memory stay where they are."""
    rings = [emitter.storage[name].buffer for name in sorted(windows_along(loop.body, loop.var))]
    windows = {ring.name: ring.home.rows for ring in rings if isinstance(ring.home, Window)}
    trips = constant_range(emitter, loop)
    if loop.step != 1 or trips.start or trips.stop % lcm(*windows.values()):
        raise broken(f"the windows along {loop.var} do not come round after {trips.stop} steps")

    def body() -> None:
        emitter.facts.shifted.add(loop.var)
        emit_body(emitter, loop.body)
        emitter.facts.shifted.remove(loop.var)
        for name, rows in windows.items():
            if rows > 1:
                shift(emitter, emitter.storage[name].memref, rows)
        for arrivals in arrivals_in(emitter, loop.body):
            shift(emitter, arrivals.memref, arrivals.rows)
            if arrivals.behind is not None:
                shift(emitter, arrivals.behind, arrivals.rows)

    emit_serial(emitter, replace(loop, body=()), body)


def shift(emitter: Emitter, memref: Value, rows: int) -> None:
    """Every row of registers to the place before, the first to the last."""
    builder = emitter.builder
    each = memref.type.size // rows  # pyright: ignore
    places = [builder.constant(number, INDEX) for number in range(each * rows)]
    values = [builder.load(memref, place) for place in places]
    for place, value in zip(places, (*values[each:], *values[:each]), strict=True):
        builder.store(value, memref, place)


def windows_along(body: tuple[TreeNode, ...], var: str) -> set[str]:
    """The buffers whose first subscript moves with `var`."""
    found: set[str] = set()
    for node in walk_nodes(body):
        match node:
            case (
                Compute(target=target, value=value)
                | Copy(target=target, value=value)
                | Fold(target=target, value=value)
            ):
                touched = (target, *loads(value))
                found |= {o.array for o in touched if o.index and var in iterators(o.index[0])}
            case _:
                pass
    return found


def emit_serial(emitter: Emitter, loop: Loop, inside: Callable[[], None] | None = None) -> None:
    """`scf.for` around the loop's body, or `inside` instead."""
    lower, upper = linear(loop.lower, emitter.facts), linear(loop.upper, emitter.facts)
    kind, safe = emitter.width(lower, upper)
    builder = emitter.builder
    note_variable(emitter, loop)
    start, end = emitter.form(lower, kind, safe), emitter.form(upper, kind, safe)

    def enter(iterator: Value) -> None:
        emitter.variables[loop.var] = iterator

    if inside is None and not emitter.gpu:
        emit_counted(emitter, loop, loop.body, (start, end), enter, loop.step)
    else:

        def body(iterator: Value) -> None:
            enter(iterator)
            emitter.turns += 1
            with emitter.scope():
                if inside is None:
                    emit_body(emitter, loop.body)
                else:
                    inside()
            emitter.turns -= 1

        builder.loop(start, end, builder.constant(loop.step, kind), body)
    del emitter.variables[loop.var]


def emit_counted(
    emitter: Emitter,
    loop: Loop,
    body: tuple[TreeNode, ...],
    bounds: tuple[Value, Value],
    enter: Callable[[Value], None],
    step: int = 1,
) -> None:
    """A loop of a CPU around `body`, from the first of `bounds` to before the second by steps; `enter` sets its variable.
    If it is an innermost one, LLVM is told what never meets in it, and what it stores may go past the caches."""
    builder, scopes = emitter.builder, scopes_in(emitter, body, loop.var)

    def run(start: Value, end: Value, number: Callable[[Value], Value], is_past: bool) -> None:
        inside = scopes_in(emitter, body, loop.var) if is_past else scopes

        def iteration(iterator: Value) -> None:
            with emitter.scope():
                enter(number(iterator))
                emit_body(emitter, body, inside)

        builder.loop(start, end, builder.constant(step, start.type), iteration, inside.declared, is_past)

    with read_before(emitter, scopes, *bounds):
        targets = along_lines(emitter, loop, body)
        if targets:
            emit_past_caches(emitter, targets, bounds, enter, run)
        else:
            run(*bounds, lambda iterator: iterator, False)


@contextmanager
def read_before(emitter: Emitter, scopes: Scopes, start: Value, end: Value) -> Generator[None, None, None]:
    """before: for i: x = f(c[k]); if p(i): y[i] = x        after: v = c[k]; for i: x = f(v); if p(i): y[i] = x

    LLVM makes x, and reads c[k], where p holds alone; of that it makes gathers."""
    for load in scopes.fixed:
        kind = value_type(load.dtype)

        def read(load: nodes.Load = load) -> Value:
            with emitter.scope():
                return emit_value(emitter, load)

        def nothing(load: nodes.Load = load, kind: Type = kind) -> Value:
            return emitter.builder.constant(0.0 if load.dtype.is_float else 0, kind)

        found = emitter.builder.branch(emitter.builder.compare("slt", start, end), read, nothing, kind)
        assert found is not None
        emitter.early[load] = found
    yield
    for load in scopes.fixed:
        del emitter.early[load]


def constant_range(emitter: Emitter, loop: Loop) -> range:
    """The values of an UNROLLED or VECTOR loop's variable."""
    found = constant_trips(emitter, loop)
    if found is None:
        raise broken(f"the {loop.mapping.value} loop {loop.var} has bounds that are not constant")
    return found


def emit_unrolled(emitter: Emitter, loop: Loop) -> None:
    """The body written out once an iteration; of a guard around it, what holds for the whole warp
    in every iteration or in none is one branch around them all."""
    for guard in loop.body:
        if emitter.lane and len(loop.body) == 1 and isinstance(guard, Guard):
            tests = conjuncts(guard.condition)
            # Branches cost more registers than selects, but a load that only some lanes need is better
            # left out where none does.
            reads = loads_memory(emitter, guard.otherwise if emitter.divides else (guard,))
            shared = tuple(test for test in tests if _is_uniform(test, {loop.var, emitter.lane}))
            if shared and len(shared) < len(tests) and reads:
                _emit_unswitched(emitter, loop, guard, shared)
                return
    loop = one_of_few(loop) if emitter.gpu else loop
    times = constant_range(emitter, loop)

    def run() -> None:
        mlir_division.emit_unrolled(emitter, loop, times, lambda body: emit_body(emitter, body))

    emit_together(emitter, loop, times, lambda expr: emit_value(emitter, expr), run)


def _is_uniform(test: nodes.Expr, varying: set[str]) -> bool:
    return not iterators(test) & varying and not any(True for _ in loads(test)) and test != ALIGNED


def divides(body: tuple[TreeNode, ...]) -> bool:
    """Does the body divide, or call a function? Their rare cases are calls, around which ptxas saves
    the more registers the more branches there are. (Approximations have none.)"""
    return any(
        (isinstance(part, nodes.Call) and part.function not in APPROXIMATE) or (isinstance(part, nodes.Binary) and part.op == "div")
        for node in walk_nodes(body)
        if isinstance(node, Compute)
        for part in walk_expr(node.value)
    )


def _emit_unswitched(
    emitter: Emitter, loop: Loop, guard: Guard, shared: tuple[nodes.Expr, ...]
) -> None:
    """before: for v: if shared & own: A else B     after: if shared: for v: if own: A else B
    else: for v: B"""
    own = tuple(test for test in conjuncts(guard.condition) if test not in shared)
    then = replace(loop, body=(replace(guard, condition=_both(own)),))
    otherwise = (replace(loop, body=guard.otherwise),) if guard.otherwise else ()
    emit_guard(emitter, Guard(_both(shared), (then,), otherwise))


def _both(tests: tuple[nodes.Expr, ...]) -> nodes.Expr:
    return reduce(lambda a, b: nodes.Binary("and", a, b, DType.BOOL), tests)


def emit_vector(emitter: Emitter, loop: Loop) -> None:
    """All iterations at once, a lane each.

    Register buffers that the body writes at places which do not depend on the variable are private
    to an iteration: they get a trailing dimension of one element a lane, and afterwards the last
    lane's value goes back, as if the iterations had run in order.
    """
    values = constant_range(emitter, loop)
    lanes = len(values)
    if values != range(lanes) or lanes not in (2, 4, 8, 16, 32) or emitter.vector:
        emit_unrolled(emitter, loop)
        return
    counts, written = accessed_buffers(loop.body)
    widened: dict[str, Storage] = {}
    for name in sorted(written):
        storage = emitter.storage[name]
        if isinstance(storage.buffer.home, Global | Shared) or _varying_target(loop, name):
            continue
        widened[name] = storage
        size = storage.memref.type.size  # pyright: ignore
        memref = emitter.builder.alloca(STORAGE[storage.buffer.dtype], size * lanes)
        emitter.storage[name] = Storage(storage.buffer, memref, True, loop.var, lanes)
    emitter.vector, emitter.lanes = loop.var, lanes
    emit_body(emitter, loop.body)
    emitter.vector, emitter.lanes = "", 0
    for name, storage in widened.items():
        wide = emitter.storage[name].memref
        emitter.storage[name] = storage
        if emitter.counts.get(name, 0) == counts[name]:
            continue
        for number in range(storage.memref.type.size):  # pyright: ignore
            last = emitter.builder.constant(number * lanes + lanes - 1, INDEX)
            place = emitter.builder.constant(number, INDEX)
            emitter.builder.store(emitter.builder.load(wide, last), storage.memref, place)


def _varying_target(loop: Loop, name: str) -> bool:
    """Whether every write to `name` in `loop` is at a place of its own for each iteration."""
    for node in walk_nodes(loop.body):
        match node:
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                if target.array == name and not any(loop.var in iterators(each) for each in target.index):
                    return False
            case _:
                pass
    return True
