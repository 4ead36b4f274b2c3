"""Random Python functions: what a `@loopfuse.kernel` may hold, in combinations nobody wrote.

One function is one number. It has a few arrays of one or two sets of extents, numbers as parameters,
helpers of its own, locals that change their type from line to line, and loops that carry them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from fuzz import python_statements as statements
from fuzz.choices import Choices
from fuzz.python_builder import Array, Builder, Helper, Iterator
from fuzz.python_expressions import condition, of_kind
from fuzz.python_values import FLOATS, NUMPY, Value, cast

HELD = {
    "u8": Value("u8", 0, 255), "u16": Value("u16", 0, 1000), "u32": Value("u32", 0, 100_000),
    "u64": Value("u64", 0, 100_000), "i8": Value("i8", -128, 127), "i16": Value("i16", -500, 500), "i32": Value("i32", -1000, 1000),
    "i64": Value("i64", -100_000, 100_000), "f32": Value("f32"), "f64": Value("f64"), "b1": Value("b1"),
}  # fmt: skip
"""What elements of each type are, at the start and always."""

SPELLED = {"f32": "loopfuse.f32", "f64": "loopfuse.f64", "u8": "loopfuse.u8",
           "u16": "loopfuse.u16", "u32": "loopfuse.u32", "u64": "loopfuse.u64", "i8": "loopfuse.i8", "i16": "loopfuse.i16",
           "i32": "loopfuse.i32", "i64": "loopfuse.i64", "b1": "loopfuse.boolean"}  # fmt: skip


@dataclass(frozen=True)
class PythonProgram:
    """The text of `kernel` and its helpers; its parameters: arrays by extents, and numbers."""

    text: str
    arrays: tuple[Array, ...]
    scalars: dict[str, Value]
    dims: tuple[str, ...]

    def sizes(self, seed: int, turn: int) -> dict[str, int]:
        """Extents for one call: a few elements, as many as vectors have lanes, next to none."""
        drawn = random.Random(f"sizes:{seed}:{turn}")
        small = {dim: drawn.randint(4, 9) for dim in self.dims}
        if turn == 1:
            last = self.dims[-1]
            return {**{dim: drawn.randint(2, 4) for dim in self.dims}, last: drawn.choice((16, 17, 31, 33, 40))}
        return {dim: drawn.randint(1, 3) for dim in self.dims} if turn == 2 else small

    def arguments(self, seed: int, turn: int) -> dict[str, object]:
        """Arrays and numbers for one call."""
        rng = np.random.default_rng([seed, turn])
        sizes = self.sizes(seed, turn)
        given: dict[str, object] = {}
        for array in self.arrays:
            shape = tuple(sizes[dim] for dim in array.dims)
            given[array.name] = _data(rng, array.held, shape)
        for name, value in self.scalars.items():
            plain = _data(rng, value, ()).item()
            given[name] = plain if value.is_weak else np.dtype(NUMPY[value.kind]).type(plain)
        return given


def _data(rng: np.random.Generator, held: Value, shape: tuple[int, ...]) -> np.ndarray:
    if held.is_float:
        dtype = np.float32 if held.kind == "f32" else np.float64
        found = rng.normal(0.0, 2.0, shape)
        whole = np.round(found)  # equal values, and zeros
        return np.asarray(np.where(rng.random(shape) < 0.2, whole + 0.0, found), dtype)
    if held.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    dtype = NUMPY.get(held.kind, "int64")
    wide = rng.integers(held.low, held.high + 1, shape)
    near = rng.integers(max(held.low, -3), min(held.high, 9) + 1, shape)
    return np.asarray(np.where(rng.random(shape) < 0.6, near, wide)).astype(dtype)


FEATURES = ("math", "float remainders", "helpers", "annotated", "two sets", "time loop", "created")


def generate(choices: Choices) -> PythonProgram:
    """The function of these decisions."""
    b = Builder(choices)
    b.features = frozenset(name for name in FEATURES if b.chance(4 if name == "float remainders" else 3))
    b.dims = b.pick((("n",), ("n",), ("h", "w"), ("n", "m")))
    b.room = b.integer(6, 16)
    if b.has("helpers") or b.chance(4):
        for _ in range(b.integer(1, 2)):
            helper(b)
    _parameters(b)
    arrays, scalars = tuple(b.arrays), dict(b.scalars)
    if b.chance(5):
        b.scalars["GAIN"] = Value("float")
        b.scalars["COUNT"] = Value("int", 7, 7)
    _sizes(b)
    if b.has("created"):
        _create(b)
    for _ in range(b.integer(0, 3)):
        name = b.fresh("s")
        text, value = statements.start(b)
        b.line(f"{name} = {text}")
        b.assign(name, value)
    if b.chance(4):
        statements.body(b, 1)
    for number in range(b.integer(1, 3)):
        if b.room > 0 or not number:
            _part(b)
    _ending(b, arrays)
    head = ", ".join([*(_declared(b, one) for one in arrays), *_declared_scalars(b, scalars)])
    lines = [*b.texts, f"def kernel({head}):", *b.lines]
    return PythonProgram("\n".join(lines) + "\n", arrays, scalars, b.dims)


def _parameters(b: Builder) -> None:
    shapes = {
        ("n",): [("n",)], ("h", "w"): [("h", "w"), ("h", "w"), ("w",)], ("n", "m"): [("n",), ("m",)],
    }[b.dims]  # fmt: skip
    kinds = b.pick((
        ("f32", "f64"), ("f32",), ("f64",), ("f32", "i32", "u8"), ("f64", "i64", "f32"), ("i32", "i64", "u8"),
        ("f32", "f64", "i32", "b1"), ("i16", "f32", "i64"), ("u8", "f32", "f32"),
        ("u16", "i8", "f32"), ("u32", "i32", "u8"), ("u64", "u16", "f64"), ("i8", "u64", "i64"),
    ))  # fmt: skip
    count = b.integer(2, 4)
    for number in range(count):
        shape = shapes[number % len(shapes)] if number < len(shapes) else b.pick(shapes)
        b.arrays.append(Array("abcdefgh"[number], HELD[b.pick(kinds)], shape))
    for _ in range(b.integer(0, 2)):
        kind = b.pick(("float", "int", "f32", "float", "i32"))
        low, high = b.pick(((0, 9), (0, 9), (-300, 300))) if kind in ("int", "i32") else (0, 0)
        b.scalars[b.fresh("q")] = Value(kind, low, high)


def _declared(b: Builder, array: Array) -> str:
    if not b.has("annotated"):
        return array.name
    dims = ", ".join(f'"{dim.upper()}"' for dim in array.dims)
    return f"{array.name}: {SPELLED[array.held.kind]}[{dims}]"


def _declared_scalars(b: Builder, scalars: dict[str, Value]) -> list[str]:
    said: list[str] = []
    for name, value in scalars.items():
        spoken = value.kind if value.is_weak else SPELLED[value.kind]
        said.append(f"{name}: {spoken}" if b.has("annotated") or not value.is_weak else name)
    return said


def _sizes(b: Builder) -> None:
    """`n = len(a)`, `h, w = a.shape`."""
    for dim in b.dims:
        one = next(array for array in b.arrays if dim in array.dims)
        if len(one.dims) == 2:
            b.line(f"h, w = {one.name}.shape")
            return
        b.line(f"{dim} = {b.pick((f'len({one.name})', f'{one.name}.shape[0]'))}")


def _create(b: Builder) -> None:
    """A temporary, or two of one type and shape."""
    like = b.pick(b.arrays)
    text = ", ".join(like.dims)
    for _ in range(b.integer(1, 2)):
        name = b.fresh("t")
        shape = f"({text})" if len(like.dims) > 1 else text
        form = b.pick((
            f"np.zeros_like({like.name})", f"np.zeros({shape}, np.{NUMPY[like.held.kind]})",
            f"np.ones_like({like.name})", f"np.full({shape}, 3, np.{NUMPY[like.held.kind]})",
            f"np.zeros({shape}, {like.name}.dtype)", f"np.empty_like({like.name})",
        ))  # fmt: skip
        b.line(f"{name} = {form}")
        made = Array(name, like.held, like.dims, is_parameter=False)
        if "empty" in form:
            _fill(b, made)
        b.arrays.append(made)


def _fill(b: Builder, array: Array) -> None:
    """Each element is set once."""
    for position, dim in enumerate(array.dims):
        it = Iterator(b.fresh("ij"[position]), dim)
        b.line(f"for {it.name} in range({dim}):")
        b.scope.append(it)
        b.depth += 1
    names = ", ".join(it.name for it in b.scope)
    text = of_kind(b, array.held.kind, 2, array.held if array.held.is_integer else None)
    b.line(f"{array.name}[{names}] = {text}")
    b.depth -= len(b.scope)
    b.scope.clear()


def _part(b: Builder) -> None:
    """A nest of loops, or steps in time."""
    alike = [
        (one, other)
        for k, one in enumerate(b.arrays)
        for other in b.arrays[k + 1 :]
        if one.held == other.held and one.dims == other.dims
        and (not (one.is_parameter or other.is_parameter) or b.has("annotated"))
    ]  # fmt: skip
    if not b.has("time loop") or not alike or b.chance(3):
        statements.nest(b, b.pick(b.arrays), b.integer(0, 3))
        if alike and b.chance(6):
            one, other = b.pick(alike)
            b.line(f"{one.name}, {other.name} = {other.name}, {one.name}")
        return
    one, other = b.pick(alike)
    counts = [name for name, value in b.scalars.items() if value.kind == "int" and name[0] == "q"]
    steps = b.pick((*counts, "2", "3", "5"))
    it = Iterator(b.fresh("step"))
    before = statements.enter(b)
    b.scope.append(it)
    with b.block(f"for {it.name} in range({steps}):"):
        statements.nest(b, b.pick((one, other)), b.integer(0, 2))
        if b.chance(3):
            statements.nest(b, b.pick(b.arrays), b.integer(0, 1))
        b.line(f"{one.name}, {other.name} = {other.name}, {one.name}")
        statements.leave(b, before)
    b.scope.pop()


def _ending(b: Builder, arrays: tuple[Array, ...]) -> None:
    """What the locals came to is written; some arrays are returned."""
    for name, value in list(b.values.items()):
        targets = [one for one in b.arrays if one.held.is_float or (value and not value.is_float)]
        targets = [one for one in targets if not one.held.is_unsigned and one.held.kind != "b1"]
        if value is None or not targets or b.chance(4):
            continue
        array = b.pick(targets)
        place = ", ".join("0" for _ in array.dims)
        if array.held.is_integer:
            text = name if value.is_bool else f"{name} % 100"
            b.line(f"{array.name}[{place}] = {cast(text, array.held.kind)}")
        else:
            b.line(f"{array.name}[{place}] = {name}")
    made = [one.name for one in b.arrays if not one.is_parameter]
    given = [one.name for one in arrays if b.chance(5)]
    returned = made if b.chance(3) else [*made, *given][:: 1 if b.chance(2) else -1]
    if returned:
        text = ", ".join(returned)
        b.line(f"return {text}{',' if len(returned) == 1 and b.chance(4) else ''}")


# ------------------------------------------------------------------------------------- helpers


def helper(b: Builder) -> None:
    """A function of numbers: locals, nested `if`s, early returns, defaults."""
    kinds = ("f32", "f64", "float", "int", "i32", "f32")
    takes = tuple(b.pick(kinds) for _ in range(b.integer(1, 3)))
    gives = Value(b.pick([kind for kind in takes if kind in FLOATS] or ["float"]))
    least = b.integer(1, len(takes))
    name = f"helper{len(b.helpers)}"
    said = [f"p{k}{'=' + _default(b, kind) if k >= least else ''}" for k, kind in enumerate(takes)]
    inner = Builder(b.choices, in_helper=True, features=b.features, room=b.integer(1, 6))
    inner.helpers = list(b.helpers)
    inner.values = {
        f"p{k}": Value(kind, -1000, 1000) if kind in ("int", "i32") else Value(kind)
        for k, kind in enumerate(takes)
    }
    _helper_body(inner, gives, b.integer(0, 2))
    b.texts += [f"def {name}({', '.join(said)}):", *inner.lines, "", ""]
    b.helpers.append(Helper(name, takes, least, gives))


def _default(b: Builder, kind: str) -> str:
    plain = b.pick(("0.5", "2.0", "1.0")) if kind in FLOATS else b.pick(("1", "2", "3"))
    return plain if kind in ("int", "float") else cast(plain, kind)


def _helper_body(b: Builder, gives: Value, nested: int) -> None:
    """Statements that end with `return` on every path."""
    for _ in range(b.integer(0, 2)):
        if b.room > 0:
            statements.statement(b)
    if nested > 0:
        before = dict(b.values)
        with b.block(f"if {condition(b)}:"):
            _helper_body(b, gives, nested - 1)
        b.values = dict(before)
        if b.chance(2):
            with b.block(f"elif {condition(b)}:"):
                _helper_body(b, gives, nested - 2)
            b.values = dict(before)
        if b.chance(3):
            with b.block("else:"):
                _helper_body(b, gives, nested - 1)
            return
    b.line(f"return {of_kind(b, gives.kind, 2)}")
