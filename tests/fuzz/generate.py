"""A whole program from decisions, simplest first."""

from __future__ import annotations

from fuzz.arguments import TOGETHER, VIEWS
from fuzz.builder import FLOATS, INTEGERS, TIME, Array, Builder, Extent, plain
from fuzz.choices import Choices
from fuzz.expressions import expression, literal
from fuzz.features import draw_features
from fuzz.program import Program
from fuzz.statements import (
    branched,
    fill,
    halves,
    independent,
    plain_nest,
    recurrence,
    temporary,
    time_loop,
    whole_reduction,
    wished_block,
)

SHAPES = [
    plain("N"),
    plain("N", "M"),
    plain("M", "N"),
    plain("M"),
    plain("N", "N"),
    plain("N", "M", "N"),
]
LIKELY = (4, 5, 3, 6, 7, 2, 9, 8, 1)
"""Sizes, those at which most loops run first."""

POINTS = 4000
"""About how many points a nest may have: the interpreters take microseconds for each."""


def generate(choices: Choices, profile: str = "") -> Program:
    """The program that `choices` describe; `profile` as in `features`."""
    b = Builder(choices, draw_features(choices, profile))
    _palette(b)
    _parameters(b)
    _definitions(b)
    if b.has("assume"):
        b.line(f"assume {b.pick(['N >= 0', 'N < 5000', 'M >= 0 and N >= 0'])}")
    readable, scalars = set(b.readable), dict(b.scalars)
    lines = [*b.heads, *_kernel(b, "random")]
    if b.has("several_kernels"):
        # Another kernel of the same file, called with the same arguments.
        b.arrays = {name: a for name, a in b.arrays.items() if a.mode not in ("temp", "local")}
        b.readable, b.scalars, b.lines = readable, scalars, []
        lines += _kernel(b, "another")
    return _called(b, "".join(line + "\n" for line in lines))


def _kernel(b: Builder, name: str) -> list[str]:
    """The lines of one kernel."""
    for _ in range(b.integer(1, 4)):
        _step(b)
    if b.has("time") and not any(f"in 0..{TIME}" in line for line in b.lines):
        time_loop(b)
    written = tuple(f"{a.name}[" for a in b.arrays.values() if a.mode in ("out", "inout"))
    if not any(line.strip().startswith(written) for line in b.lines) or b.chance(2):
        plain_nest(b)
    return [f"kernel {name}({', '.join(b.parameters_text)}):", *b.lines]


def _palette(b: Builder) -> None:
    """Few shapes and types, so that loops can meet."""
    if b.has("third_size"):
        b.sizes = ("N", "M", "K")
    shapes = list(SHAPES)
    if b.has("third_size"):
        shapes += [plain("N", "K"), plain("K", "M"), plain("N", "M", "K")]
    if b.has("four_dimensions"):
        shapes += [plain("N", "M", "N", "M")] * 3
    b.shapes = [b.pick(shapes[:4])] * 4 + [b.pick(shapes)] * 2
    if b.has("volumes"):
        b.shapes[:5] = [plain("N", "M", "K")] * 5
    b.dtypes = [b.pick(["f32", "f64", "i32", "i64"])] * 3
    for feature, dtypes in (
        ("narrow_integers", ("i8", "i16", "u8", "u16")), ("unsigned", ("u32", "u64", "u8")),
        ("storage_floats", ("f16", "bf16")), ("bools", ("bool",)),
    ):  # fmt: skip
        if b.has(feature):
            b.dtypes += [b.pick(dtypes)] * 2
    if b.has("mixed_dtypes"):
        b.dtypes += [b.pick(FLOATS[:2] + INTEGERS[:2]), b.pick(FLOATS + INTEGERS + ("bool",))]


