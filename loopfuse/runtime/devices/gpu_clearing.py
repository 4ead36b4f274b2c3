"""Zeros in parts of new arrays, stored by the kernel's own launch: no launch besides it.

A launch of a few microseconds for a border is a tenth of a kernel that takes fifty, whatever the border
holds: the next one starts when it is done. So the kernel is given a beginning that clears:

    before:  .visible .entry k(.param .u64 k_param_0) {                                  body }
    after:   .visible .entry k_clearing(.param .u64 k_param_0, .param k_clearing_table) { clear; body }

in the text of its PTX, where everything else stays as it was: what the kernel takes, and how it is launched.
The threads of its first blocks store zeros in turn, each a unit of 1 to 16 bytes, as wide as a piece's
alignment allows. Nothing is waited for: the pieces are elements that no launch of the call reads or writes
(`untouched`, see `base.artifact`). What clears needs no register behind its end, and no kernel takes
so many more that fewer of its blocks run at once.

Which call is cleared so, `choose` says: one without host loops whose pieces are a border, or small.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.runtime.unwritten import Piece

MOST_PIECES = 16
MOST_ARRAYS = 8
UNIT_LIMIT = 1 << 31
SECTOR = 32
"""Bytes: what moves between the L2 cache and memory."""
PARAMETER_BYTES = 4096
"""What a kernel may take on every GPU and driver, its table included."""

BORDER = 8
"""What is cleared is a border where it is at most this part of the array (an eighth): the threads that write the
rest of it have no more than that to do besides. Whatever is more is filled as fast by a launch of its own."""
SMALL = 1 << 20
"""Of fewer bytes more may be cleared, where no thread has more than one store to do."""


class ClearedPiece(ctypes.Structure):
    """A piece as the beginning reads it. `width` and `total` count units of `unit` bytes; row number
    `unit number * magic >> shift`; `array` is where in the table the array's address stands; `kept`: 1 if
    what is stored should stay in the L2 cache until the kernel has written what lies beside it."""

    _fields_ = [
        ("offset", ctypes.c_uint64),
        ("pitch", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("total", ctypes.c_uint32),
        ("magic", ctypes.c_uint32),
        ("shift", ctypes.c_uint32),
        ("unit", ctypes.c_uint32),
        ("array", ctypes.c_uint32),
        ("kept", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
    ]


class Table(ctypes.Structure):
    """The last parameter: how many blocks clear, and their threads; the addresses of the arrays; `count`
    pieces of them, and the units of all of these."""

    _fields_ = [
        ("blocks", ctypes.c_uint32),
        ("stride", ctypes.c_uint32),
        ("units", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("addresses", ctypes.c_uint64 * MOST_ARRAYS),
        ("pieces", ClearedPiece * MOST_PIECES),
    ]


def unit_of(piece: Piece) -> int:
    """The widest store (in bytes) that lies in the piece wherever it starts, at an address that is a
    multiple of 16 but for the offset."""
    offset, pitch, width, rows = piece
    bits = 16 | offset | width | (pitch if rows > 1 else 0)
    return bits & -bits


def is_kept(piece: Piece) -> bool:
    """Does the kernel write most sectors of the piece as well? Columns at the side of an array are parts of
    sectors. Memory takes a part by reading the sector, so that one that leaves the cache before its other part
    is written moves twice: on an H200, a twentieth of what horizontal diffusion takes."""
    _, _, width, rows = piece
    return rows > 1 and width < 2 * SECTOR and width % SECTOR != 0


def dividing_by(width: int) -> tuple[int, int]:
    """(magic, shift) so that `n * magic >> shift` is n // width for 0 <= n < 2**31: Granlund and
    Montgomery, Division by invariant integers using multiplication, theorem 4.2 with 31 bits."""
    length = (width - 1).bit_length()
    return (((1 << 31) * ((1 << length) - width)) // width + (1 << 31) + 1, 31 + length)


# ------------------------------------------------------------------------------- what to clear


@dataclass(frozen=True, slots=True)
class Made:
    """An array that a call makes: the number of its address in the table, its bytes, and the pieces to
    clear, all of them untouched."""

    number: int
    bytes: int
    pieces: tuple[Piece, ...]


def choose(arrays: Mapping[str, Made], threads: int) -> tuple[str, ...]:
    """The arrays that a launch of so many threads clears, by name: those of which a border is to be
    cleared, or little."""
    found: list[str] = []
    pieces = stores = 0
    for name, made in arrays.items():
        if not made.pieces or made.number >= MOST_ARRAYS:
            continue
        units = sum(width // unit_of(piece) * rows for piece in made.pieces for width, rows in [piece[2:]])
        size = sum(width * rows for _, _, width, rows in made.pieces)
        is_border = size * BORDER <= made.bytes
        is_small = size <= SMALL and stores + units <= threads
        fits = pieces + len(made.pieces) <= MOST_PIECES and stores + units < UNIT_LIMIT
        if fits and (is_border or is_small):
            found.append(name)
            pieces, stores = pieces + len(made.pieces), stores + units
    return tuple(found)


def fill_table(arrays: Sequence[Made], grid: int, threads: int) -> Table:
    """The table for a launch of `grid` blocks; the addresses are still to be written. Pieces of many
    units come first: most threads have found theirs at once."""
    pieces: list[ClearedPiece] = []
    for made in arrays:
        where = Table.addresses.offset + 8 * made.number
        for piece in made.pieces:
            offset, pitch, width, rows = piece
            unit = unit_of(piece)
            if total := width // unit * rows:
                magic, shift = dividing_by(width // unit)
                pieces.append(
                    ClearedPiece(
                        offset, pitch, width // unit, total, magic, shift, unit, where, is_kept(piece)
                    )
                )
    pieces.sort(key=lambda piece: -piece.total)
    table = Table(units=sum(piece.total for piece in pieces), count=len(pieces))
    table.pieces[: len(pieces)] = pieces
    table.blocks = min(grid, -(-table.units // threads))
    table.stride = table.blocks * threads
    return table


class Clearing:
    """A launch that clears as well: instead of which launch of the call it is (`site`), its function,
    the addresses of its arguments, and where those of the arrays made are to be written."""

    __slots__ = ("_pointers", "_table", "addresses", "function", "site", "slots")

    def __init__(self, site: int, function: int, table: Table, arguments: Sequence[int]) -> None:
        self.site, self.function, self._table = site, function, table
        self.addresses = table.addresses
        places = [*arguments, ctypes.addressof(table)]
        self._pointers = (ctypes.c_uint64 * len(places))(*places)
        self.slots = ctypes.addressof(self._pointers)


# ---------------------------------------------------------------------------------- the text

_STORES = {
    16: ("v4.u32", "{%rclear9, %rclear9, %rclear9, %rclear9}"),
    8: ("v2.u32", "{%rclear9, %rclear9}"),
    4: ("u32", "%rclear9"),
    2: ("u16", "%rclear9"),
    1: ("u8", "%rclear9"),
}


def name_of(entry: str) -> str:
    """The entry point that clears as well."""
    return f"{entry}_clearing"


def _beginning(table: str) -> str:
    """for n = thread number; n < units; n += threads of the blocks that clear: store zeros at unit n

    The pieces' units are counted through. `rclear3` counts from the first of the piece at `rdclear1` on, and
    `rclear2` are the units from there to the end, so that a turn of the loop either stores a unit or goes
    to the next piece.
    """
    piece = {one[0]: getattr(ClearedPiece, one[0]).offset for one in ClearedPiece._fields_}
    stores = "\n".join(
        f"\tsetp.eq.u32 %pclear0, %rclear6, {unit};\n"
        f"\t@%pclear0 st.global.L2::cache_hint.{kind} [%rdclear3], {zeros}, %rdclear4;"
        for unit, (kind, zeros) in _STORES.items()
    )
    return f"""\
