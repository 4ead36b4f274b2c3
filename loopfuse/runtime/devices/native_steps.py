"""The steps of a manifest as native code, for CPUs: its launches one after the other, and the loops around them. Python would
take a microsecond for each launch, and many are worth less.

    launch a                                 i64 steps(words, place): everything from that place on, until a twentieth
    for t in 0..steps:                       of a second is over; the place to go on from, or `OVER`
        launch b; launch c

Python calls again for the rest, so that it may be interrupted. What a launch is worth decides, as everywhere
(`sharing`), whether its caller runs it or threads do; those wait for the next one, awake (`native_pool`).

One array of 64-bit words has all that the code is told: of the pool, of each launch, and the integers that formulas read. Place 2k
is the beginning of step k, and place 2k + 1 an iteration of its loop, which stands in a word.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from loopfuse.runtime.builtins import released
from loopfuse.runtime.devices import native_pool
from loopfuse.runtime.devices.sharing import (
    ALONE_NANOSECONDS,
    BYTES_PER_NANOSECOND,
    CHUNK_NANOSECONDS,
    CHUNKS_PER_THREAD,
    THREAD_NANOSECONDS,
    Work,
)
from loopfuse.runtime.devices.steps import launches_of
from loopfuse.runtime.formulas import names_in, parsed

PATIENCE_NANOSECONDS = 50_000_000
"""After so long Python is asked whether somebody wants an end of it."""

LAUNCH, STATE, THREADS, TOUCHED, ITERATION, FIRST_SITE = range(6)
"""The words: the pool's function and its state, threads at most, what a launch is worth of which nothing is known (in
nanoseconds), the iteration to go on with; then of each launch the address of its argument block and the picoseconds of an
iteration (below 0: not known); then the integers."""

OVER = -1
"""The place behind the last step."""

FUNCTION_NAME = "loopfuse.steps"

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NativeSteps:
    """The steps of a manifest: their launches in text order, and the integers that formulas read."""

    steps: tuple[Step, ...]
    launches: tuple[Step, ...]
    names: tuple[str, ...]

    def words(self, values: Mapping[str, Any]) -> Any:
        """An array for the words, with the integers in it; None where one of them is none."""
        found = [values.get(name) for name in self.names]
        if not all(isinstance(value, int) and -(1 << 63) <= value < 1 << 63 for value in found):
            return None
        return (ctypes.c_int64 * (FIRST_SITE + 2 * len(self.launches) + len(found)))(
            *[0] * (FIRST_SITE + 2 * len(self.launches)), *found
        )

    def tell(self, words: Any, pool: tuple[int, int, int], blocks: Sequence[int], works: Sequence[Work]) -> None:
        """Write what the pool is (its function, its state, threads at most) and what the launches are."""
        words[LAUNCH], words[STATE], words[THREADS] = pool
        words[TOUCHED] = works[0].touched // BYTES_PER_NANOSECOND if works else 0
        for site, (block, work) in enumerate(zip(blocks, works, strict=True)):
            words[FIRST_SITE + 2 * site] = block
            words[FIRST_SITE + 2 * site + 1] = -1 if work.picoseconds is None else work.picoseconds


def native_steps(manifest: Mapping[str, Any]) -> NativeSteps | None:
    """The steps of a manifest; None where there is nothing between Python and a launch, or no launch at all."""
    steps: tuple[Step, ...] = tuple(manifest["steps"])
    launches = tuple(launches_of(steps))
    if not launches or (len(steps) == 1 and "launch" in steps[0]):
        return None
    names: set[str] = set()
    for step in steps:
        variables = {loop["var"] for loop in _loops(step)}
        names |= {name for text in _formulas(step) for name in names_in(text)} - variables
    return NativeSteps(steps, launches, tuple(sorted(names)))


def steps_text(found: NativeSteps) -> str:
    """The IR of the function, to stand beside the adapters that it calls."""
    return f"{_DEAL}\n{_Writer(found).text()}"


Run = Callable[[int, int], int]
"""The words' address, and the place to go on from; the next such place."""

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def steps_caller(run: Any, words: Any, keep: Any) -> Callable[[], None]:
    """Runs all steps, with a look at Python's signals now and then; `keep` is what the words tell of."""
    address = ctypes.addressof(words)
    first = released(ctypes.cast(run, ctypes.c_void_p).value or 0, (address, 0), answers=True) or partial(run, address, 0)

    def whole(keep: Any = (words, keep)) -> None:
        place = first()
        while place != OVER:
            place = run(address, place)

    return whole


def _loops(step: Step) -> Iterator[Step]:
    if "loop" in step:
        yield step["loop"]
        for inner in step["loop"]["body"]:
            yield from _loops(inner)