def _parameters(b: Builder) -> None:
    """Arrays `a b c d` and what features need; every size stands alone in some extent."""
    params: list[str] = []
    for position in range(b.integer(2, 4)):
        mode = (
            "in" if position == 0 else "inout" if position == 1 else b.pick(["inout", "out", "in"])
        )
        shape = b.pick(b.shapes)
        if b.maybe("parity", 2) and mode == "inout":
            shape = (Extent("", 0, 2), Extent("N"))
        elif b.maybe("extents", 2):
            axis = b.integer(0, len(shape) - 1)
            size = shape[axis].size
            form = b.pick(
                [Extent(size, 1, 1), Extent(size, 2), Extent(size, 0), Extent(size, 1, 2)]
            )
            shape = (*shape[:axis], form, *shape[axis + 1 :])
        _add(b, params, Array("abcd"[position], b.pick(b.dtypes), shape, mode))
    if b.has("swaps"):
        first = b.arrays["b"]
        _add(b, params, Array("z", first.dtype, first.extents, "inout"))
    if b.has("whole_reductions"):
        _add(b, params, Array("w", b.pick(b.dtypes), (Extent("", 0, 1),), "inout"))
        if b.chance(2):
            _add(b, params, Array("w2", b.pick(b.dtypes), (Extent("", 0, 2),), "out"))
    if b.has("gathers") or b.has("scatters"):
        dtype = b.pick(["i32", "i64", "u8", "i16", "u32"])
        shape = b.pick([plain("N"), plain("M"), plain("N", "M")])
        _add(b, params, Array("g", dtype, shape, "in", "index"))
    if b.has("ragged"):
        size = b.pick(["N", "M"])
        _add(b, params, Array("rows", b.pick(["i32", "i64"]), (Extent(size, 1, 1),), "in", "rows"))
    alone = {str(e) for a in b.arrays.values() for e in a.extents}
    for size in b.sizes:
        if size not in alone:
            _add(b, params, Array("s" + size, "f32", (Extent(size),), "in"))
    if b.has("integer_parameters"):
        params.append(f"m: {b.pick(['i64', 'i32'])}")
        b.scalars["m"] = params[-1].split(": ")[1]
        b.parameters.append("m")
    if b.has("float_parameters"):
        dtype = b.pick([d for d in b.dtypes if d != "bool"] or ["f32"])
        params.append(f"x: {dtype}")
        b.scalars["x"] = dtype
    if b.has("const_parameters"):
        b.given["S1"] = b.constants["S1"] = b.integer(0, 3)
        b.scalars["S1"] = "i64"
        b.parameters.append("S1")
        params.append("S1: const i64")
    if b.has("time"):
        params.append(f"{TIME}: i64")
    b.parameters_text = params


def _add(b: Builder, params: list[str], array: Array) -> None:
    b.arrays[array.name] = array
    if array.mode != "out":
        b.readable.add(array.name)
    params.append(array.declared if array.mode == "in" else f"{array.mode} {array.declared}")


def _definitions(b: Builder) -> None:
    """Constants, tables and functions before the kernel."""
    if b.has("consts"):
        b.constants["K1"] = b.integer(1, 2)
        b.heads.append(f"const K1 = {b.constants['K1']}")
    if b.has("tables"):
        dtype = b.pick([d for d in b.dtypes if d in ("f32", "f64", "i32", "i64")] or ["f32"])
        values = ["0.25", "0.5", "0.25"] if dtype in FLOATS else ["1", "-2", "1"]
        b.heads.append(f"const W1: {dtype}[3] = [{', '.join(values)}]")
        b.tables["W1"] = dtype
        if b.has("unrolled_offsets"):
            b.heads.append("const OFF: i32[3] = [-1, 0, 2]")
    if b.has("funcs"):
        dtype = b.pick([d for d in b.dtypes if d != "bool"] or ["f32"])
        arrays, b.arrays = b.arrays, {}
        readable, b.readable = b.readable, set()
        scalars, features = b.scalars, b.features
        b.scalars, b.features = (
            {"u": dtype, "v": dtype},
            features - {"reductions", "tables", "funcs"},
        )
        constants, b.constants = b.constants, {}
        value = expression(b, dtype)
        b.heads.append(f"func f1(u: {dtype}, v: {dtype}) -> {dtype}:")
        if b.chance(2):
            b.heads.append(f"    let h: {dtype} = {value}")
            b.scalars["h"] = dtype
            value = expression(b, dtype)
        b.heads.append(f"    return {literal(b, dtype) + ' * u + v' if b.chance(3) else value}")
        b.arrays, b.readable, b.scalars, b.features = arrays, readable, scalars, features
        b.constants = constants
        b.functions["f1"] = (dtype, 2)


