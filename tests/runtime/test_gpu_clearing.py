"""Launches that clear parts of new arrays as well: their text, run on the PTX machine, assembled, and what
is cleared so."""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.artifact import Artifact
from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.base.options import parse_target
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.runtime import unwritten
from loopfuse.runtime.devices import gpu_clearing
from loopfuse.runtime.devices.gpu_clearing import Made, Table, choose, fill_table, name_of, weave
from loopfuse.runtime.devices.steps import ArgumentBlock, buffer_bytes, launches_of, run_steps

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "benchmarks")]

from ptx_machine import Machine, Memory, read_ptx  # noqa: E402

EXAMPLES = TESTS.parent / "examples"
EMPTY = """\
.version 7.0
.target sm_80
.address_size 64

.visible .entry nothing(
\t.param .u64 nothing_param_0
)
{
\tret;

}
.visible .entry other(
\t.param .u64 other_param_0
)
{
\tret;

}
"""
PLACE = 1 << 20


class Told(Memory):
    """Memory that knows which bytes were stored, by whom, how often."""

    def __init__(self) -> None:
        super().__init__({})
        self.stored: list[tuple[int, int]] = []

    def store(self, addresses: Any, values: Any) -> None:
        self.stored += [(int(one), values.shape[1]) for one in addresses]
        Memory.store(self, addresses, values)


def bytes_of(pieces: tuple[unwritten.Piece, ...]) -> set[int]:
    return {
        offset + row * pitch + byte
        for offset, pitch, width, rows in pieces
        for row in range(rows)
        for byte in range(width)
    }


def table_of(table: Table, name: str = "nothing") -> dict[str, Any]:
    return {f"{name_of(name)}_table": np.frombuffer(bytes(table), np.uint8)}


# --------------------------------------------------------------------------------- numbers


def test_a_division_by_a_known_width_is_exact() -> None:
    generator = np.random.default_rng(1)
    widths = [1, 2, 3, 5, 7, 127, 128, 129, 10**6 + 3, (1 << 30) + 1, (1 << 31) - 1]
    widths += [int(each) for each in generator.integers(1, 1 << 31, 50)]
    for width in widths:
        magic, shift = gpu_clearing.dividing_by(width)
        assert 0 < magic < 1 << 32
        numbers = {0, 1, width - 1, width, width + 1, (1 << 31) - 1}
        numbers |= {k * width - 1 for k in (2, 3, 1000)} | {k * width for k in (2, 3, 1000)}
        numbers |= {int(each) for each in generator.integers(0, 1 << 31, 200)}
        for number in numbers:
            if 0 <= number < 1 << 31:
                assert number * magic >> shift == number // width, (number, width)


@pytest.mark.parametrize("piece, unit", [
    ((0, 64, 32, 4), 16), ((8, 64, 32, 4), 8), ((16, 24, 16, 2), 8), ((16, 24, 16, 1), 16),
    ((0, 64, 4, 4), 4), ((2, 64, 4, 4), 2), ((0, 7, 2, 3), 1), ((0, 1, 1, 1), 1),
])  # fmt: skip
def test_the_widest_store(piece: unwritten.Piece, unit: int) -> None:
    assert gpu_clearing.unit_of(piece) == unit


@pytest.mark.parametrize("piece, kept", [
    ((0, 2048, 8, 512), True), ((2040, 2048, 8, 512), True),  # columns at the sides
    ((0, 2036, 40, 512), True),  # no row of them is made of whole sectors
    ((0, 2048, 32, 512), False),  # whole sectors, which nobody else writes
    ((0, 1 << 20, 4096, 80), False), ((0, 8, 8, 1), False),  # rows: little of them is part of a sector
])  # fmt: skip
def test_parts_of_sectors_stay_in_the_cache(piece: unwritten.Piece, kept: bool) -> None:
    table = fill_table([Made(0, 1 << 30, (piece,))], 1000, 32)
    assert gpu_clearing.is_kept(piece) == kept == table.pieces[0].kept


def test_a_text_of_an_older_ptx_becomes_a_newer_one() -> None:
    text = weave(EMPTY, "nothing")
    assert text is not None and text.startswith(".version 7.4\n")
    newer = weave(EMPTY.replace(".version 7.0", ".version 8.1"), "nothing")
    assert newer is not None and newer.startswith(".version 8.1\n")


def border(height: int, width: int, item: int = 4, number: int = 0) -> Made:
    boxes = (
        (slice(0, 2), slice(0, width)), (slice(height - 2, height), slice(0, width)),
        (slice(0, height), slice(0, 2)), (slice(0, height), slice(width - 2, width)),
    )  # fmt: skip
    pieces = unwritten.pieces_at(boxes, (height, width), item)
    return Made(number, height * width * item, pieces or ())