def _formulas(step: Step) -> Iterator[str]:
    """Grids and bounds."""
    for one in launches_of([step]):
        yield str(one["grid"])
    for loop in _loops(step):
        yield str(loop["lower"])
        yield str(loop["upper"])


_FIELDS = "\n  ".join(
    f"%f{word} = getelementptr i64, ptr %launch.words, i64 {word}\n  store i64 {value}, ptr %f{word}"
    for word, value in (
        (native_pool.ADAPTER, "%adapter.word"),
        (native_pool.BLOCK, "%block.word"),
        (native_pool.GRID, "%grid"),
        (native_pool.STEP, "%step"),
        (native_pool.CHUNKS, "%chunks"),
        (native_pool.THREADS, "%team"),
    )
)

# Runs a launch over a grid: alone, or on so many threads, in such chunks, as `sharing.share_out` says.
_DEAL = f"""
{native_pool.CLOCK}
define internal i64 @least(i64 %a, i64 %b) alwaysinline {{
  %less = icmp slt i64 %a, %b
  %least = select i1 %less, i64 %a, i64 %b
  ret i64 %least
}}

define internal i64 @largest(i64 %a, i64 %b) alwaysinline {{
  %less = icmp slt i64 %a, %b
  %largest = select i1 %less, i64 %b, i64 %a
  ret i64 %largest
}}

define internal i64 @quotient(i64 %a, i64 %b) {{
  %none = icmp eq i64 %b, 0
  br i1 %none, label %zero, label %some
zero:
  ret i64 0
some:
  %q = sdiv i64 %a, %b
  %back = mul i64 %q, %b
  %left = sub i64 %a, %back
  %exact = icmp eq i64 %left, 0
  %signs = xor i64 %left, %b
  %apart = icmp slt i64 %signs, 0
  %inexact = xor i1 %exact, true
  %down = and i1 %inexact, %apart
  %less = sub i64 %q, 1
  %floor = select i1 %down, i64 %less, i64 %q
  ret i64 %floor
}}

define internal i64 @remainder(i64 %a, i64 %b) {{
  %none = icmp eq i64 %b, 0
  %q = call i64 @quotient(i64 %a, i64 %b)
  %back = mul i64 %q, %b
  %left = sub i64 %a, %back
  %found = select i1 %none, i64 0, i64 %left
  ret i64 %found
}}

define internal void @deal(ptr %words, ptr %site, ptr %adapter, i64 %grid) {{
entry:
  %block.word = load i64, ptr %site
  %picoseconds.at = getelementptr i64, ptr %site, i64 1
  %picoseconds = load i64, ptr %picoseconds.at
  %known = icmp sge i64 %picoseconds, 0
  %touched.at = getelementptr i64, ptr %words, i64 {TOUCHED}
  %touched = load i64, ptr %touched.at
  %all = mul i64 %grid, %picoseconds
  %nanoseconds = sdiv i64 %all, 1000
  %cost = select i1 %known, i64 %nanoseconds, i64 %touched
  %threads.at = getelementptr i64, ptr %words, i64 {THREADS}
  %threads.most = load i64, ptr %threads.at
  %threads.cost = sdiv i64 %cost, {THREAD_NANOSECONDS}
  %threads.grid = call i64 @least(i64 %threads.most, i64 %grid)
  %threads = call i64 @least(i64 %threads.grid, i64 %threads.cost)
  %several = icmp sgt i64 %threads, 1
  %much = icmp sge i64 %cost, {ALONE_NANOSECONDS}
  %shared = and i1 %several, %much
  br i1 %shared, label %share, label %alone
alone:
  %chunk = alloca [2 x i64], align 16
  %arguments = alloca ptr, align 8
  store ptr %chunk, ptr %arguments
  store i64 0, ptr %chunk
  %end.at = getelementptr i64, ptr %chunk, i64 1
  store i64 %grid, ptr %end.at
  %block = inttoptr i64 %block.word to ptr
  call void %adapter(ptr %arguments, ptr null, ptr null, ptr %block)
  ret void
share:
  %chunks.threads = mul i64 %threads, {CHUNKS_PER_THREAD}
  %chunks.cost = sdiv i64 %cost, {CHUNK_NANOSECONDS}
  %chunks.least = call i64 @largest(i64 %threads, i64 %chunks.cost)
  %chunks.most = call i64 @least(i64 %grid, i64 %chunks.threads)
  %wanted = call i64 @least(i64 %chunks.most, i64 %chunks.least)
  %step = sdiv i64 %grid, %wanted
  %grid.up = add i64 %grid, %step
  %grid.last = sub i64 %grid.up, 1
  %chunks = sdiv i64 %grid.last, %step
  %team = call i64 @least(i64 %threads, i64 %chunks)
  %launch.words = alloca [{native_pool.FIELDS_COUNT} x i64], align 16
  %adapter.word = ptrtoint ptr %adapter to i64
  {_FIELDS}
  %launch.at = getelementptr i64, ptr %words, i64 {LAUNCH}
  %launch = load ptr, ptr %launch.at
  %state.at = getelementptr i64, ptr %words, i64 {STATE}
  %state = load ptr, ptr %state.at
  call void %launch(ptr %state, ptr %launch.words)
  ret void
}}
"""


