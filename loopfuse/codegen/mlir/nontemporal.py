"""Innermost loops that store past the caches (CPU).

before:  for i in a..b: y[i] = f(i)
after:   [m, n): the whole lines of memory in y[a..b]
         for (low, high, count) in ((a, m, n - m), (n, b, 0)) where y goes past the caches, else ((a, b, 0)):
           for i in low..high: y[i] = f(i)
           if count > 0: for t in 0..count: y'[t] = f(m + t)        y': y[m..n], nontemporal

In the order of before, and with one plain loop, whether it runs to the end, to the first line, or behind the last. (Of lines
that are stored in part so and in part so, each part goes to memory alone: a row of 1000 bytes then takes three times as long.)
Of the other loop, two vectors at a time (a line of most types; more only makes the code longer), `llvm.nontemporal` makes stores past the
caches. Of several arrays those are stored so whose lines begin together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LINE
from loopfuse.codegen.abi import walk_nodes
from loopfuse.codegen.build import I64, INDEX
from loopfuse.codegen.ir import Value
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.expr import emit_value
from loopfuse.codegen.mlir.index import linear, mentions
from loopfuse.lang import nodes
from loopfuse.lang.index import is_checked
from loopfuse.lang.linear import most_between
from loopfuse.lang.walk import loads, walk_expr
from loopfuse.tree.looptree import WRITTEN_OUT, Compute, Copy, Fold, Loop, Register, TreeNode

SHORTEST = 1024
"""Bytes of a row that is stored so, at least: of shorter ones the ends are too much."""
TURN = 256
"""Bytes that a turn of LLVM's vectors stores, at most: so nothing is left over of them."""
NEVER = 1 << 40
"""More elements than a row has. (What pays is one comparison, of numbers, which differ from row to row: LLVM would write all
loops around once for each answer of a condition that does not.)"""
MOST = 150
"""Operations of an iteration: where it computes more than memory brings, nothing is gained."""


def along_lines(emitter: Emitter, loop: Loop, body: tuple[TreeNode, ...]) -> tuple[nodes.Load, ...]:
    """What a loop around `body` may store past the caches: one element of an array in each iteration, neighbours one after the other."""
    if not emitter.nontemporal or emitter.vector or loop.step != 1:
        return ()
    var = loop.var
    writes: list[nodes.Load] = []
    reads: list[nodes.Load] = []
    operations = 0
    for node in walk_nodes(body):
        if isinstance(node, Loop) and node.mapping not in WRITTEN_OUT:
            return ()
        if isinstance(node, Compute | Copy | Fold):
            writes.append(node.target)
            reads += loads(node.value)
            operations += sum(1 for _ in walk_expr(node.value))
    if operations > MOST or any(_is_odd(emitter, load, var) for load in reads):
        return ()
    arrays = [each.array for each in writes]
    found = [
        node.target
        for node in body
        if isinstance(node, Compute | Copy) and arrays.count(node.target.array) == 1 and _is_plain(node)
        if node.target.array in emitter.nontemporal and _goes_along(emitter, node.target, var)
    ]
    if not found:
        return ()
    most, size = most_between(loop.lower, loop.upper), found[-1].dtype.bytes
    if most is not None and most * size < SHORTEST:
        return ()
    found = [each for each in found if each.dtype.bytes == size]
    if any(_lags(emitter, load, found[-1], var) for load in reads):
        del found[:-1]
    return tuple(found)


def _is_plain(node: Compute | Copy) -> bool:
    if isinstance(node, Copy):
        return not node.late
    return not node.atomic and node.predicate in (None, nodes.Const(True, DType.BOOL))


def _goes_along(emitter: Emitter, target: nodes.Load, var: str) -> bool:
    if any(is_checked(part) or any(True for _ in loads(part)) for part in target.index):
        return False
    _, place = emitter.place(target.array, target.index)
    return place.coefficient(var) == 1 and not mentions(place.without(var), var)


Run = Callable[[Value, Value, Callable[[Value], Value], bool], None]
"""Makes a loop from one value to before the other, whose iterations' numbers in the whole loop the function tells; does it
store past the caches?"""


