"""What all iterations of an UNROLLED loop compute alike, done together on the GPU: divisions, exponentials; and what all lanes
of a VECTOR loop do.

    before:  unrolled for u in 0..8: y[.., u] = exp(x[u]) / s
    after:   for each u: e[u] = exp(x[u]), without the ends of its range
             if an x is rare: for each u: e[u] = exp(x[u])
             r = 1 / s
             for each u: q[u] = e[u] * r, corrected
             if an e or s is rare: for each u: q[u] = e[u] / s
             for each u: y[.., u] = q[u]

The bits are the same. One test for all iterations stands in place of one for each (`quotients`, `math.single`), and
between branches there is work for several at a time.

Divisions by different numbers have a reciprocal each.

Needs: operands that no iteration changes for another, in registers.

Exponentials that an earlier loop has made of the same registers, unchanged since, are not made again (a softmax's, which are
summed up and then divided): behind a branch no compiler sees that they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import walk_nodes
from loopfuse.codegen.build import BF16, F32, I1, I32, INDEX, Builder, lanes_of
from loopfuse.codegen.ir import Block, Operation, Value
from loopfuse.codegen.math.functions import APART
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.single import EXP_DIVIDED, EXP_NEAR, emit_exp_near
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.quotients import Divisor, constant_of, divided, divisor_of, quotients
from loopfuse.lang import nodes
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.walk import children, iterators, loads, substitute, walk_expr, with_children
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Loop,
    Mapping,
    Register,
    Scan,
    TreeNode,
    Window,
)
from loopfuse.tree.walk import map_expressions

Emit = Callable[[nodes.Expr], Value]

T = TypeVar("T")
FEWEST, MOST = 2, 16
"""Iterations of a loop that do it together."""
FEW = 2
"""Iterations of a loop that is joined with the one around it."""


@dataclass(slots=True)
class Done:
    """What is known in the loop at hand."""

    var: str = ""
    """Of the loop of which values are known."""
    values: dict[tuple[nodes.Expr, int], Value] = field(default_factory=dict[tuple[nodes.Expr, int], Value])
    """By the expression and the iteration."""
    divisors: dict[nodes.Expr, Divisor] = field(default_factory=dict[nodes.Expr, Divisor])
    """Those that nothing changes in the loops around."""
    dividends: frozenset[str] = frozenset()
    """Registers that hold exponentials alone, and are divided."""
    writes: dict[str, int] = field(default_factory=dict[str, int])
    """How often a buffer was written so far."""
    made: dict[Hashable, tuple[Block, Value]] = field(default_factory=dict[Hashable, tuple[Block, Value]])
    """Cells with exponentials, by what they are made of (`_origin`), and the block in which they were."""
    entered: dict[Block, tuple[Block, Hashable]] = field(default_factory=dict[Block, tuple[Block, Hashable]])
    """Blocks that a condition on no data leads to, from which block, and the condition."""
    tested: dict[tuple[str, int], Value | None] = field(default_factory=dict[tuple[str, int], Value | None])
    """By the place of an element of theirs: what says (below 0) whether one of its group is too small or large to be divided
    by a reciprocal; None: written at several places."""


def note_write(emitter: Emitter, node: TreeNode) -> None:
    """What was made of a buffer that the node writes is made again."""
    match node:
        case Compute(target=target) | Copy(target=target) | Fold(target=target):
            name = target.array
        case Combine(buffer=name) | Scan(buffer=name):
            pass
        case _:
            return
    writes = emitter.done.writes
    writes[name] = writes.get(name, 0) + 1


def note_block(emitter: Emitter, before: Block, condition: nodes.Expr, is_true: bool) -> None:
    """The block at hand was entered from another, where a condition holds or does not."""
    if emitter.gpu and not any(True for _ in loads(condition)) and not emitter.facts.offsets:
        constants = {name: nodes.integer(value) for name, value in emitter.facts.constants.items()}
        emitter.done.entered[emitter.builder.block] = before, (tidy(substitute(condition, constants)), is_true)


def emit_together(emitter: Emitter, loop: Loop, times: range, emit: Emit, run: Callable[[], None]) -> None:
    """`run`, which writes out the UNROLLED loop; what its iterations do together is done before."""
    known: Done = emitter.done
    if not emitter.gpu or emitter.vector or known.var or emitter.rare is not None:
        run()
        return
    if _largest_of_words(emitter, loop, times, emit):
        for node in loop.body:
            note_write(emitter, node)
        return
    outside = dict(known.divisors)
    written = _written(loop.body)
    for divisor in _divisors(emitter, loop.body, {loop.var}, written):
        if divisor not in known.divisors:
            emitter.forget_loads()
            known.divisors[divisor] = divisor_of(emitter.builder, emit(divisor))
    own = list(_own(emitter, loop.body, written))
    if own and FEWEST <= len(times) <= MOST:
        emitter.forget_loads()
        known.var = loop.var
        for expr in dict.fromkeys(reversed(own)):  # what stands inside others first
            origins = _at_each(emitter, loop, times, lambda expr=expr: _origin(emitter, expr))
            results = _made_before(emitter, origins)
            if results is None:
                parts = _operands(known, expr)
                operands = _at_each(emitter, loop, times, lambda parts=parts: tuple(map(emit, parts)))
                targets = _targets(emitter, loop, times, expr) if expr in exponentials(loop.body) else []
                results = _all(emitter, known, expr, operands, targets, times)
                _keep(emitter, origins, results)
            known.values |= {(expr, value): result for value, result in zip(times, results, strict=True)}
    run()
    known.var, known.values, known.divisors = "", {}, outside


def one_of_few(loop: Loop) -> Loop:
    """before: unrolled for u in 0..4: unrolled for v in 0..2: S     after: unrolled for w in 0..8: S, with w // 2 and w % 2

    So that what too few iterations of the inner loop do together all do together."""
    match loop.body:
        case (Loop(mapping=Mapping.UNROLLED) as inner,):
            pass
        case _:
            return loop
    ends = [constant_value(bound) for one in (loop, inner) for bound in (one.lower, one.upper)]
    many, few = ends[1], ends[3]
    if ends[0] != 0 or ends[2] != 0 or many is None or few is None or loop.step != 1 or inner.step != 1:
        return loop
    if few != FEW or not FEWEST <= many * few <= MOST or _written(inner.body) is None:
        return loop
    own = nodes.Iter(loop.var)
    values = {loop.var: own // few, inner.var: own % few}
    body = map_expressions(inner.body, lambda expr: substitute(expr, values))
    return Loop(loop.var, loop.lower, nodes.integer(many * few), 1, Mapping.UNROLLED, body)


def value_of(emitter: Emitter, expr: nodes.Expr) -> Value | None:
    """The value of an expression in the iteration at hand, if it is known."""
    known: Done = emitter.done
    return known.values.get((expr, emitter.facts.constants[known.var])) if known.var else None


def _at_each(emitter: Emitter, loop: Loop, times: range, make: Callable[[], T]) -> list[T]:
    """What `make` makes in each iteration."""
    out: list[T] = []
    for value in times:
        emitter.facts.constants[loop.var] = value
        out.append(make())
    emitter.facts.constants.pop(loop.var, None)
    return out


def _origin(emitter: Emitter, expr: nodes.Expr) -> Hashable:
    """What an exponential is made of in the iteration at hand: numbers, and registers as they were last written; None of
    anything else."""
    match expr:
        case nodes.Load(array=name, index=index):
            storage, place = emitter.place(name, index)
            is_known = isinstance(storage.buffer.home, Register) and not storage.lane_variable and not place.terms
            return (name, place.constant, emitter.done.writes.get(name, 0)) if is_known else None
        case nodes.Const():
            return expr
        case nodes.Binary() | nodes.Unary() | nodes.Cast() | nodes.Fma() | nodes.Call(function="exp"):
            parts = tuple(_origin(emitter, part) for part in children(expr))
            form = with_children(expr, tuple(nodes.Const(0, part.dtype) for part in children(expr)))
            is_division = isinstance(expr, nodes.Binary) and expr.op == "div"
            return None if None in parts or is_division else (form, parts)
        case _:
            return None


def _keep(emitter: Emitter, origins: Sequence[Hashable], results: Sequence[Value]) -> None:
    """Keeps what was made of those origins, in cells: another block may ask for it."""
    builder = emitter.builder
    for origin, result in zip(origins, results, strict=True):
        if origin is not None:
            cell = builder.alloca(F32, 1)
            builder.store(result, cell, builder.constant(0, INDEX))
            emitter.done.made[origin] = builder.block, cell


def _made_before(emitter: Emitter, origins: Sequence[Hashable]) -> list[Value] | None:
    """The values of those origins, if all were made where this block is run."""
    builder = emitter.builder
    found = [emitter.done.made.get(one) for one in origins]
    cells = [one[1] for one in found if one is not None and _run_alike(emitter.done, one[0], builder.block)]
    if len(cells) < len(origins):
        return None
    return [builder.load(cell, builder.constant(0, INDEX)) for cell in cells]


def _run_alike(known: Done, one: Block, other: Block) -> bool:
    """Is a block run where the other is? The same conditions lead to both, from the same block."""
    if one is other:
        return True
    if one not in known.entered or other not in known.entered:
        return False
    (before, condition), (earlier, same) = known.entered[one], known.entered[other]
    return condition == same and _run_alike(known, before, earlier)


def _operands(known: Done, expr: nodes.Expr) -> tuple[nodes.Expr, ...]:
    """What differs between iterations, of an exponential or a division."""
    parts = children(expr)
    return parts[:1] if parts[-1] in known.divisors else parts


def _all(
    emitter: Emitter,
    known: Done,
    expr: nodes.Expr,
    operands: Sequence[tuple[Value, ...]],
    targets: Sequence[tuple[str, int]],
    times: range,
) -> Sequence[Value]:
    """The expression's value for each iteration's operands; `targets`: the elements that it goes to."""
    builder, firsts = emitter.builder, [each[0] for each in operands]
    if not isinstance(expr, nodes.Binary):
        return _exponentials(emitter, known, firsts, targets)
    name = emitter.request_function("div", DType.F32, APART)
    if expr.right in known.divisors:
        return divided(builder, firsts, known.divisors[expr.right], name, _tests(emitter, known, expr.left, times))
    return quotients(builder, [(a, b) for a, b in operands], lambda a, b: builder.call(name, [a, b], F32))


def _targets(emitter: Emitter, loop: Loop, times: range, expr: nodes.Expr) -> list[tuple[str, int]]:
    """Where an exponential goes in each iteration, if that will be divided. (Not in loops that are not written out: there
    what stands before in the text may run after.)"""
    out: list[tuple[str, int]] = []
    if emitter.turns:
        return out
    for node in loop.body:
        if isinstance(node, Compute) and node.value == expr and node.target.array in emitter.done.dividends:
            for value in times:
                emitter.facts.constants[loop.var] = value
                _, place = emitter.place(node.target.array, node.target.index)
                if not place.terms:
                    out.append((node.target.array, place.constant))
            emitter.facts.constants.pop(loop.var, None)
    return out if len(out) == len(times) else []


def _tests(emitter: Emitter, known: Done, dividend: nodes.Expr, times: range) -> list[Value] | None:
    """What was found of the dividends where they were made; None where they have to be tested."""
    if not isinstance(dividend, nodes.Load) or dividend.array not in known.dividends:
        return None
    found: list[Value] = []
    before = emitter.facts.constants.get(known.var)
    for value in times:
        emitter.facts.constants[known.var] = value
        _, place = emitter.place(dividend.array, dividend.index)
        test = None if place.terms else known.tested.get((dividend.array, place.constant))
        if test is None:
            found.clear()
            break
        found.append(test)
    emitter.facts.constants.pop(known.var, None)
    if before is not None:
        emitter.facts.constants[known.var] = before
    zero = emitter.builder.constant(0, INDEX)
    return [emitter.builder.load(each, zero) for each in dict.fromkeys(found)] or None


def _exponentials(
    emitter: Emitter, known: Done, operands: Sequence[Value], targets: Sequence[tuple[str, int]]
) -> Sequence[Value]:
    """e**x of each."""
    builder = emitter.builder
    rare = _far(builder, operands, EXP_DIVIDED if targets else EXP_NEAR)
    if targets:
        test = builder.alloca(I32, 1)
        builder.store(builder.convert("extsi", rare, I32), test, builder.constant(0, INDEX))
        for each in targets:
            known.tested[each] = None if each in known.tested else test
    name = emitter.request_function("exp", DType.F32, APART)
    return _near(builder, operands, rare, lambda x: builder.call(name, [x], x.type))


def _far(builder: Builder, operands: Sequence[Value], most: float) -> Value:
    """Is one of these scalars larger?"""
    rare = builder.constant(0, I1)
    for each in operands:
        rare = builder.binary("ori", rare, builder.compare("ugt", builder.unary("absf", each), builder.constant(most, F32)))
    return rare


def _near(
    builder: Builder, operands: Sequence[Value], rare: Value, otherwise: Callable[[Value], Value]
) -> Sequence[Value]:
    """e**x of each, all scalars or all vectors; `otherwise` makes it where they are rare."""

    def arm(make: Callable[[Value], Value]) -> Block:
        return builder.into(
            Block(), lambda: builder.block.add(Operation("scf.yield", tuple(map(make, operands))))
        )

    near = arm(lambda x: emit_exp_near(Ops(builder, 32, lanes_of(x.type)), x))
    arms = (arm(otherwise), near)
    choice = Operation("scf.if", (rare,), [each.type for each in operands], {"rare": True}, blocks=arms)
    builder.block.add(choice)
    return choice.results


# ------------------------------------------------------------------------------------ lanes


def of_lanes(emitter: Emitter, operation: str, operands: Sequence[Value], dtype: DType) -> Value | None:
    """An exponential or a division of vectors, done together on a GPU; None of others."""
    builder, lanes = emitter.builder, lanes_of(operands[0].type)
    if not emitter.gpu or not lanes or dtype is not DType.F32:
        return None
    if operation == "exp":
        each = [builder.extract(operands[0], lane) for lane in range(lanes)]
        name = emitter.request_function("exp", dtype, lanes)
        return _near(builder, operands, _far(builder, each, EXP_NEAR), lambda x: builder.call(name, [x], x.type))[0]
    if operation == "div" and emitter.inverts and constant_of(operands[1]) is None:
        a, b = operands
        return quotients(builder, [(a, b)], lambda a, b: builder.binary("divf", a, b))[0]
    return None


# ------------------------------------------------------------------------------- the largest of words


def _largest_of_words(emitter: Emitter, loop: Loop, times: range, emit: Emit) -> bool:
    """before: for each u: m = max(m, f32(x[u])), x in words of two bf16     after: the largest of all words, its two halves to m

    Which comes first does not matter to the bits: a NaN stays one, and 0 is above -0."""
    if len(loop.body) != 1:
        return False
    match loop.body[0]:
        case Compute(
            target=nodes.Load(index=()) as target,
            value=nodes.Binary(
                op="max", left=left, right=nodes.Cast(operand=nodes.Load() as element, dtype=DType.F32)
            ),
            predicate=None,
        ) if left == target and emitter.storage[element.array].is_packed:
            pass
        case _:
            return False
    places: list[int] = []
    for value in times:
        emitter.facts.constants[loop.var] = value
        places.append(emitter.place(element.array, element.index)[1].constant)
    emitter.facts.constants.pop(loop.var, None)
    first = places[0]
    if len(places) < 4 or len(places) % 2 or first % 2 or places != [*range(first, first + len(places))]:
        return False
    builder, words = emitter.builder, emitter.storage[element.array].memref
    found = [
        builder.recast(builder.vector_load(words, builder.constant(place // 2, INDEX), 1, 0), BF16) for place in places[::2]
    ]
    while len(found) > 1:
        rest = found[len(found) // 2 * 2 :]
        found = [builder.binary("maximumf", *pair) for pair in zip(found[::2], found[1::2])] + rest
    word = builder.extract(builder.recast(found[0], I32), 0)
    largest = emit(target)
    for bits in (
        builder.binary("shli", word, builder.constant(16, I32)),
        builder.binary("andi", word, builder.constant(-1 << 16, I32)),
    ):
        largest = builder.binary("maximumf", largest, builder.convert("bitcast", bits, F32))
    builder.store(largest, emitter.storage[target.array].memref, builder.constant(0, INDEX))
    emitter.forget_loads()
    return True


# ------------------------------------------------------------------------- exponentials that are divided


def exponentials(body: Sequence[TreeNode]) -> set[nodes.Expr]:
    """The exponentials that a loop's body computes as they are."""
    return {node.value for node in body if isinstance(node, Compute) and _is_exponential(node.value)}


