"""Zeros in parts of a new array on the GPU: what a kernel does not write of an output that it
is left to make, and does not clear itself (`gpu_clearing`).

The border of a grid is several parts, of a few bytes a row or of rows: one launch of a kernel of our own
clears them all (a memset each would take as long as a small kernel each). One part alone, or very large
ones, are memsets of the driver's. All are ordered by stream and safe under graph capture.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from loopfuse.runtime.devices import cuda
from loopfuse.runtime.unwritten import Piece

THREADS = 256
MOST_BLOCKS = 1056
"""Of a piece: eight for each multiprocessor of a large GPU. Further elements are theirs in turn."""
MOST_PIECES = 16
INDEX_LIMIT = 1 << 31
_STORES = {
    1: "st.global.u8 [%rd8], %zero;", 2: "st.global.u16 [%rd8], %zero;",
    4: "st.global.u32 [%rd8], %zero;", 8: "st.global.v2.u32 [%rd8], {%zero, %zero};",
    16: "st.global.v4.u32 [%rd8], {%zero, %zero, %zero, %zero};",
}  # fmt: skip


class PieceBlock(ctypes.Structure):
    """A piece as the kernel reads it: `width` and `total` count units (of 1 to 16 bytes)."""

    _fields_ = [
        ("offset", ctypes.c_uint64),
        ("pitch", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("total", ctypes.c_uint32),
    ]


def kernel_text() -> str:
    """PTX: for each unit an entry point `clear_UNIT(base, pieces)`, a row of blocks for each piece."""
    size = ctypes.sizeof(PieceBlock) * MOST_PIECES
    return ".version 7.0\n.target sm_80\n.address_size 64\n" + "".join(
        f"""