def emit_past_caches(
    emitter: Emitter,
    targets: tuple[nodes.Load, ...],
    bounds: tuple[Value, Value],
    enter: Callable[[Value], None],
    run: Run,
) -> None:
    """The loop from the first of `bounds` to before the second. `enter`: sets its variable from the number of an iteration."""
    builder, (start, end) = emitter.builder, bounds
    kind, size = start.type, targets[0].dtype.bytes
    zero, one = builder.constant(0, kind), builder.constant(1, kind)
    with emitter.scope():
        enter(start)
        first, *others = (_address(emitter, target) for target in targets)
        ahead = _in_line(emitter, builder.binary("subi", builder.constant(0, I64), first))
        ahead = builder.binary("shrui", ahead, builder.constant(size.bit_length() - 1, I64))
        least = builder.constant(SHORTEST // size, I64)
        for condition in dict.fromkeys(emitter.nontemporal[target.array] for target in targets):
            least = builder.select(emit_value(emitter, condition), least, builder.constant(NEVER, I64))
        room = builder.binary("subi", emitter.fit(builder.binary("subi", end, start), I64), ahead)
        for other in others:
            apart = _in_line(emitter, builder.binary("subi", other, first))
            room = builder.binary("subi", room, builder.binary("muli", apart, builder.constant(NEVER, I64)))
    pays = builder.compare("sge", room, least)
    line = builder.binary("addi", start, emitter.fit(ahead, kind), True)
    count = builder.binary("andi", builder.binary("subi", end, line), builder.constant(-(TURN // size), kind))
    behind = builder.binary("addi", line, count, True)

    def lines() -> None:
        with emitter.scope():
            enter(line)
            length = builder.convert("index_cast", count, INDEX)
            places = [emitter.place(target.array, target.index) for target in targets]
            views = [builder.view(storage.memref, emitter.index(place), length, LINE) for storage, place in places]

        def number(iterator: Value) -> Value:
            index = builder.convert("index_cast", iterator, INDEX)
            emitter.past = {target.array: (view, index) for target, view in zip(targets, views, strict=True)}
            return builder.binary("addi", line, iterator, True)

        run(zero, count, number, True)
        emitter.past = {}

    def part(_: Value, values: Sequence[Value]) -> Sequence[Value]:
        low, high, rest = values
        run(low, high, lambda iterator: iterator, False)
        builder.branch(builder.compare("slt", zero, rest), lines)
        return behind, end, zero

    first_part = start, builder.select(pays, line, end), builder.select(pays, count, zero)
    builder.carry(zero, builder.select(pays, builder.constant(2, kind), one), one, first_part, part)


def _in_line(emitter: Emitter, address: Value) -> Value:
    return emitter.builder.binary("andi", address, emitter.builder.constant(LINE - 1, I64))


def _is_odd(emitter: Emitter, load: nodes.Load, var: str) -> bool:
    """Is it at a border, or where data says? (Loops of borders are short.)"""
    forms = [linear(part, emitter.facts) for part in load.index]
    return any(mentions(form.without(var), var) for form in forms)


def _lags(emitter: Emitter, load: nodes.Load, target: nodes.Load, var: str) -> bool:
    """Is what is loaded along the loop behind the element that is stored, in its row? Where arrays are equal it then lies at a
    place of its page where lines are on their way to memory, and waits for them; of one array's at a time none waits (of two, a sum
    of shifted rows took five times as long)."""
    if not load.index or isinstance(emitter.storage[load.array].buffer.home, Register):
        return False
    one, other = (linear(each.index[-1], emitter.facts) for each in (load, target))
    if not one.coefficient(var):
        return False
    ahead = one.plus(other, -1)
    return bool(ahead.terms) or ahead.constant < 0


def _address(emitter: Emitter, target: nodes.Load) -> Value:
    """Where an element lies, in bytes."""
    builder = emitter.builder
    storage, place = emitter.place(target.array, target.index)
    start = builder.convert("index_cast", builder.address(storage.memref), I64)
    behind = builder.convert("index_cast", emitter.index(place), I64)
    return builder.binary("addi", start, builder.binary("muli", behind, builder.constant(target.dtype.bytes, I64)))