def _step(b: Builder) -> None:
    """One part of the program's body."""
    if b.maybe("branches", 2):
        return branched(b)
    if b.maybe("recurrences", 3):
        return recurrence(b)
    if b.maybe("time", 3):
        return time_loop(b)
    if b.maybe("whole_reductions", 3):
        return whole_reduction(b)
    if b.maybe("parallel_for", 3):
        return independent(b, parallel=True)
    if b.maybe("fuse_blocks", 3):
        return wished_block(b, "fuse")
    if b.maybe("nofuse_blocks", 3):
        return wished_block(b, "nofuse")
    if b.maybe("halves_of_rows", 3):
        return halves(b)
    form = b.integer(0, 6) + 2 * b.has("many_temps")
    if form >= 3 and form != 6:
        return temporary(b)
    unread = [
        a for a in b.arrays.values()
        if a.mode == "out" and a.name not in b.readable
        and all(e.size and e.scale == 1 and not e.extra for e in a.extents)
    ]  # fmt: skip
    if form == 6 and unread:
        return fill(b, b.pick(unread))
    return plain_nest(b)


# ----------------------------------------------------------------------------------- the call


def _called(b: Builder, text: str) -> Program:
    """Sizes, scalars, data and views to call the program with."""
    depth = max(b.deepest, *(len(a.extents) for a in b.arrays.values()))
    machine = "usual" if b.has("usual_machine") else "small" if b.has("small_machine") else "tiny"
    cap = {0: 9, 1: 9, 2: 9, 3: 6}.get(depth, 4)
    likely = [n for n in LIKELY if n <= cap] + [0] * (3 if b.has("empty_sizes") else 1)
    sizes = {size: b.pick(likely) for size in b.sizes}
    if b.has("tile_edges"):
        edges = {"tiny": (15, 16, 17, 31, 33), "small": (31, 32, 33, 64, 65)}.get(
            machine, (255, 256, 257, 127, 129, 1023, 1024, 1025) if depth == 1 else (31, 32, 33, 65)
        )
        size = b.pick(b.sizes)
        largest = int(POINTS ** (1 / max(1, depth))) if depth > 2 else POINTS
        fitting = [n for n in edges if n <= largest]
        if fitting:
            sizes[size] = b.pick(fitting)
    scalars: dict[str, int] = dict(b.given)
    if b.has("time"):
        scalars[TIME] = b.integer(0, 3)
    if b.has("integer_parameters"):
        scalars["m"] = b.integer(-1, 4)
    data = "special" if b.has("special_data") else "wide" if b.has("wide_data") else "random"
    arrays = [a for a in b.arrays.values() if a.mode not in ("temp", "local") and a.sizes]
    views: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    if b.has("shared_inputs"):
        pairs = [
            (one.name, other.name) for k, one in enumerate(arrays) for other in arrays[k + 1 :]
            if one.mode == other.mode == "in" and one.role == other.role == "data"
            and (one.dtype, one.extents) == (other.dtype, other.extents)
        ]  # fmt: skip
        shared = [b.pick(pairs)] if pairs else []
    if b.has("views"):
        for array in arrays:
            if b.chance(2) and array.name not in (name for pair in shared for name in pair):
                kinds = VIEWS if array.mode == "in" and array.role == "data" else VIEWS[:-1]
                views.append((array.name, b.pick(kinds)))
    together: list[tuple[str, str]] = []
    if b.has("aliasing"):
        taken = {name for pair in (*views, *shared) for name in pair}
        fit = [
            (one, other) for k, one in enumerate(arrays) for other in arrays[k + 1 :]
            if one.dtype == other.dtype and {one.mode, other.mode} != {"in"}
            and not taken & {one.name, other.name}
        ]  # fmt: skip
        if fit:
            one, other = b.pick(fit)
            kinds = TOGETHER if one.extents == other.extents else TOGETHER[:1]
            together = [(f"{one.name}+{other.name}", b.pick(kinds))]
    return Program(
        text, sizes, scalars, "small" if b.has("small_data") else data, b.integer(0, 3),
        "strict" if b.has("strict") else "fast", machine, b.has("faults"), tuple(views),
        tuple(shared), tuple(together), tuple(sorted(b.features)),
    )  # fmt: skip
