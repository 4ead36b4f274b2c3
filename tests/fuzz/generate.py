"""Whole random programs of the first slice, as `.lf` text with sizes to run them on.

Every program is right by construction: a loop over a size keeps margins (`for i in 1..N-2` may
read `a[i-1]` to `a[i+2]`), reads beyond them use an edge mode, a temporary or `out` array is read
only after a loop that fills all of it, divisors may be zero (that is defined), and an array is
touched only inside loops over all of its sizes, so that an empty one never is.

Draws are ordered simplest first, so hypothesis shrinks to short programs with few statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuzz.choices import Choices
from fuzz.program import Program

DTYPES = ("f32", "f64", "i32", "i64", "bool")
FLOATS = ("f32", "f64")
INTEGERS = ("i32", "i64")
ITERATORS = ("i", "j", "k", "l")
EDGES = ("clamp", "zero", "wrap", "reflect", "symmetric")


@dataclass(frozen=True)
class Iterator:
    """`name` runs in low .. size-high, in some order."""

    name: str
    size: str
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Array:
    """An array of the program; `levels` is a leading extent of 2 indexed by time parity."""

    name: str
    dtype: str
    extents: tuple[str, ...]
    mode: str


@dataclass
class Builder:
    """The program so far. `readable` holds names of arrays whose every element has a value.

    `simple` programs are what fusion is for: unit steps, offsets, clamped edges, writes at the
    loops' own iterators. The others use all of the language at once.
    """

    choices: Choices
    simple: bool = True
    shapes: list[tuple[str, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    readable: set[str] = field(default_factory=set)
    scope: list[Iterator] = field(default_factory=list)
    scalars: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    deepest: int = 0
    names: int = 0

    # ------------------------------------------------------------------------------ helpers

    def pick(self, options: Any) -> Any:
        """One of `options`, simplest first."""
        found = list(options)
        return found[self.choices.choice(len(found))]

    def integer(self, low: int, high: int) -> int:
        """An integer between the two, both included; the nearest to 0 is simplest."""
        return sorted(range(low, high + 1), key=abs)[self.choices.choice(high - low + 1)]

    def chance(self, one_in: int) -> bool:
        """True once in `one_in`; False is simpler."""
        return self.choices.choice(one_in) == one_in - 1

    def fresh(self, prefix: str) -> str:
        """A name nothing else has."""
        self.names += 1
        return f"{prefix}{self.names}"

    def line(self, text: str) -> None:
        """Adds one line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    def enter(self, *iterators: Iterator) -> None:
        """Opens a scope with these iterators."""
        self.scope.extend(iterators)
        self.deepest = max(self.deepest, sum(it.size != "steps" for it in self.scope))

    def leave(self, count: int) -> None:
        """Closes the `count` innermost iterators."""
        del self.scope[len(self.scope) - count :]

    def sizes_in_scope(self) -> set[str]:
        """Sizes that some iterator runs over (so they are at least 1 here)."""
        return {it.size for it in self.scope}

    def touchable(self, array: Array) -> bool:
        """Whether every extent of `array` has an iterator here."""
        here = self.sizes_in_scope()
        return all(extent == "2" or extent in here for extent in array.extents)

    # -------------------------------------------------------------------------- subscripts

    def subscript(self, extent: str, wild: bool, plain: bool = False) -> str:
        """An index into a dimension of `extent`: in bounds, or anything near if `wild`."""
        time = next((it for it in self.scope if it.size == "steps"), None)
        if extent == "2":
            if time is None:
                return self.pick(["0", "1"])
            return self.pick([f"{time.name} % 2", f"({time.name} + 1) % 2", "0"])
        it = self.pick([it for it in self.scope if it.size == extent][::-1])
        if plain:
            return it.name
        form = 0 if self.simple else self.integer(0, 9)
        if self.simple and self.chance(2):
            return it.name
        if wild:
            offset = self.integer(-4, 4)
            if form >= 8:
                return f"{extent} - {it.name}{offset:+d}" if offset else f"{extent} - {it.name}"
            if form == 7:
                return f"2 * {it.name}{offset:+d}" if offset else f"2 * {it.name}"
        elif form == 9:
            offset = self.integer(-it.high, it.low)
            return f"{extent} - 1 - {it.name}" + (f"{offset:+d}" if offset else "")
        elif form == 8:
            return self.pick(["0", f"{it.name} // 2", f"{it.name} - {it.name} % 2"])
        else:
            offset = self.integer(-it.low, it.high)
        return f"{it.name}{offset:+d}" if offset else it.name

    def load(self, array: Array) -> str:
        """A read of `array`, at any element that is in bounds, or with an edge mode."""
        wild = self.chance(6) and "2" not in array.extents
        modes = EDGES[:2] if self.simple else EDGES
        index = ", ".join(self.subscript(extent, wild) for extent in array.extents)
        return f"{array.name}.{self.pick(modes)}[{index}]" if wild else f"{array.name}[{index}]"

    def target(self, array: Array) -> str:
        """An element of `array` to write."""
        plain = self.simple or not self.chance(6)
        index = ", ".join(self.subscript(extent, False, plain) for extent in array.extents)
        return f"{array.name}[{index}]"

    # ------------------------------------------------------------------------- expressions

    def literal(self, dtype: str) -> str:
        """A number of `dtype`."""
        if dtype == "bool":
            return self.pick(["true", "false"])
        if dtype in FLOATS:
            return self.pick(["1.0", "0.5", "2.0", "0.0", "0.1", "(-1.5)"])
        return self.pick(["1", "2", "0", "3", "7", "(-3)"])

    def leaf(self, dtype: str) -> str:
        """A load, a scalar, an iterator or a literal."""
        options = [self.arrays[name] for name in sorted(self.readable)]
        options = [array for array in options if self.touchable(array)]
        same = [array for array in options if array.dtype == dtype]
        if same and not self.chance(4):
            made = [array for array in same if array.mode == "temp"]
            # The latest temporary, so that loops feed each other.
            return self.load(
                made[-1] if made and self.simple and not self.chance(3) else self.pick(same)
            )
        form = self.integer(0, 3)
        scalars = [name for name, held in self.scalars.items() if held == dtype]
        if form == 1 and scalars:
            return self.pick(scalars)
        if form == 2 and self.scope and dtype != "bool":
            return f"{dtype}({self.pick(self.scope[::-1]).name})"
        if form == 3 and options:
            return f"{dtype}({self.load(self.pick(options))})"
        return self.literal(dtype)

    def expression(self, dtype: str, depth: int = 2) -> str:
        """An expression of `dtype`, of at most `depth` nested operations."""
        if depth <= 0 or self.chance(4):
            return self.leaf(dtype)
        if self.chance(8):
            condition = self.condition(depth - 1)
            then, otherwise = self.expression(dtype, depth - 1), self.expression(dtype, depth - 1)
            return f"({then} if {condition} else {otherwise})"
        if self.chance(10):
            reduced = self.reduction(dtype)
            if reduced:
                return reduced
        left = self.expression(dtype, depth - 1)
        if dtype == "bool":
            if self.chance(3):
                return f"(not {left})"
            if self.chance(2):
                return self.comparison(depth - 1)
            return f"({left} {self.pick(['and', 'or', '^', '|', '&', '==', '!='])} {self.expression(dtype, depth - 1)})"
        if self.chance(6):
            if dtype in FLOATS:
                call = self.pick(
                    ["abs({})", "sqrt(abs({}))", "(-{})", "floor({})", "tanh({})", "exp({})"]
                )
            else:
                call = self.pick(["(-{})", "(~{})", "({} << 3)", "({} >> 2)", "({} >> 40)"])
            # A bare literal is weak: shifted far, it would not fit its type.
            return call.format(f"{dtype}({left})" if self.literal_only(left) else left)
        right = self.expression(dtype, depth - 1)
        operators = ["+", "-", "*", "min", "max"]
        operators += ["/"] if dtype in FLOATS else ["//", "%", "&", "|", "^"]
        operator = self.pick(operators)
        if operator in ("/", "//", "%"):
            right = self.leaf(dtype)
            if right == self.literal_only(right):
                right = f"{dtype}({right})" if dtype != "bool" else right
        if operator in ("min", "max"):
            return f"{operator}({left}, {right})"
        return f"({left} {operator} {right})"

    @staticmethod
    def literal_only(text: str) -> str:
        """`text` where it is a bare literal (a weak number), else ''."""
        return text if not any(c.isalpha() for c in text) else ""

    def comparison(self, depth: int = 1) -> str:
        """Two values of one type compared; a chain at times."""
        dtype = self.pick(DTYPES[:4])
        parts = [self.expression(dtype, depth)]
        for _ in range(2 if self.chance(5) else 1):
            parts += [self.pick(["<", "<=", ">", ">=", "==", "!="]), self.expression(dtype, depth)]
        return f"({' '.join(parts)})"

    def condition(self, depth: int = 1) -> str:
        """A condition on iterators (exact) or on data."""
        if self.scope and self.chance(2):
            it = self.pick(self.scope[::-1])
            others = [other.name for other in self.scope if other is not it]
            bound = self.pick([str(self.integer(0, 4)), it.size + " - 2", *others])
            form = self.integer(0, 5)
            if form == 5:
                return f"{it.name} % 2 == {self.integer(0, 1)}"
            return f"{it.name} {['<', '>=', '==', '!=', '<='][form]} {bound}"
        return self.comparison(depth) if depth > 0 else self.leaf("bool")

    def reduction(self, dtype: str) -> str:
        """A reduction of `dtype` over one more iterator, or '' where none fits."""
        depth = sum(it.size != "steps" for it in self.scope)
        if depth >= 3:
            return ""
        name = "pqr"[sum(it.name in "pqr" for it in self.scope)]
        size = self.pick(["N", "M"])
        it, header = self.range(name, size)
        self.enter(it)
        if dtype == "bool":
            op, inner = self.pick(["any", "all"]), "bool"
        else:
            op, inner = self.pick(["sum", "min", "max", "prod"]), dtype
        body = self.expression(inner, 1)
        if self.literal_only(body):  # a literal alone would be i64 or f64
            body = f"{inner}({body})"
        self.leave(1)
        text = f"{op}({header}: {body})"
        return f"i32({text})" if dtype == "i32" else text

    # -------------------------------------------------------------------------- statements

    def range(self, name: str, size: str, full: bool = False) -> tuple[Iterator, str]:
        """An iterator over `size` and its `i in a..b step k`; `full` covers every value."""
        low, high = (0, 0) if full else (self.integer(0, 2), self.integer(0, 2))
        form = 0 if full or (self.simple and not self.chance(8)) else self.integer(0, 9)
        peers = [it for it in self.scope if it.size == size]
        upper = f"{size} - {high}" if high else size
        if form == 6 and peers:  # lower triangle
            peer = self.pick(peers)
            low, high = min(low, peer.low), peer.high
            return Iterator(name, size, low, high), f"{name} in {low}..{peer.name} + 1"
        if form == 7 and peers:  # upper triangle
            peer = self.pick(peers)
            return Iterator(name, size, peer.low, high), f"{name} in {peer.name}..{upper}"
        if form == 8:
            return Iterator(
                name, size, low, high
            ), f"{name} in {low}..{upper} step {self.integer(2, 3)}"
        if form == 9:
            step = self.pick(["-1", "-2"])
            header = f"{name} in {size} - {high + 1}..{low - 1} step {step}"
            return Iterator(name, size, low, high), header
        return Iterator(name, size, low, high), f"{name} in {low}..{upper}"

    def nest(self, sizes: tuple[str, ...], full: bool, body: Any) -> None:
        """A loop nest over `sizes` around what `body()` adds."""
        used = {it.name for it in self.scope}
        free = [name for name in ITERATORS if name not in used]
        headers: list[str] = []
        for name, size in zip(free, sizes):
            it, header = self.range(name, size, full)
            self.enter(it)
            headers.append(header)
        split = (
            self.integer(1, len(headers)) if len(headers) > 1 and self.chance(3) else len(headers)
        )
        self.line(f"for {', '.join(headers[:split])}:")
        self.indent += 1
        if split < len(headers):
            self.line(f"for {', '.join(headers[split:])}:")
            self.indent += 1
        before = set(self.scalars)
        body()
        self.scalars = {k: v for k, v in self.scalars.items() if k in before}
        self.indent -= 1 + (split < len(headers))
        self.leave(len(headers))

    def writable(self) -> list[Array]:
        """Arrays that may be written here."""
        found = [a for a in self.arrays.values() if a.mode != "in" and self.touchable(a)]
        return [a for a in found if a.mode == "inout" or a.name in self.readable or a.mode == "out"]

    def store(self) -> None:
        """An assignment or an update."""
        options = self.writable()
        if not options:
            return
        array = self.pick(options)
        target = self.target(array)
        if self.chance(3) and array.name in self.readable:
            operators = {
                "f": ["+=", "-=", "*=", "min=", "max="],
                "i": ["+=", "-=", "*=", "min=", "max=", "&=", "|=", "^="],
                "b": ["&=", "|=", "^="],
            }
            self.line(
                f"{target} {self.pick(operators[array.dtype[0]])} {self.expression(array.dtype)}"
            )
        else:
            self.line(f"{target} = {self.expression(array.dtype)}")

    def statements(self, budget: int) -> None:
        """Between one and `budget` statements; always at least one store where possible."""
        for _ in range(self.integer(1, 1 if self.simple else budget)):
            form = self.integer(0, 9)
            depth = sum(it.size != "steps" for it in self.scope)
            if form == 5:
                dtype = self.pick(DTYPES)
                name = self.fresh("v")
                value = self.expression(dtype)
                self.line(f"let {name}: {dtype} = {value}")
                self.scalars[name] = dtype
            elif form == 6:
                self.line(f"if {self.condition()}:")
                self.block(1)
                if self.chance(3):
                    self.line(f"elif {self.condition()}:")
                    self.block(1)
                if self.chance(2):
                    self.line("else:")
                    self.block(1)
            elif form == 7 and depth < 3 and self.scope:
                self.nest(
                    (self.pick(["N", "M"]),), False, lambda: self.filled(lambda: self.statements(1))
                )
            elif form == 8 and depth < 3:
                self.accumulate()
            else:
                self.store()
        if form in (5, 7, 8):
            self.store()

    def filled(self, body: Any) -> None:
        """`body()`, and a harmless statement if it added nothing (a suite is never empty)."""
        before = len(self.lines)
        body()
        if len(self.lines) == before:
            self.line(f"let {self.fresh('v')}: i64 = 0")

    def block(self, budget: int) -> None:
        """An indented suite with its own scalars."""
        before = dict(self.scalars)
        self.indent += 1
        self.filled(lambda: self.statements(budget))
        self.indent -= 1
        self.scalars = before

    def accumulate(self) -> None:
        """A `var` carried around an inner loop."""
        dtype = self.pick(("f32", "f64", "i32", "i64"))
        name = self.fresh("s")
        self.line(f"var {name}: {dtype} = {self.literal(dtype)}")
        self.scalars[name] = dtype

        def body() -> None:
            if self.chance(3):
                self.line(f"{name} = {name} + {self.expression(dtype, 1)}")
            else:
                self.line(
                    f"{name} {self.pick(['+=', '*=', 'min=', 'max='])} {self.expression(dtype, 1)}"
                )
            if self.chance(3):
                self.store()

        self.nest((self.pick(["N", "M"]),), False, body)

    def fill(self, array: Array) -> None:
        """A nest that writes every element of `array`, which may then be read."""
        axes = list(range(len(array.extents)))
        order = self.pick([axes, axes[::-1]])

        def body() -> None:
            names: dict[int, str] = {}
            for it, axis in zip(self.scope[-len(axes) :], order):
                names[axis] = it.name
            index = [names[axis] for axis in axes]
            if self.chance(5):
                index[0] = f"{array.extents[0]} - 1 - {index[0]}"
            self.line(f"{array.name}[{', '.join(index)}] = {self.expression(array.dtype)}")

        self.nest(tuple(array.extents[axis] for axis in order), True, body)
        self.readable.add(array.name)

    def temporary(self) -> None:
        """A temporary, filled and then read by whatever comes later."""
        array = Array(self.fresh("t"), self.pick(self.dtypes), self.pick(self.shapes), "temp")
        self.line(f"temp {array.name}: {array.dtype}[{', '.join(array.extents)}]")
        self.arrays[array.name] = array
        self.fill(array)

    def recurrence(self) -> None:
        """`a[i] = a[i-1] op e` along one dimension of an array that holds values."""
        options = [
            a
            for a in self.arrays.values()
            if a.mode != "in"
            and a.name in self.readable
            and "2" not in a.extents
            and a.dtype != "bool"
        ]
        if not options:
            return self.fallback()
        array = self.pick(options)
        axis = self.integer(0, len(array.extents) - 1)
        used = {it.name for it in self.scope}
        names = [name for name in ITERATORS if name not in used][: len(array.extents)]
        distance = self.integer(1, 2)
        headers, before = [], list(names)
        for position, (name, extent) in enumerate(zip(names, array.extents)):
            along = position == axis
            low = distance if along else 0
            self.enter(Iterator(name, extent, low, 0))
            headers.append(f"{name} in {low}..{extent}")
            if along:
                before[position] = f"{name}-{distance}"
        element = f"{array.name}[{', '.join(names)}]"
        last = f"{array.name}[{', '.join(before)}]"
        self.line(f"for {', '.join(headers)}:")
        operator = self.pick(["+", "*", "-"])
        self.lines.append(
            "    " * (self.indent + 1)
            + f"{element} = {last} {operator} {self.expression(array.dtype, 1)}"
        )
        self.leave(len(names))

    def time(self) -> None:
        """A time loop around one or two nests, with a swap where two arrays match."""
        self.enter(Iterator("t", "steps"))
        self.line("for t in 0..steps:")
        self.indent += 1
        for _ in range(self.integer(1, 2)):
            self.plain()
        pairs = [
            (a.name, b.name)
            for a in self.arrays.values()
            for b in self.arrays.values()
            if a.name < b.name
            and a.mode == b.mode == "inout"
            and (a.dtype, a.extents) == (b.dtype, b.extents)
        ]
        if pairs and self.chance(2):
            self.line("swap {}, {}".format(*self.pick(pairs)))
        self.indent -= 1
        self.leave(1)

    def fallback(self) -> None:
        """A plain nest."""
        self.plain()

    def plain(self) -> None:
        """A nest over the sizes of some array that is written."""
        array = self.pick([a for a in self.arrays.values() if a.mode != "in"])
        sizes = tuple(extent for extent in array.extents if extent != "2")
        if len(sizes) < 3 and self.chance(4):
            sizes += (self.pick(["N", "M"]),)
        self.nest(
            sizes, False, lambda: self.filled(lambda: self.statements(2 if len(sizes) < 3 else 1))
        )