\t{{
\t.reg .pred %pclear<1>;
\t.reg .b32 %rclear<10>;
\t.reg .b64 %rdclear<7>;
\tmov.u64 %rdclear0, {table};
\tmov.u32 %rclear0, %ctaid.x;
\tld.param.u32 %rclear1, [%rdclear0+{Table.blocks.offset}];
\tsetp.ge.u32 %pclear0, %rclear0, %rclear1;
\t@%pclear0 bra $L__clear_done;
\tld.param.u32 %rclear1, [%rdclear0+{Table.stride.offset}];
\tld.param.u32 %rclear2, [%rdclear0+{Table.units.offset}];
\tmov.u32 %rclear3, %ntid.x;
\tmov.u32 %rclear4, %tid.x;
\tmad.lo.u32 %rclear3, %rclear0, %rclear3, %rclear4;
\tadd.u64 %rdclear1, %rdclear0, {Table.pieces.offset};
\tmov.u32 %rclear9, 0;
$L__clear_next:
\t.pragma "nounroll";
\tsetp.ge.u32 %pclear0, %rclear3, %rclear2;
\t@%pclear0 bra $L__clear_done;
\tld.param.u32 %rclear4, [%rdclear1+{piece["total"]}];
\tsetp.lt.u32 %pclear0, %rclear3, %rclear4;
\t@%pclear0 bra $L__clear_store;
\tsub.u32 %rclear3, %rclear3, %rclear4;
\tsub.u32 %rclear2, %rclear2, %rclear4;
\tadd.u64 %rdclear1, %rdclear1, {ctypes.sizeof(ClearedPiece)};
\tbra $L__clear_next;
$L__clear_store:
\tld.param.u32 %rclear4, [%rdclear1+{piece["magic"]}];
\tld.param.u32 %rclear5, [%rdclear1+{piece["shift"]}];
\tld.param.u32 %rclear6, [%rdclear1+{piece["unit"]}];
\tld.param.u32 %rclear7, [%rdclear1+{piece["width"]}];
\tld.param.u32 %rclear8, [%rdclear1+{piece["array"]}];
\tmul.wide.u32 %rdclear2, %rclear3, %rclear4;
\tshr.u64 %rdclear2, %rdclear2, %rclear5;
\tcvt.u32.u64 %rclear4, %rdclear2;
\tmul.lo.u32 %rclear4, %rclear4, %rclear7;
\tsub.u32 %rclear4, %rclear3, %rclear4;
\tcvt.u64.u32 %rdclear3, %rclear8;
\tadd.u64 %rdclear3, %rdclear0, %rdclear3;
\tld.param.u64 %rdclear3, [%rdclear3];
\tcvta.to.global.u64 %rdclear3, %rdclear3;
\tld.param.u64 %rdclear4, [%rdclear1+{piece["offset"]}];
\tld.param.u64 %rdclear5, [%rdclear1+{piece["pitch"]}];
\tmad.lo.u64 %rdclear4, %rdclear2, %rdclear5, %rdclear4;
\tmad.wide.u32 %rdclear4, %rclear4, %rclear6, %rdclear4;
\tadd.u64 %rdclear3, %rdclear3, %rdclear4;
\tld.param.u32 %rclear4, [%rdclear1+{piece["kept"]}];
\tsetp.ne.u32 %pclear0, %rclear4, 0;
\tcreatepolicy.fractional.L2::evict_last.b64 %rdclear5, 1.0;
\tcreatepolicy.fractional.L2::evict_normal.b64 %rdclear6, 1.0;
\tselp.b64 %rdclear4, %rdclear5, %rdclear6, %pclear0;
{stores}
\tadd.u32 %rclear3, %rclear3, %rclear1;
\tbra $L__clear_next;
\t}}
$L__clear_done:
"""


_VERSION = re.compile(r"^\.version (\d+)\.(\d+)", re.MULTILINE)
_NEEDS = (7, 4)
"""The version of PTX in which stores say what the L2 cache is to keep."""


def _version(found: re.Match[str]) -> str:
    return ".version {}.{}".format(*max((int(found[1]), int(found[2])), _NEEDS))


_ENTRY = re.compile(r"^\.visible \.entry (\w+)\((.*?)^\)(.*?)^\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)


def weave(ptx: str, entry: str, registers: int = 0) -> str | None:
    """The module with `entry` alone, which clears first, under its new name; None where there is no
    such entry, or no room for one parameter more. `registers`: what it takes without that, where it is
    known. It gets no more than leave as many warps on a multiprocessor."""
    found = next((one for one in _ENTRY.finditer(ptx) if one[1] == entry), None)
    if found is None:
        return None
    # No parameter of a kernel is larger than 8 bytes.
    if 8 * len(re.findall(r"^\s*\.param ", found[2], re.MULTILINE)) + ctypes.sizeof(Table) > PARAMETER_BYTES:
        return None
    name = name_of(entry)
    table = f"{name}_table"
    parameter = f"\t.param .align 8 .b8 {table}[{ctypes.sizeof(Table)}]\n"
    limit = f".maxnreg {MULTIPROCESSOR.step_for(registers)}\n" if registers and ".maxnreg" not in found[3] else ""
    body = found[0][found.start(3) - found.start() :]
    body = body.replace("{\n", limit + "{\n" + _beginning(table), 1)
    parameters = f"{found[2].rstrip()},\n{parameter}" if found[2].strip() else f"\n{parameter}"
    woven = f".visible .entry {name}({parameters}){body}"

    def one(other: re.Match[str]) -> str:
        return woven if other[1] == entry else ""

    return _VERSION.sub(_version, _ENTRY.sub(one, ptx), count=1)


def launch_of(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's launch, under its new name."""
    return {**launch, "name": name_of(launch["name"])}