class _Writer:
    """Writes the function."""

    def __init__(self, native: NativeSteps) -> None:
        self._native = native
        self._lines: list[str] = []
        self._count = 0
        self._site = 0
        self._cells: dict[str, str] = {}
        self._started = ""

    def text(self) -> str:
        """The function."""
        native = self._native
        first_name = FIRST_SITE + 2 * len(native.launches)
        for step in native.steps:
            for loop in _loops(step):
                self._cell(loop["var"])
        for number, name in enumerate(native.names):
            self._add(f"store i64 {self._word(first_name + number)}, ptr {self._cell(name)}")
        self._started = self._made("call i64 @now()")
        places = [f"i64 {2 * k}, label %step.{k}" for k in range(len(native.steps))]
        places += [f"i64 {2 * k + 1}, label %inside.{k}" for k, step in enumerate(native.steps) if "loop" in step]
        self._add(f"switch i64 %place, label %step.{len(native.steps)} [ {' '.join(places)} ]")
        for number, step in enumerate(native.steps):
            self._add(f"step.{number}:")
            if "loop" in step:
                self._outermost(number, step["loop"])
            else:
                self._launch(step["launch"], ())
                self._unless_late(2 * number + 2, f"step.{number + 1}")
        self._add(f"step.{len(native.steps)}:", f"ret i64 {OVER}")
        cells = [f"  {cell} = alloca i64, align 8" for cell in self._cells.values()]
        return "\n".join(
            [f'define i64 @"{FUNCTION_NAME}"(ptr %words, i64 %place) {{', "entry:", *cells, *self._lines, "}"]
        )

    def _word(self, number: int) -> str:
        return self._made(f"load i64, ptr {self._made(f'getelementptr i64, ptr %words, i64 {number}')}")

    def _unless_late(self, place: int, following: str) -> None:
        """Go on with what follows; where patience is over, back to Python, for which that is a place."""
        took = self._made(f"sub i64 {self._made('call i64 @now()')}, {self._started}")
        late = self._made(f"icmp sgt i64 {took}, {PATIENCE_NANOSECONDS}")
        back = self._label("back")
        self._add(f"br i1 {late}, label %{back}, label %{following}", f"{back}:", f"ret i64 {place}")

    def _outermost(self, number: int, loop: Step) -> None:
        """The loop of a step, from its lower bound or from where it was left."""
        cell, step = self._cell(loop["var"]), int(loop["step"])
        begun, look, turn = (self._label(stem) for stem in ("begun", "look", "turn"))
        self._add(f"store i64 {self._formula(str(loop['lower']))}, ptr {cell}", f"br label %{begun}")
        self._add(f"inside.{number}:")
        self._add(f"store i64 {self._word(ITERATION)}, ptr {cell}", f"br label %{begun}", f"{begun}:")
        upper = self._formula(str(loop["upper"]))
        self._add(f"br label %{look}", f"{look}:")
        at = self._made(f"load i64, ptr {cell}")
        inside = self._made(f"icmp {'slt' if step > 0 else 'sgt'} i64 {at}, {upper}")
        self._add(f"br i1 {inside}, label %{turn}, label %step.{number + 1}", f"{turn}:")
        self._write(loop["body"], (loop["var"],))
        following = self._made(f"add i64 {at}, {step}")
        self._add(f"store i64 {following}, ptr {cell}")
        self._add(f"store i64 {following}, ptr {self._made(f'getelementptr i64, ptr %words, i64 {ITERATION}')}")
        self._unless_late(2 * number + 1, look)

    def _add(self, *lines: str) -> None:
        self._lines += [line if line.endswith(":") else "  " + line for line in lines]

    def _made(self, operation: str) -> str:
        self._count += 1
        self._add(f"%x{self._count} = {operation}")
        return f"%x{self._count}"

    def _label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}.{self._count}"

    def _cell(self, name: str) -> str:
        return self._cells.setdefault(name, f"%cell{len(self._cells)}")

    def _write(self, steps: Sequence[Step], variables: tuple[str, ...]) -> None:
        for step in steps:
            if "launch" in step:
                self._launch(step["launch"], variables)
            else:
                loop = step["loop"]
                lower, upper = (self._formula(str(loop[end])) for end in ("lower", "upper"))
                self._loop(loop, lower, upper, variables)

    def _loop(self, loop: Step, lower: str, upper: str, variables: tuple[str, ...]) -> None:
        """A loop inside another, between two values."""
        step, cell = int(loop["step"]), self._cell(loop["var"])
        look, turn, over = (self._label(stem) for stem in ("look", "turn", "over"))
        self._add(f"store i64 {lower}, ptr {cell}", f"br label %{look}", f"{look}:")
        at = self._made(f"load i64, ptr {cell}")
        inside = self._made(f"icmp {'slt' if step > 0 else 'sgt'} i64 {at}, {upper}")
        self._add(f"br i1 {inside}, label %{turn}, label %{over}", f"{turn}:")
        self._write(loop["body"], (*variables, loop["var"]))
        self._add(f"store i64 {self._made(f'add i64 {at}, {step}')}, ptr {cell}")
        self._add(f"br label %{look}", f"{over}:")

    def _launch(self, one: Step, variables: tuple[str, ...]) -> None:
        """before: the grid      after: if it is not empty: loop variables among the arguments, and all iterations"""
        at = self._made(f"getelementptr i64, ptr %words, i64 {FIRST_SITE + 2 * self._site}")
        self._site += 1
        grid = self._formula(str(one["grid"]))
        run, over = self._label("run"), self._label("past")
        some = self._made(f"icmp sgt i64 {grid}, 0")
        self._add(f"br i1 {some}, label %{run}, label %{over}", f"{run}:")
        block = self._made(f"load ptr, ptr {at}")
        for slot, argument in enumerate(one["arguments"]):
            if argument["kind"] == "value" and argument["name"] in variables:
                value = self._made(f"load i64, ptr {self._cells[argument['name']]}")
                place = self._made(f"getelementptr i64, ptr {block}, i64 {slot}")
                self._add(f"store i64 {value}, ptr {place}")
        self._add(f'call void @deal(ptr %words, ptr {at}, ptr @"{one["name"]}.adapter", i64 {grid})')
        self._add(f"br label %{over}", f"{over}:")

    # ---- formulas

    def _formula(self, text: str) -> str:
        return self._value(parsed(text).body)

    def _value(self, node: ast.expr) -> str:
        """An integer; a condition is 0 or 1."""
        match node:
            case ast.Constant(value=value):
                return str(int(value))  # pyright: ignore[reportArgumentType]  # `parsed`: an int or a bool
            case ast.Name(id=name):
                return self._made(f"load i64, ptr {self._cells[name]}")
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._made(f"sub i64 0, {self._value(operand)}")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._made(f"zext i1 {self._made(f'icmp eq i64 {self._value(operand)}, 0')} to i64")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._made(f"select i1 {self._truth(test)}, i64 {self._value(body)}, i64 {self._value(orelse)}")
            case ast.BoolOp(op=op, values=values):
                truths = [self._truth(value) for value in values]
                found = truths[0]
                for each in truths[1:]:
                    found = self._made(f"{'and' if isinstance(op, ast.And) else 'or'} i1 {found}, {each}")
                return self._made(f"zext i1 {found} to i64")
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._compare(self._value(left), ops, [self._value(each) for each in comparators])
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, [self._value(each) for each in args])
            case _:
                raise AssertionError(node)  # `parsed` lets nothing else through

    def _truth(self, node: ast.expr) -> str:
        return self._made(f"icmp ne i64 {self._value(node)}, 0")

    def _binary(self, op: ast.operator, left: str, right: str) -> str:
        match op:
            case ast.FloorDiv():
                return self._made(f"call i64 @quotient(i64 {left}, i64 {right})")
            case ast.Mod():
                return self._made(f"call i64 @remainder(i64 {left}, i64 {right})")
            case _:
                word = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}[type(op)]  # pyright: ignore[reportArgumentType]
                return self._made(f"{word} i64 {left}, {right}")

    def _compare(self, left: str, ops: Sequence[ast.cmpop], others: Sequence[str]) -> str:
        words = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
        found = ""
        for op, right in zip(ops, others, strict=True):
            each = self._made(f"icmp {words[type(op)]} i64 {left}, {right}")  # pyright: ignore[reportArgumentType]
            found = self._made(f"and i1 {found}, {each}") if found else each
            left = right
        return self._made(f"zext i1 {found} to i64")

    def _call(self, name: str, values: Sequence[str]) -> str:
        if name == "abs":
            return self._made(f"call i64 @largest(i64 {values[0]}, i64 {self._made(f'sub i64 0, {values[0]}')})")
        found = values[0]
        for each in values[1:]:
            found = self._made(f"call i64 @{'least' if name == 'min' else 'largest'}(i64 {found}, i64 {each})")
        return found