.visible .entry clear_{unit}(.param .u64 base, .param .align 8 .b8 pieces[{size}])
{{
    .reg .pred %p1;
    .reg .b32 %zero, %r<12>;
    .reg .b64 %rd<9>;
    mov.u32 %zero, 0;
    mov.u32 %r1, %ctaid.y;
    mul.wide.u32 %rd1, %r1, {ctypes.sizeof(PieceBlock)};
    mov.u64 %rd2, pieces;
    add.u64 %rd2, %rd2, %rd1;
    ld.param.u64 %rd3, [%rd2];
    ld.param.u64 %rd4, [%rd2+8];
    ld.param.u32 %r2, [%rd2+16];
    ld.param.u32 %r3, [%rd2+20];
    ld.param.u64 %rd5, [base];
    cvta.to.global.u64 %rd5, %rd5;
    add.u64 %rd5, %rd5, %rd3;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %nctaid.x;
    mad.lo.u32 %r8, %r4, %r5, %r6;
    mul.lo.u32 %r9, %r7, %r5;
next_{unit}:
    setp.ge.u32 %p1, %r8, %r3;
    @%p1 bra done_{unit};
    div.u32 %r10, %r8, %r2;
    mul.lo.u32 %r11, %r10, %r2;
    sub.u32 %r11, %r8, %r11;
    cvt.u64.u32 %rd6, %r10;
    mul.lo.u64 %rd6, %rd6, %rd4;
    mul.wide.u32 %rd7, %r11, {unit};
    add.u64 %rd8, %rd5, %rd6;
    add.u64 %rd8, %rd8, %rd7;
    {store}
    add.u32 %r8, %r8, %r9;
    bra next_{unit};
done_{unit}:
    ret;
}}
"""
        for unit, store in _STORES.items()
    )


class ClearLaunch:
    """The launch that clears several pieces, prepacked: only the array's address and the stream are
    still to be given. `entry` names the kernel."""

    __slots__ = ("_base", "_pieces", "_slots", "entry", "grid", "slots")

    def __init__(self, pieces: tuple[Piece, ...], unit: int) -> None:
        self.entry = f"clear_{unit}"
        self._base = ctypes.c_uint64(0)
        self._pieces = (PieceBlock * MOST_PIECES)()
        longest = 1
        for number, (offset, pitch, width, rows) in enumerate(pieces):
            total = width // unit * rows
            self._pieces[number] = PieceBlock(offset, pitch, width // unit, total)
            longest = max(longest, total)
        self.grid = (min(MOST_BLOCKS, -(-longest // THREADS)), len(pieces))
        self._slots = (ctypes.c_uint64 * 2)(
            ctypes.addressof(self._base), ctypes.addressof(self._pieces)
        )
        self.slots = ctypes.addressof(self._slots)

    def at(self, address: int) -> ClearLaunch:
        """The same launch for the array at this address."""
        self._base.value = address
        return self


def pack(pieces: tuple[Piece, ...] | None) -> tuple[Piece, ...] | ClearLaunch | None:
    """before: several pieces
    after: one launch for them all, where their elements can be counted in 31 bits"""
    if pieces is None or not 1 < len(pieces) <= MOST_PIECES:
        return pieces
    bits = 16
    for offset, pitch, width, rows in pieces:
        bits |= offset | width | (pitch if rows > 1 else 0)
    unit = bits & -bits
    if any(width // unit * rows >= INDEX_LIMIT for _, _, width, rows in pieces):
        return pieces
    return ClearLaunch(pieces, unit)


# ---------------------------------------------------------------------------------- the driver


@lru_cache(maxsize=1)
def _functions() -> tuple[Callable[..., int], ...]:
    """cuMemsetD8Async, cuMemsetD2D8Async, cuMemsetD2D32Async and cuLaunchKernel, through ctypes:
    OSError or AttributeError where there are none."""
    library = ctypes.CDLL("libcuda.so.1")
    size, place, pointer = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p
    byte, word = ctypes.c_uint8, ctypes.c_uint32
    kinds = (
        ("cuMemsetD8Async", (place, byte, size, pointer)),
        ("cuMemsetD2D8Async", (place, size, byte, size, size, pointer)),
        ("cuMemsetD2D32Async", (place, size, word, size, size, pointer)),
        ("cuLaunchKernel", (pointer, *[word] * 7, pointer, pointer, pointer)),
    )
    return tuple(ctypes.CFUNCTYPE(ctypes.c_int, *kind)((name, library)) for name, kind in kinds)


@lru_cache(maxsize=64)
def entries(index: int) -> dict[str, int]:
    """The kernel's entry points on GPU `index`, loaded on first use."""
    driver = cuda.driver_api()
    with cuda.on_gpu(index):
        module = cuda.check_call(
            driver.cuModuleLoadData(kernel_text().encode() + b"\0"), "loading the kernel that clears"
        )
        return {
            name: int(cuda.check_call(driver.cuModuleGetFunction(module, name.encode()), name))
            for name in (f"clear_{unit}" for unit in _STORES)
        }


def clear_pieces(
    address: int, pieces: tuple[Piece, ...] | ClearLaunch, stream: int, index: int = 0
) -> None:
    """Enqueue zeros in pieces of an array's memory, in the current context, which is GPU `index`'s."""
    run, rows_of_bytes, rows_of_words, launch = _functions()
    if isinstance(pieces, ClearLaunch):
        function, (x, y) = entries(index)[pieces.entry], pieces.grid
        status = launch(function, x, y, 1, THREADS, 1, 1, 0, stream, pieces.at(address).slots, None)
        return _check(status)
    for offset, pitch, width, rows in pieces:
        place = address + offset
        if rows == 1:
            status = run(place, 0, width, stream)
        elif (place | pitch | width) & 3:
            status = rows_of_bytes(place, pitch, 0, width, rows, stream)
        else:
            status = rows_of_words(place, pitch, 0, width // 4, rows, stream)
        _check(status)


def _check(status: int) -> None:
    if status:
        cuda.check_call((cuda.driver_api().CUresult(status),), "clearing an output")