def _is_exponential(value: nodes.Expr) -> bool:
    return isinstance(value, nodes.Call) and value.function == "exp" and value.dtype is DType.F32


def divided_exponentials(body: tuple[TreeNode, ...], registers: frozenset[str]) -> frozenset[str]:
    """Those of the registers that hold exponentials alone, and are divided."""
    others: set[str] = set()
    written: set[str] = set()
    divided_ones: set[str] = set()
    for node in walk_nodes(body):
        match node:
            case Compute(target=target, value=value) if _is_exponential(value) and node.predicate is None:
                written.add(target.array)
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                others.add(target.array)
            case Combine(buffer=name) | Scan(buffer=name):
                others.add(name)
            case _:
                pass
        if isinstance(node, Compute):
            for each in walk_expr(node.value):
                if isinstance(each, nodes.Binary) and each.op == "div" and isinstance(each.left, nodes.Load):
                    divided_ones.add(each.left.array)
    return frozenset(written & divided_ones & registers) - others


# ----------------------------------------------------------------------- which expressions


def _written(body: Sequence[TreeNode]) -> frozenset[str] | None:
    """The buffers that the nodes write; None where they do more."""
    found: set[str] = set()
    for node in body:
        match node:
            case Compute(target=target) | Copy(target=target, late=False) | Fold(target=target):
                found.add(target.array)
            case Guard(then=then, otherwise=otherwise):
                inner = _written((*then, *otherwise))
                if inner is None:
                    return None
                found |= inner
            case Loop(mapping=Mapping.UNROLLED | Mapping.VECTOR, body=inside):
                inner = _written(inside)
                if inner is None:
                    return None
                found |= inner
            case _:
                return None
    return frozenset(found)


