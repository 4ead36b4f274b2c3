"""The loops of a manifest around its launches as native code, for CPUs: Python would take a microsecond for each launch, and
many loops are worth less.

    for t in 0..steps:                       i64 steps.0(words, begin, upper): the iterations from `begin` on, until a
        launch a; launch b                   twentieth of a second is over; the next iteration

Python calls again for the rest, so that it may be interrupted. What a launch is worth decides, as everywhere
(`sharing`), whether its caller runs it or threads do; those wait for the next one, awake (`native_pool`).

One array of 64-bit words has all that the code is told: of the pool, of each launch, and the integers that formulas read.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

LAUNCH, STATE, THREADS, TOUCHED, FIRST_SITE = range(5)
"""The words: the pool's function and its state, threads at most, what a launch is worth of which nothing is known (in
nanoseconds); then of each launch the address of its argument block and the picoseconds of an iteration (below 0: not known);
then the integers."""

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop of a manifest's steps: its function, launches in text order, and the integers that its formulas read."""

    function: str
    loop: Step
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


def host_loops(manifest: Mapping[str, Any]) -> dict[int, HostLoop]:
    """The loops among a manifest's steps, by their number."""
    found: dict[int, HostLoop] = {}
    for number, step in enumerate(manifest["steps"]):
        if "loop" in step:
            variables = {loop["var"] for loop in _loops(step)}
            names = {name for text in _formulas(step) for name in names_in(text)} - variables
            launches = tuple(launches_of([step]))
            found[number] = HostLoop(f"steps.{number}", step["loop"], launches, tuple(sorted(names)))
    return found


def host_text(loops: Iterable[HostLoop]) -> str:
    """The IR of the loops' functions, to stand beside the adapters that they call."""
    return "\n".join([_DEAL, *(_Writer(one).text() for one in loops)])


Run = Callable[[int, int, int], int]
"""The words' address, the iteration to begin with, the end: the next iteration."""

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run_loop(run: Run, words: int, lower: int, upper: int, step: int) -> None:
    """All iterations, with a look at Python's signals now and then."""
    if step > 0:
        while lower < upper:
            lower = run(words, lower, upper)
    else:
        while lower > upper:
            lower = run(words, lower, upper)


def _loops(step: Step) -> Iterator[Step]:
    if "loop" in step:
        yield step["loop"]
        for inner in step["loop"]["body"]:
            yield from _loops(inner)


def _formulas(step: Step) -> Iterator[str]:
    """All but the outermost loop's bounds, which Python evaluates."""
    for one in launches_of([step]):
        yield str(one["grid"])
    for loop in list(_loops(step))[1:]:
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
    """Writes the function of one loop."""

    def __init__(self, host: HostLoop) -> None:
        self._host = host
        self._lines: list[str] = []
        self._count = 0
        self._site = 0
        self._cells: dict[str, str] = {}

    def text(self) -> str:
        """The function.

        begin: its iterations from there on; upper: where they end
        """
        host = self._host
        first_name = FIRST_SITE + 2 * len(host.launches)
        for loop in _loops({"loop": host.loop}):
            self._cell(loop["var"])
        for number, name in enumerate(host.names):
            value = self._made(f"getelementptr i64, ptr %words, i64 {first_name + number}")
            read = self._made(f"load i64, ptr {value}")
            self._add(f"store i64 {read}, ptr {self._cell(name)}")
        started = self._made("call i64 @now()")
        self._loop(host.loop, "%begin", "%upper", (), started)
        last = self._made(f"load i64, ptr {self._cells[host.loop['var']]}")
        self._add(f"ret i64 {last}")
        cells = [f"  {cell} = alloca i64, align 8" for cell in self._cells.values()]
        return "\n".join(
            [f'define i64 @"{host.function}"(ptr %words, i64 %begin, i64 %upper) {{', "entry:", *cells, *self._lines, "}"]
        )

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

    def _loop(self, loop: Step, lower: str, upper: str, variables: tuple[str, ...], started: str = "") -> None:
        """The loop between two values; where it `started` at a time, until patience is over."""
        step, cell = int(loop["step"]), self._cell(loop["var"])
        look, turn, over = (self._label(stem) for stem in ("look", "turn", "over"))
        self._add(f"store i64 {lower}, ptr {cell}", f"br label %{look}", f"{look}:")
        at = self._made(f"load i64, ptr {cell}")
        inside = self._made(f"icmp {'slt' if step > 0 else 'sgt'} i64 {at}, {upper}")
        self._add(f"br i1 {inside}, label %{turn}, label %{over}", f"{turn}:")
        self._write(loop["body"], (*variables, loop["var"]))
        following = self._made(f"add i64 {at}, {step}")
        self._add(f"store i64 {following}, ptr {cell}")
        if started:
            took = self._made(f"sub i64 {self._made('call i64 @now()')}, {started}")
            late = self._made(f"icmp sgt i64 {took}, {PATIENCE_NANOSECONDS}")
            self._add(f"br i1 {late}, label %{over}, label %{look}", f"{over}:")
        else:
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
