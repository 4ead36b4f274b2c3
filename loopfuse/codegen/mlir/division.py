"""Division by a constant on the GPU: multiplied, and only where an operand is rare done again.

    before:  unrolled for v in 0..4: S1[..]: ix[t, v] = (...) / 12.0
    after:   least = -1
             for each v: x = ...; ix[t, v] = fma(high, x, low * x); least = min(least, 2*bits(x) - 1)
             if least < limit: for each v: ix[t, v] = (...) / 12.0

`div.rn` of an f32 is some ten instructions and two branches; what is proved of the multiplication
(`constant_division`) holds but for quotients near the subnormal ones. One test for all points of an
UNROLLED loop says whether there is such an operand, and then the loop runs again as it is written.
(0 is no such operand: less 1, twice its bits are the largest number.)

Needs: what the loop does twice gives the same: it writes registers and windows only, and reads of
those what it wrote in the same iteration before. Other loops divide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import F32, F64, I32, I64, INDEX, float_bits
from loopfuse.codegen.ir import Value
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.select.constant_division import Reciprocal, reciprocal_of
from loopfuse.lang import nodes
from loopfuse.lang.walk import loads, walk_expr
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    Guard,
    Loop,
    Mapping,
    Register,
    TreeNode,
    Window,
)


@dataclass(slots=True)
class Rare:
    """What is known of the operands of one loop's divisions: by the bits of their type, the memref
    of the least of them (as above), and the limit below which one is rare."""

    least: dict[int, Value] = field(default_factory=dict[int, Value])
    limit: dict[int, int] = field(default_factory=dict[int, int])


def emit_unrolled(
    emitter: Emitter, loop: Loop, times: range, emit_body: Callable[[tuple[TreeNode, ...]], None]
) -> None:
    """The body written out once an iteration; divisions multiplied where they may be."""

    def copies() -> None:
        for value in times:
            emitter.facts.constants[loop.var] = value
            emit_body(loop.body)
        emitter.facts.constants.pop(loop.var, None)

    if not emitter.multiplies or emitter.rare is not None or emitter.vector:
        copies()
        return
    widths = _widths(emitter, loop.body)
    if not widths or not is_repeatable(emitter, loop.body):
        copies()
        return
    builder = emitter.builder
    zero = builder.constant(0, INDEX)
    rare = Rare()
    for bits in sorted(widths):
        word = I32 if bits == 32 else I64
        rare.least[bits] = builder.alloca(word, 1)
        builder.store(builder.constant(-1, word), rare.least[bits], zero)
    emitter.rare = rare
    copies()
    emitter.rare = None
    for bits, limit in sorted(rare.limit.items()):
        least = builder.load(rare.least[bits], zero)
        found = builder.compare("ult", least, builder.constant(limit, least.type))

        def again() -> None:
            with emitter.scope():
                copies()

        emitter.forget_loads()
        builder.branch(found, again)
        emitter.forget_loads()


def _widths(emitter: Emitter, body: tuple[TreeNode, ...]) -> frozenset[int]:
    """The types' bits of the divisions in `body`, which is asked for every copy of the loop."""
    found = emitter.division_widths.get(id(body))
    if found is None:
        widths = frozenset(bits_of(each.dtype) for each in divisions(body))
        # Held with the body: what took its place in memory would have its number.
        found = emitter.division_widths[id(body)] = body, widths
    return found[1]


def multiplied(emitter: Emitter, x: Value, expr: nodes.Binary) -> Value | None:
    """`x / c` as a multiplication, its operand noted; None where it has to be a division."""
    found = reciprocal(expr)
    if emitter.rare is None or found is None or x.type not in (F32, F64):
        return None
    builder, rare, bits = emitter.builder, emitter.rare, bits_of(expr.dtype)
    word = I32 if bits == 32 else I64
    place = builder.constant(0, INDEX)
    twice = builder.binary("muli", builder.convert("bitcast", x, word), builder.constant(2, word))
    moved = builder.binary("addi", twice, builder.constant(-1, word))
    least = builder.binary("minui", builder.load(rare.least[bits], place), moved)
    builder.store(least, rare.least[bits], place)
    limit = 2 * float_bits(found.least, x.type) - 1
    rare.limit[bits] = max(limit, rare.limit.get(bits, 0))
    low, high = builder.constant(found.low, x.type), builder.constant(found.high, x.type)
    return builder.fma(high, x, builder.binary("mulf", low, x))


def reciprocal(expr: nodes.Expr) -> Reciprocal | None:
    """The proved reciprocal of what `expr` divides by, if that is a constant with one."""
    match expr:
        case nodes.Binary(op="div", right=nodes.Const(value=value), dtype=DType.F32 | DType.F64):
            return reciprocal_of(float(value), bits_of(expr.dtype))
        case _:
            return None


def bits_of(dtype: DType) -> int:
    """Bits of a float type."""
    return dtype.bytes * 8


def divisions(body: tuple[TreeNode, ...]) -> Iterator[nodes.Expr]:
    """The divisions inside that may be multiplied."""
    for node in body:
        match node:
            case Compute(value=value) | Copy(value=value):
                yield from (each for each in walk_expr(value) if reciprocal(each) is not None)
            case Guard(then=then, otherwise=otherwise):
                yield from divisions((*then, *otherwise))
            case Loop(body=inner):
                yield from divisions(inner)
            case _:
                pass


def is_repeatable(emitter: Emitter, body: tuple[TreeNode, ...]) -> bool:
    """Whether running `body` twice is as good as once."""
    written: set[str] = set()
    for target in _targets(body):
        if target is None:
            return False
        home = emitter.storage[target.array].buffer.home
        if not isinstance(home, Register | Window) or emitter.storage[target.array].lane_variable:
            return False
        written.add(target.array)
    return _reads_its_own(body, frozenset(written), set())


def _targets(body: tuple[TreeNode, ...]) -> Iterator[nodes.Load | None]:
    """What the nodes write; None for a node that does more."""
    for node in body:
        match node:
            case Compute(target=target, predicate=None) | Copy(target=target):
                yield target
            case Guard(then=then, otherwise=otherwise):
                yield from _targets((*then, *otherwise))
            case Loop(mapping=Mapping.UNROLLED, body=inner):
                yield from _targets(inner)
            case _:
                yield None


def _reads_its_own(
    body: tuple[TreeNode, ...], written: frozenset[str], done: set[nodes.Load]
) -> bool:
    """Of the buffers `written`, only cells that are `done` are read: filled before, under the same
    conditions."""
    done = set(done)

    def fits(expr: nodes.Expr) -> bool:
        return all(load.array not in written or load in done for load in loads(expr))

    for node in body:
        match node:
            case Compute(target=target, value=value) | Copy(target=target, value=value):
                if not all(map(fits, (value, *target.index))):
                    return False
                done.add(target)
            case Guard(condition=condition, then=then, otherwise=otherwise):
                if not fits(condition):
                    return False
                if not all(_reads_its_own(arm, written, done) for arm in (then, otherwise)):
                    return False
            case Loop(body=inner):
                if not _reads_its_own(inner, written, done):
                    return False
            case _:
                return False
    return True
