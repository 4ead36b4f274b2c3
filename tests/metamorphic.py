"""Changes to a program that must not change what it computes: each takes the surface tree of a kernel
to another tree, with what must still hold of the plan.

Every choice of place is the random generator's; a change that applies nowhere gives None. Whether two
pieces of code may change places is decided here by the arrays they touch, never by the compiler's own
analysis, except in `reverse` and `interchange`, which take its word that a loop is parallel so that the
results check that word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from loopfuse import pipeline
from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.format import format_module
from loopfuse.plan.fusion.parallel import check_parallel_loops

EDGES = {"clamp", "wrap", "reflect", "symmetric", "zero"}


@dataclass(frozen=True)
class Variant:
    """A changed program. `names` maps old names to new ones (those not in it are kept), `loops` old
    ids of outermost loops to new ones; `same` says what must be as before: `launches`, `groups`
    (which loops share a kernel), `homes` of temporaries, `traffic`."""

    text: str
    names: dict[str, str] = field(default_factory=dict)
    loops: dict[str, str] = field(default_factory=dict)
    same: frozenset[str] = frozenset()
    zeroed: str = ""
    "An array that one of the two programs has as a temporary: given zeros, and not compared."


ALL = frozenset({"launches", "groups", "homes", "traffic"})
LAUNCHES = frozenset({"launches"})
NONE: frozenset[str] = frozenset()

Change = Callable[[syntax.Module, int, random.Random], Variant | None]
"""From a module, the position of the kernel among its items, and a source of choices."""


# ---------------------------------------------------------------------------------- on trees


def children(node: object) -> Iterator[Any]:
    """The nodes directly inside `node`."""
    if isinstance(node, tuple):
        yield from node
    elif isinstance(node, syntax.Node):
        for one in fields(node):
            if one.name not in ("span", "name_span", "array_span"):
                yield getattr(node, one.name)


def walk(node: object) -> Iterator[Any]:
    """Every node inside, itself first."""
    if isinstance(node, syntax.Node):
        yield node
    for child in children(node):
        yield from walk(child)


def rebuild(node: Any, change: Callable[[Any], Any]) -> Any:
    """`node` with `change` made to every node, innermost first."""
    if isinstance(node, tuple):
        return tuple(rebuild(part, change) for part in node)
    if not isinstance(node, syntax.Node):
        return node
    parts = {
        one.name: rebuild(getattr(node, one.name), change)
        for one in fields(node)
        if one.name not in ("span", "name_span", "array_span", "text")
    }
    return change(replace(node, **parts))


def exchange(node: Any, old: syntax.Node, new: tuple[syntax.Node, ...]) -> Any:
    """`node` with the statement `old` (that very object) replaced by `new`."""
    if isinstance(node, tuple):
        out: list[Any] = []
        for part in node:
            out += new if part is old else (exchange(part, old, new),)
        return tuple(out)
    if not isinstance(node, syntax.For | syntax.If | syntax.Block | syntax.Kernel):
        return node
    parts = {
        one.name: exchange(getattr(node, one.name), old, new)
        for one in fields(node)
        if one.name in ("body", "then", "otherwise")
    }
    return replace(node, **parts)


def substitute(node: Any, name: str, expr: syntax.Expr) -> Any:
    """`node` with `expr` in place of the number `name`."""
    return rebuild(
        node, lambda one: expr if isinstance(one, syntax.Name) and one.name == name else one
    )


def touched(node: object) -> tuple[set[str], set[str]]:
    """(names read or written, names written) of arrays and scalars, iterators included."""
    seen: set[str] = set()
    written: set[str] = set()
    for one in walk(node):
        match one:
            case syntax.Assign(target=syntax.Name(name=name) | syntax.Subscript(array=name)):
                written.add(name)
            case syntax.Let(name=name) | syntax.Temp(name=name):
                written.add(name)
            case syntax.Swap(left=left, right=right):
                written |= {left, right}
            case syntax.Name(name=name) | syntax.Subscript(array=name):
                seen.add(name)
            case _:
                continue
    return seen | written, written


def independent(first: object, second: object) -> bool:
    """Neither writes what the other touches."""
    (seen, written), (other_seen, other_written) = touched(first), touched(second)
    return not (written & other_seen) and not (other_written & seen)


def declares(body: tuple[syntax.Stmt, ...]) -> bool:
    """Some statement of the block itself declares a name, or may not stand anywhere."""
    return any(
        isinstance(one, syntax.Let | syntax.Temp | syntax.Block | syntax.Assume) for one in body
    )


def number(value: int) -> syntax.Number:
    """A literal."""
    return syntax.Number(value)


def plus(expr: syntax.Expr, value: int) -> syntax.Expr:
    """`expr + value`."""
    if isinstance(expr, syntax.Number) and expr.value + value >= 0:
        return number(int(expr.value) + value)
    sign = "+" if value >= 0 else "-"
    return syntax.Binary(sign, expr, number(abs(value)))


def text_of(module: syntax.Module, position: int, kernel: syntax.Kernel) -> str:
    """The module with another kernel in that place, as text."""
    items = (*module.items[:position], kernel, *module.items[position + 1 :])
    return format_module(replace(module, items=items, comments=()))


def kernel_at(module: syntax.Module, position: int) -> syntax.Kernel:
    """The kernel among the items."""
    kernel = module.items[position]
    assert isinstance(kernel, syntax.Kernel)
    return kernel


def loops_of(kernel: syntax.Kernel) -> list[syntax.For]:
    """Every loop."""
    return [one for one in walk(kernel.body) if isinstance(one, syntax.For)]


def unit(each: syntax.Range) -> bool:
    """Counts up by one, over bounds that read no array."""
    reads = any(isinstance(one, syntax.Subscript) for one in walk((each.lower, each.upper)))
    return each.step is None and not reads


def fresh(module: syntax.Module, prefix: str) -> str:
    """A name that the module does not use."""
    used = set(re.findall(r"\w+", format_module(module)))
    return next(f"{prefix}{k}" for k in range(1, 10**6) if f"{prefix}{k}" not in used)


def declared_names(module: syntax.Module) -> set[str]:
    """Every name that the module gives to something."""
    found: set[str] = set()
    for one in walk(module.items):
        match one:
            case syntax.Param(name=name, extents=extents):
                found |= {name} | {n.name for n in walk(extents) if isinstance(n, syntax.Name)}
            case syntax.Let(name=name) | syntax.Temp(name=name) | syntax.Func(name=name):
                found.add(name)
            case syntax.Const(name=name) | syntax.Kernel(name=name) | syntax.Range(iterator=name):
                found.add(name)
            case _:
                continue
    return found


def with_names(text: str, names: dict[str, str]) -> str:
    """`text` with names exchanged; edge modes and parts of numbers are none."""

    def spoken(found: re.Match[str]) -> str:
        start = found.start()
        mode = text[start - 1 : start] == "." and text[start - 2 : start - 1] != "."
        return found[0] if mode else names.get(found[0], found[0])

    return re.sub(r"(?<!\w)[A-Za-z_]\w*", spoken, text)


# ------------------------------------------------------------------------------ the changes


def rename(module: syntax.Module, position: int, rng: random.Random) -> Variant:
    """Every name is another, in another alphabetical order."""
    old = sorted(declared_names(module))
    new = [f"q{k}" for k in range(len(old))]
    rng.shuffle(new)
    names = dict(zip(old, new))
    text = with_names(format_module(replace(module, comments=())), names)
    return Variant(text, names, same=ALL)


def reorder(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """Two adjacent outermost nests of disjoint arrays change places."""
    kernel = kernel_at(module, position)
    pairs = [
        k
        for k, (a, b) in enumerate(zip(kernel.body, kernel.body[1:]))
        if isinstance(a, syntax.For) and isinstance(b, syntax.For) and independent(a, b)
    ]
    if not pairs:
        return None
    k = rng.choice(pairs)
    body = (*kernel.body[:k], kernel.body[k + 1], kernel.body[k], *kernel.body[k + 2 :])
    before = len(outermost(kernel.body[:k]))
    first, second = f"L{before + 1}", f"L{before + 2}"
    return Variant(
        text_of(module, position, replace(kernel, body=body)),
        loops={first: second, second: first},
        same=ALL,
    )


def outermost(body: tuple[syntax.Stmt, ...]) -> list[syntax.For]:
    """The loops that no loop holds, in text order."""
    found: list[syntax.For] = []
    for one in body:
        match one:
            case syntax.For():
                found.append(one)
            case syntax.If(then=then, otherwise=otherwise):
                found += outermost((*then, *otherwise))
            case syntax.Block(body=inner):
                found += outermost(inner)
            case _:
                continue
    return found


def distribute(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A nest of two independent parts becomes two nests."""
    kernel = kernel_at(module, position)
    options = [
        (loop, cut)
        for loop in loops_of(kernel)
        if not declares(loop.body)
        for cut in range(1, len(loop.body))
        if independent(loop.body[:cut], loop.body[cut:])
    ]
    if not options:
        return None
    loop, cut = rng.choice(options)
    parts = (replace(loop, body=loop.body[:cut]), replace(loop, body=loop.body[cut:]))
    same = frozenset({"launches", "traffic"}) if loop in kernel.body else NONE
    text = text_of(module, position, exchange(kernel, loop, parts))
    return Variant(text, same=same)