LIKELY = (4, 5, 3, 6, 7, 2, 9, 8, 1, 0)
"""Sizes, those at which most loops run first."""

SHAPES = [("N",), ("N", "M"), ("M",), ("M", "N"), ("N", "N"), ("N", "M", "N")]


def generate(choices: Choices, profile: str = "") -> Program:
    """A whole program with sizes from 0 to 9 (to 6 or 4 where nests are deep)."""
    b = Builder(choices)
    b.simple = not b.chance(5)
    b.shapes, b.dtypes = SHAPES, list(DTYPES)
    if b.simple:  # a palette: most arrays have one shape and one type, so that loops can meet
        b.shapes = [b.pick(SHAPES[:4])] * 5 + [b.pick(SHAPES)]
        b.dtypes = [b.pick(DTYPES)] * 4 + [b.pick(DTYPES)]
    timed = b.chance(4)
    for position in range(b.integer(2, 4)):
        mode = (
            "in" if position == 0 else "inout" if position == 1 else b.pick(["inout", "out", "in"])
        )
        shapes = b.shapes + ([("2", "N")] if timed and mode == "inout" else [])
        array = Array("abcd"[position], b.pick(b.dtypes), b.pick(shapes), mode)
        b.arrays[array.name] = array
        if mode != "out":
            b.readable.add(array.name)
    if timed:
        first = b.arrays["b"]
        b.arrays["z"] = Array("z", first.dtype, first.extents, "inout")
        b.readable.add("z")
    params = []
    for a in b.arrays.values():
        mode = "" if a.mode == "in" else a.mode + " "
        params.append(f"{mode}{a.name}: {a.dtype}[{', '.join(a.extents)}]")
    named = {e for a in b.arrays.values() for e in a.extents}
    # Each size must stand alone in some extent, or loops over it would name nothing.
    for size in ("N", "M"):
        if size not in named:
            b.arrays["w" + size] = Array("w" + size, "f32", (size,), "in")
            b.readable.add("w" + size)
            params.append(f"w{size}: f32[{size}]")
    if timed:
        params.append("steps: i64")

    for _ in range(b.integer(1, 4)):
        form = b.integer(0, 7)
        if form <= 2:
            b.plain()
        elif form <= 4:
            b.temporary()
        elif form == 5:
            unread = [a for a in b.arrays.values() if a.mode == "out" and a.name not in b.readable]
            if unread:
                b.fill(b.pick(unread))
            else:
                b.plain()
        elif form == 6:
            b.recurrence()
        elif timed:
            b.time()
        else:
            b.plain()
    if timed and not any("in 0..steps" in line for line in b.lines):
        b.time()
    if not any(
        line.strip().startswith(
            tuple(f"{a.name}[" for a in b.arrays.values() if a.mode not in ("in", "temp"))
        )
        for line in b.lines
    ):
        b.plain()
    if b.simple and any(a.mode == "temp" for a in b.arrays.values()):
        b.plain()
    text = f"kernel random({', '.join(params)}):\n" + "\n".join(b.lines) + "\n"
    cap = {0: 9, 1: 9, 2: 9, 3: 6}.get(b.deepest, 4)
    sizes = {size: b.pick([n for n in LIKELY if n <= cap]) for size in ("N", "M")}
    scalars = {"steps": b.integer(0, 3)} if timed else {}
    machine = b.pick(["tiny"] * 6 + ["small", "usual"])
    return Program(text, sizes, scalars, seed=b.integer(0, 3), machine=machine)