def _divisors(
    emitter: Emitter, body: Sequence[TreeNode], within: set[str], written: frozenset[str] | None
) -> Iterator[nodes.Expr]:
    """What loops inside divide by that is the same in all iterations of all of them."""
    if written is None:
        return
    for node in body:
        match node:
            case Loop(var=var, body=inner):
                yield from _divisors(emitter, inner, within | {var}, written)
            case Guard(then=then, otherwise=otherwise):
                yield from _divisors(emitter, (*then, *otherwise), within, written)
            case Compute(value=value) | Copy(value=value):
                for each in walk_expr(value) if _is_sure(value) else ():
                    if not isinstance(each, nodes.Binary) or not _is_division(each):
                        continue
                    if not iterators(each.right) & within and _is_held(emitter, each.right, written):
                        yield each.right
            case _:
                pass


def _own(emitter: Emitter, body: Sequence[TreeNode], written: frozenset[str] | None) -> Iterator[nodes.Expr]:
    """The divisions and exponentials that each iteration does, and may do before: outside branches."""
    if written is None:
        return
    for node in body:
        match node:
            case Guard(predicated=True, then=then):
                yield from _own(emitter, then, written)
            case Compute(value=value, predicate=None) | Copy(value=value):
                for each in walk_expr(value) if _is_sure(value) else ():
                    match each:
                        case nodes.Binary() if _is_division(each):
                            is_one = emitter.inverts or each.right in emitter.done.divisors
                        case nodes.Call(function="exp", dtype=DType.F32):
                            is_one = True
                        case _:
                            continue
                    if is_one and all(_is_held(emitter, part, written) for part in _operands(emitter.done, each)):
                        yield each
            case _:
                pass


def _is_sure(value: nodes.Expr) -> bool:
    """Is all of it computed whatever the data?"""
    return not any(isinstance(each, nodes.Select) for each in walk_expr(value))


def _is_division(expr: nodes.Binary) -> bool:
    """Of f32, by what is no constant."""
    return expr.op == "div" and expr.dtype is DType.F32 and not isinstance(expr.right, nodes.Const)


def _is_held(emitter: Emitter, expr: nodes.Expr, written: frozenset[str]) -> bool:
    """Is it made of registers that nothing writes here?"""
    return all(
        isinstance(emitter.storage[load.array].buffer.home, Register | Window)
        and not emitter.storage[load.array].lane_variable
        and load.array not in written
        for load in loads(expr)
    )