def is_parallel(module: syntax.Module, position: int, loop: syntax.For, at: int) -> bool:
    """The compiler's own answer for range `at` of `loop`, reductions in order."""
    kernel = kernel_at(module, position)
    inner: tuple[syntax.Stmt, ...] = loop.body
    if at + 1 < len(loop.ranges):
        inner = (syntax.For(loop.ranges[at + 1 :], inner),)
    marked: syntax.Stmt = syntax.For((loop.ranges[at],), inner, True)
    if at:
        marked = syntax.For(loop.ranges[:at], (marked,))
    text = text_of(module, position, exchange(kernel, loop, (marked,)))
    try:
        program = pipeline.read_program(Source("parallel.lf", text), "strict")
        model = pipeline._model(program.kernel(kernel.name))
        model, dependences = pipeline._simplify(model, pipeline.find_dependences(model))
        check_parallel_loops(model, dependences, reassociate=False)
    except LoopfuseError:
        return False
    return True


def reverse(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A loop that the compiler calls parallel counts down."""
    kernel = kernel_at(module, position)
    options = [
        (loop, at) for loop in loops_of(kernel) for at, each in enumerate(loop.ranges) if unit(each)
    ]
    rng.shuffle(options)
    for loop, at in options[:4]:
        if not is_parallel(module, position, loop, at):
            continue
        each = loop.ranges[at]
        step = syntax.Unary("-", number(1))
        down = replace(each, lower=plus(each.upper, -1), upper=plus(each.lower, -1), step=step)
        ranges = (*loop.ranges[:at], down, *loop.ranges[at + 1 :])
        changed = exchange(kernel, loop, (replace(loop, ranges=ranges),))
        return Variant(text_of(module, position, changed), same=ALL)
    return None


def interchange(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """Two neighbouring parallel iterators of a header change places."""
    kernel = kernel_at(module, position)
    options = [
        (loop, at)
        for loop in loops_of(kernel)
        for at, (a, b) in enumerate(zip(loop.ranges, loop.ranges[1:]))
        if unit(a) and unit(b) and syntax.Name(a.iterator) not in walk((b.lower, b.upper))
    ]
    rng.shuffle(options)
    for loop, at in options[:3]:
        if not all(is_parallel(module, position, loop, k) for k in (at, at + 1)):
            continue
        ranges = list(loop.ranges)
        ranges[at], ranges[at + 1] = ranges[at + 1], ranges[at]
        changed = exchange(kernel, loop, (replace(loop, ranges=tuple(ranges)),))
        return Variant(text_of(module, position, changed), same=LAUNCHES)
    return None


def unroll(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A loop takes two steps at once, the second where there is one; a loop of few and constant
    steps is written out."""
    kernel = kernel_at(module, position)
    options = [one for one in loops_of(kernel) if unit(one.ranges[-1]) and not has_wishes(one)]
    options = [one for one in options if not any(isinstance(n, syntax.Swap) for n in walk(one))]
    if not options:
        return None
    loop = rng.choice(options)
    each = loop.ranges[-1]
    outer = loop.ranges[:-1]
    match each.lower, each.upper:
        case syntax.Number(value=low), syntax.Number(value=high) if (
            high - low <= 6 and not declares(loop.body)
        ):
            copies = [substitute(loop.body, each.iterator, number(k)) for k in range(low, high)]
            body: tuple[Any, ...] = tuple(stmt for copy in copies for stmt in copy)
        case low, high:
            half = fresh(module, "half")
            span = syntax.Binary("-", plus(high, 1), low)
            first = syntax.Binary("+", low, syntax.Binary("*", number(2), syntax.Name(half)))
            steps = []
            for index in (first, plus(first, 1)):
                inside = syntax.Comparison((index, high), ("<",))
                steps.append(syntax.If(inside, substitute(loop.body, each.iterator, index)))
            count = syntax.Binary("//", span, number(2))
            body = (syntax.For((syntax.Range(half, number(0), count),), tuple(steps)),)
    if outer and body:
        body = (replace(loop, ranges=outer, body=body),)
    if not body:
        return None
    return Variant(text_of(module, position, exchange(kernel, loop, body)))


def has_wishes(node: object) -> bool:
    """`parallel for`, `fuse:` and constant tables in it: not for changes that add loops."""
    return any(
        (isinstance(one, syntax.For) and one.parallel) or isinstance(one, syntax.Block)
        for one in walk(node)
    )


def expose(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A temporary of the kernel becomes an `out` array."""
    kernel = kernel_at(module, position)
    swapped = {
        n for s in walk(kernel.body) if isinstance(s, syntax.Swap) for n in (s.left, s.right)
    }
    temps = [one for one in kernel.body if isinstance(one, syntax.Temp) and one.name not in swapped]
    if not temps:
        return None
    temp = rng.choice(temps)
    param = syntax.Param(temp.name, temp.dtype, temp.extents, "out")
    changed = exchange(kernel, temp, ())
    changed = replace(changed, params=(*kernel.params, param))
    return Variant(text_of(module, position, changed), zeroed=temp.name)


def hide(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """An `out` array becomes a temporary: the other results are what they were."""
    kernel = kernel_at(module, position)
    swapped = {
        n for s in walk(kernel.body) if isinstance(s, syntax.Swap) for n in (s.left, s.right)
    }
    written = [p for p in kernel.params if p.mode != "in"]
    alone = [n.name for p in kernel.params for n in p.extents or () if isinstance(n, syntax.Name)]
    outs = [
        p
        for p in written
        if p.mode == "out"
        and p.extents is not None
        and p.name not in swapped
        and len(written) > 1
        and all(
            alone.count(n.name) > sum(m == n for m in p.extents)
            for n in p.extents
            if isinstance(n, syntax.Name)
        )
    ]
    if not outs:
        return None
    out = rng.choice(outs)
    assert out.extents is not None
    params = tuple(p for p in kernel.params if p is not out)
    body = (syntax.Temp(out.name, out.dtype, out.extents), *kernel.body)
    return Variant(
        text_of(module, position, replace(kernel, params=params, body=body)), zeroed=out.name
    )


def unfold(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A `let` is written out where it is used."""
    kernel = kernel_at(module, position)
    options: list[tuple[syntax.For, int]] = []
    for loop in loops_of(kernel):
        for at, one in enumerate(loop.body):
            if not isinstance(one, syntax.Let) or one.mutable:
                continue
            if any(isinstance(part, syntax.Reduction) for part in walk(one.value)):
                continue
            rest = loop.body[at + 1 :]
            if rest and not (touched(one.value)[0] & touched(rest)[1]):
                options.append((loop, at))
    if not options:
        return None
    loop, at = rng.choice(options)
    let = loop.body[at]
    assert isinstance(let, syntax.Let)
    value = syntax.Call(let.dtype.value, (let.value,)) if let.dtype else let.value
    rest = substitute(loop.body[at + 1 :], let.name, value)
    changed = exchange(kernel, loop, (replace(loop, body=(*loop.body[:at], *rest)),))
    return Variant(text_of(module, position, changed), same=frozenset({"launches", "groups"}))


def fold(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """An operand of an assignment gets a name."""
    kernel = kernel_at(module, position)
    options = [
        (loop, one)
        for loop in loops_of(kernel)
        for one in loop.body
        if isinstance(one, syntax.Assign)
        and isinstance(one.value, syntax.Binary)
        and one.value.op in ("+", "-", "*")
    ]
    if not options:
        return None
    loop, stmt = rng.choice(options)
    value = stmt.value
    assert isinstance(value, syntax.Binary)
    name = fresh(module, "part")
    left = rng.random() < 0.5
    part = value.left if left else value.right
    changed = replace(value, **{"left" if left else "right": syntax.Name(name)})
    lines = (syntax.Let(name, None, part), replace(stmt, value=changed))
    at = next(k for k, one in enumerate(loop.body) if one is stmt)
    body = (*loop.body[:at], *lines, *loop.body[at + 1 :])
    same = frozenset({"launches", "groups"})
    return Variant(
        text_of(module, position, exchange(kernel, loop, (replace(loop, body=body),))), same=same
    )


def shift(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A loop counts from elsewhere."""
    kernel = kernel_at(module, position)
    options = [(one, k) for one in loops_of(kernel) for k, r in enumerate(one.ranges) if unit(r)]
    if not options:
        return None
    loop, at = rng.choice(options)
    each, by = loop.ranges[at], rng.choice((5, -3))
    moved = replace(each, lower=plus(each.lower, by), upper=plus(each.upper, by))
    index = plus(syntax.Name(each.iterator), -by)
    rest = substitute((loop.ranges[at + 1 :], loop.body), each.iterator, index)
    changed = replace(loop, ranges=(*loop.ranges[:at], moved, *rest[0]), body=rest[1])
    return Variant(text_of(module, position, exchange(kernel, loop, (changed,))), same=ALL)


def guard(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """What a loop holds stands under a condition that always holds."""
    kernel = kernel_at(module, position)
    options = [
        (one, r)
        for one in loops_of(kernel)
        for r in one.ranges
        if unit(r) and not any(isinstance(n, syntax.Swap | syntax.Block) for n in walk(one.body))
    ]
    if not options:
        return None
    loop, each = rng.choice(options)
    test = syntax.Comparison((each.lower, syntax.Name(each.iterator), each.upper), ("<=", "<"))
    changed = replace(loop, body=(syntax.If(test, loop.body),))
    return Variant(text_of(module, position, exchange(kernel, loop, (changed,))), same=LAUNCHES)


def cut(module: syntax.Module, position: int, rng: random.Random) -> Variant | None:
    """A loop becomes two: the first half of its range, and the second."""
    kernel = kernel_at(module, position)
    options = [
        one
        for one in loops_of(kernel)
        if unit(one.ranges[0]) and not any(isinstance(n, syntax.Swap) for n in walk(one))
    ]
    if not options:
        return None
    loop = rng.choice(options)
    each, rest = loop.ranges[0], loop.ranges[1:]
    middle = syntax.Binary("//", syntax.Binary("+", each.lower, each.upper), number(2))
    halves = (replace(each, upper=middle), replace(each, lower=middle))
    parts = tuple(replace(loop, ranges=(half, *rest)) for half in halves)
    return Variant(text_of(module, position, exchange(kernel, loop, parts)))


CHANGES: dict[str, Change] = {
    "rename": rename,
    "reorder": reorder,
    "distribute": distribute,
    "reverse": reverse,
    "interchange": interchange,
    "unroll": unroll,
    "expose": expose,
    "hide": hide,
    "unfold": unfold,
    "fold": fold,
    "shift": shift,
    "guard": guard,
    "cut": cut,
}
"""Every change, by name."""


def variants(
    source: Source, kernel: str, seed: int, wanted: Iterable[str] = tuple(CHANGES)
) -> dict[str, Variant]:
    """Every wanted change that applies to a kernel of `source`, made once."""
    module = parse(source)
    (position,) = (
        k
        for k, item in enumerate(module.items)
        if isinstance(item, syntax.Kernel) and item.name == kernel
    )
    found: dict[str, Variant] = {}
    for name in wanted:
        made = CHANGES[name](module, position, random.Random(f"{seed} {name} {source.name}"))
        if made is not None:
            found[name] = made
    return found