def test_borders_and_little_are_cleared_by_the_kernel() -> None:
    assert choose({"y": border(4096, 4096)}, 1024) == ("y",)
    assert choose({"y": border(40, 40)}, 32) == ()  # a fifth of it, and more than a store each
    assert choose({"y": border(40, 40)}, 1024) == ("y",)
    half = Made(0, 1 << 30, ((0, 1 << 29, 1 << 29, 1),))
    assert choose({"y": half}, 1 << 30) == ()  # one large piece: a memset
    assert choose({"y": Made(0, 4000, ())}, 1 << 20) == ()
    several = {f"y{k}": border(512, 512, number=k) for k in range(6)}
    assert choose(several, 1 << 20) == ("y0", "y1", "y2", "y3")  # sixteen pieces
    assert choose({"y": border(512, 512, number=gpu_clearing.MOST_ARRAYS)}, 1 << 20) == ()


# ------------------------------------------------------------------------------- on the machine


@pytest.mark.parametrize("unit", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("grid, threads", [(1, 32), (3, 32), (7, 96)])
def test_pieces_of_every_unit(unit: int, grid: int, threads: int) -> None:
    text = weave(EMPTY, "nothing")
    assert text is not None and "other" not in text
    generator = np.random.default_rng(unit)
    for _ in range(6):
        pieces: list[unwritten.Piece] = []
        for _ in range(int(generator.integers(1, 5))):
            width, rows = (int(each) for each in generator.integers(1, 12, 2))
            pitch = unit * (width + int(generator.integers(0, 5)))
            pieces.append((unit * int(generator.integers(0, 20)), pitch, unit * width, rows))
        pieces.insert(int(generator.integers(0, 3)), (unit, unit, unit, 0))  # without elements
        halves = Made(0, 0, tuple(pieces[:2])), Made(3, 0, tuple(pieces[2:]))
        table = fill_table(halves, grid, threads)
        memory, held = Memory({}), [np.full(8192, 255, np.uint8) for _ in halves]
        for number, (made, data) in enumerate(zip(halves, held, strict=True)):
            table.addresses[made.number] = PLACE * (number + 1)
            memory.place(PLACE * (number + 1), data)
        entry = read_ptx(text)["nothing_clearing"]
        Machine(entry, [0], grid, threads, memory, tables=table_of(table)).run()
        for made, data in zip(halves, held, strict=True):
            expected = np.full(8192, 255, np.uint8)
            expected[sorted(bytes_of(made.pieces))] = 0
            assert np.array_equal(data, expected)


def test_each_unit_is_stored_once() -> None:
    """By as few blocks as have a thread for each, or by all of them in turn."""
    text = weave(EMPTY, "nothing")
    assert text is not None
    for grid in (1, 2, 50):
        made = border(37, 64)
        table = fill_table([made], grid, 32)
        table.addresses[0] = PLACE
        memory = Told()
        memory.place(PLACE, np.full(made.bytes, 255, np.uint8))
        Machine(read_ptx(text)["nothing_clearing"], [0], grid, 32, memory, tables=table_of(table)).run()
        units = sum(width // gpu_clearing.unit_of((a, b, width, rows)) * rows for a, b, width, rows in made.pieces)
        assert len(memory.stored) == units
        assert table.blocks == min(grid, -(-units // 32))


PROGRAMS = {
    "border": "for i in 2..H-2, j in 2..W-2:\n        y[i, j] = x[i-2, j] + x[i, j+2]",
    "sides": "for i in 1..H-1, j in 3..W-1:\n        y[i, j] = x[i-1, j]",
    "row": "for j in 0..W:\n        y[0, j] = x[0, j]",
    "guarded": "for i in 0..H, j in 0..W:\n        if i >= 1 and j < W - 1:\n            y[i, j] = x[i, j]",
    "stages": "temp t: DTYPE[H, W]\n    for i in 1..H-1, j in 0..W:\n        t[i, j] = x[i-1, j] + x[i+1, j]\n"
              "    for i in 1..H-1, j in 1..W-1:\n        y[i, j] = t[i, j-1] + t[i, j+1]",
    "neighbour": "for i in 0..H, j in 1..W-1:\n        y[i, j] = x[i, j]\n"
                 "    for i in 1..H, j in 2..W-2:\n        z[i, j] = y[i-1, j-1] + y[i-1, j+1]",
}  # fmt: skip
NUMPY = {"u8": np.uint8, "i16": np.int16, "f32": np.float32, "f64": np.float64}


@cache
def built(name: str, dtype: str, bits: int) -> tuple[Any, Artifact]:
    body = PROGRAMS[name].replace("DTYPE", dtype)
    more = f", out z: {dtype}[H, W]" if "z[" in body else ""
    kernel = loopfuse.loads(f"kernel k(x: {dtype}[H, W], out y: {dtype}[H, W]{more}):\n    {body}\n")
    return kernel, kernel.compile("sm_90", emit={"ptx"}, index_bits=bits)


def pieces_of(manifest: Any, sizes: dict[str, int], shape: tuple[int, ...], item: int) -> dict[str, Made]:
    """What a call that leaves out every output is to clear of each."""
    found: dict[str, Made] = {}
    outs = [one for one in manifest["parameters"] if one.get("mode") == "out"]
    for number, one in enumerate(outs):
        described = one["unwritten"]
        pieces = unwritten.pieces_at(unwritten.boxes_at(described, sizes, shape), shape, item)
        if pieces is not None and unwritten.are_untouched(described, sizes):
            found[one["name"]] = Made(number, item * int(np.prod(shape)), pieces)
    return found


def run_woven(artifact: Artifact, held: dict[str, Any], sizes: dict[str, int], made: dict[str, Made]) -> Told:
    """The launches, the one with the most threads woven, on the PTX machine."""
    memory, pointers = Told(), {}
    manifest = artifact.manifest
    spaces = {
        one["name"]: np.zeros(max(16, buffer_bytes(one, sizes)), np.uint8) for one in manifest["buffers"]
    }
    for number, (name, data) in enumerate({**held, **spaces}.items()):
        pointers[name] = PLACE * (number + 1)
        memory.place(pointers[name], data)
    name = max(launches_of(manifest["steps"]), key=lambda one: one["threads"])["name"]
    text = weave(artifact.ptx, name)
    assert text is not None
    entries = read_ptx(artifact.ptx) | read_ptx(text)

    def launch(one: Any, grid: int, block: ArgumentBlock) -> None:
        entry, tables = one["name"], {}
        if entry == name:
            entry = name_of(name)
            table = fill_table(list(made.values()), grid, one["threads"])
            for array, each in made.items():
                table.addresses[each.number] = pointers[array]
            tables = table_of(table, name)
        given = one["shared_bytes"]
        Machine(entries[entry], list(block.words), grid, one["threads"], memory, given, tables).run()

    run_steps(manifest, pointers, sizes, True, launch)
    return memory


@pytest.mark.parametrize("shape", [(1, 1), (2, 9), (5, 5), (6, 40), (9, 33), (17, 64)])
@pytest.mark.parametrize("name, dtype, bits", [
    *((name, "f32", 32) for name in PROGRAMS),
    ("border", "u8", 32), ("border", "i16", 64), ("sides", "f64", 64), ("stages", "u8", 32),
])  # fmt: skip
def test_a_woven_kernel(name: str, dtype: str, bits: int, shape: tuple[int, int]) -> None:
    """Zeros where the program writes nothing, in memory that held something else; the rest as the
    program says. No byte is stored both by what clears and by the kernel."""
    kernel, artifact = built(name, dtype, bits)
    kind = NUMPY[dtype]
    x = np.random.default_rng(3).integers(1, 50, shape).astype(kind)
    sizes = dict(zip("HW", shape, strict=True))
    made = pieces_of(artifact.manifest, sizes, shape, x.itemsize)
    outs = [one["name"] for one in artifact.manifest["parameters"] if one.get("mode") == "out"]
    expected = {each: np.zeros_like(x) for each in outs}
    kernel.reference(x, *expected.values())
    held = {each: np.full(x.nbytes, 0xA5, np.uint8).view(kind).reshape(shape) for each in outs}
    cleared: dict[str, set[int]] = {}
    for each in outs:
        if each not in made:  # all of it, or something that is written as well: cleared before
            held[each][...] = 0
        else:
            cleared[each] = bytes_of(made[each].pieces)
    memory = run_woven(artifact, {"x": x, **held}, sizes, made)
    for each in outs:
        assert np.array_equal(held[each], expected[each]), each
    places = {each: PLACE * (2 + number) for number, each in enumerate(outs)}
    for each, own in cleared.items():
        stored = [
            address - places[each] + byte
            for address, size in memory.stored
            for byte in range(size)
            if 0 <= address - places[each] < x.nbytes
        ]
        # What overlaps in the corners is cleared twice; by nobody else, and nothing else twice.
        counts = np.bincount(stored, minlength=x.nbytes) if stored else np.zeros(x.nbytes, int)
        boxes = [byte for piece in made[each].pieces for byte in bytes_of((piece,))]
        mine = np.bincount(boxes, minlength=x.nbytes) if boxes else np.zeros(x.nbytes, int)
        assert all(counts[byte] == mine[byte] for byte in own)


def test_what_is_read_or_written_elsewhere_is_not_untouched() -> None:
    """An element of a box that the program reads or writes is no piece of a launch's."""
    for text, said in {
        "for i in 0..H, j in 1..W:\n        y[i, j] = y[i, j-1] + x[i, j]": False,  # reads what is 0
        "for i in 0..H, j in i..W:\n        y[i, j] = x[i, j]": False,  # the box holds more
        "for i in 0..H, j in 0..W step 2:\n        y[i, j] = x[i, j]": False,
        "for i in 0..H, j in 1..W:\n        y[i, j] = x[i, j]\n"
        "    for i in 0..H:\n        if x[i, 0] > 0.5:\n            y[i, 0] = 1.0": False,  # perhaps
        "for i in 0..H, j in 1..W:\n        y[i, j] = x[i, j]": True,
    }.items():
        kernel = loopfuse.loads(f"kernel k(x: f32[H, W], out y: f32[H, W]):\n    {text}\n")
        described = kernel.compile("sm_80", emit={"ptx"}).manifest["parameters"][1].get("unwritten")
        assert described is not None
        assert unwritten.are_untouched(described, {"H": 9, "W": 9}) is said, text


def test_an_old_manifest_says_nothing_of_it() -> None:
    assert not unwritten.are_untouched([{"when": "True", "bounds": [["0", "2"]]}], {})


# ------------------------------------------------------------------------------------ the text


def test_the_rest_of_the_text_stays() -> None:
    _, artifact = built("border", "f32", 32)
    (launch,) = launches_of(artifact.manifest["steps"])
    text = weave(artifact.ptx, launch["name"])
    assert text is not None
    beginning = text[text.index("{\n") + 2 : text.index("$L__clear_done:\n") + len("$L__clear_done:\n")]
    table = f"{name_of(launch['name'])}_table"
    plain = text.replace(beginning, "").replace(f",\n\t.param .align 8 .b8 {table}[{ctypes.sizeof(Table)}]", "")
    assert plain.replace(f".entry {name_of(launch['name'])}(", f".entry {launch['name']}(") == artifact.ptx


def test_no_entry_and_no_room() -> None:
    assert weave(EMPTY, "third") is None
    many = ",\n".join(f"\t.param .u64 nothing_param_{k}" for k in range(450))
    assert weave(EMPTY.replace("\t.param .u64 nothing_param_0", many), "nothing") is None


def test_a_kernel_keeps_its_limit_of_registers() -> None:
    assert ".maxnreg 40\n{" in str(weave(EMPTY, "nothing", 33))
    limited = EMPTY.replace(")\n{", ")\n.maxnreg 64\n{")
    assert str(weave(limited, "nothing", 33)).count("maxnreg") == 1


def assembles(artifact: Artifact, target: str) -> None:
    """Every launch, woven: nothing spilled, and as many warps on a multiprocessor as before."""
    plain = assemble(artifact.ptx, parse_target(target))
    if plain is None:
        pytest.skip("no ptxas here")
    for one in launches_of(artifact.manifest["steps"]):
        before = plain[1][one["name"]]
        text = weave(artifact.ptx, one["name"], before)
        assert text is not None and not re.search(r"\.local", text)
        made = assemble(text, parse_target(target))
        assert made is not None
        name = name_of(one["name"])
        assert made[2][name] <= plain[2][one["name"]]
        assert min(64, MULTIPROCESSOR.warps_with(made[1][name])) >= min(64, MULTIPROCESSOR.warps_with(before))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["horizontal_diffusion", "harris", "shift", "gauss_seidel"])
def test_examples_assemble(name: str, target: str) -> None:
    artifact = loopfuse.load(EXAMPLES / f"{name}.lf").compile(target, emit={"ptx"})
    described = [one.get("unwritten") for one in artifact.manifest["parameters"] if one.get("mode") == "out"]
    assert any(box["untouched"] for boxes in described for box in boxes or ())
    assembles(artifact, target)


@pytest.mark.slow
def test_benchmarks_assemble() -> None:
    from cases import BY_KEY

    seen = 0
    for case in BY_KEY.values():
        found = loopfuse.loads(case.source.text)
        kernel = found[case.kernel] if isinstance(found, loopfuse.kernels.kernel.Kernels) else found
        for target in ("sm_80", "sm_90"):
            artifact = kernel.compile(target, emit={"ptx"})
            outs = [one for one in artifact.manifest["parameters"] if one.get("mode") == "out"]
            if any(box["untouched"] for one in outs for box in one.get("unwritten") or ()):
                assembles(artifact, target)
                seen += 1
    assert seen >= 6
