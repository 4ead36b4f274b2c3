"""Counts the instructions of each of our math functions: PTX, SASS where ptxas is, and x86-64-v3.

A kernel loads four elements, calls the function on each and stores them; the same kernel without
the function is subtracted, and the rest divided by four. SASS is counted up to the kernel's EXIT:
the slow paths that ptxas puts after it (for a reciprocal's rare operands) are not in the number.

    python tests/tools/count_math.py [--dtype f32|f64] [--arch sm_90] [NAME...]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # the checkout that this file is in, installed or not

from loopfuse.base.dtypes import DType  # noqa: E402
from loopfuse.base.options import Target  # noqa: E402
from loopfuse.codegen.ir import module_of  # noqa: E402
from loopfuse.codegen.llvm.device import NVIDIA, Device  # noqa: E402
from loopfuse.codegen.llvm.walk import emit_llvm  # noqa: E402
from loopfuse.codegen.math.functions import FUNCTIONS, make_math_function, math_function_name  # noqa: E402
from loopfuse.codegen.math.host import TWO_ARGUMENTS, host_math_module  # noqa: E402
from loopfuse.codegen.math.ops import Ops  # noqa: E402
from loopfuse.codegen.targets import native  # noqa: E402
from loopfuse.codegen.targets.ptx import emit_ptx  # noqa: E402
from loopfuse.lang.ops import APPROXIMATE  # noqa: E402

V3 = Target("cpu", "x86-64-v3")
SLOW = {"vdivp": 8, "vsqrtp": 8, "vdivs": 4, "vsqrts": 4}
"""Instructions that keep the divider busy for as long as several others take (of 256 bits, and of
one element)."""
ELEMENTS = 4
EXIT, NOP = 0x94D, 0x918
"""The low twelve bits of two SASS opcodes, the same from sm_70 on."""


def kernel_llvm(name: str | None, dtype: DType) -> str:
    """LLVM IR of the kernel; without a name, of a copy."""
    kind = "float" if dtype is DType.F32 else "double"
    functions = [make_math_function(name, dtype)] if name else []
    arguments = 2 if name in TWO_ARGUMENTS else 1
    lines = [emit_llvm(module_of(functions), NVIDIA)]
    lines.append("define ptx_kernel void @k(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y) {")
    for i in range(ELEMENTS * arguments):
        lines.append(f"  %p{i} = getelementptr {kind}, ptr addrspace(1) %x, i64 {i}")
        lines.append(f"  %x{i} = load {kind}, ptr addrspace(1) %p{i}")
    for i in range(ELEMENTS):
        value = f"%x{i}"
        if name:
            operands = ", ".join(f"{kind} %x{i + j * ELEMENTS}" for j in range(arguments))
            value = f"%y{i}"
            lines.append(f"  {value} = call {kind} @{math_function_name(name, dtype, 0)}({operands})")
        lines.append(f"  %q{i} = getelementptr {kind}, ptr addrspace(1) %y, i64 {i}")
        lines.append(f"  store {kind} {value}, ptr addrspace(1) %q{i}")
    return "\n".join([*lines, "  ret void", "}", ""])


def count_ptx(text: str) -> int:
    """Instructions in the kernel's body."""
    body = text[text.index(".entry") :]
    return len(re.findall(r"^\s+(?:@\S+\s+)?[a-z][\w.]*\s[^\n]*;", body, re.MULTILINE))


def count_sass(text: str, arch: str) -> int | None:
    """Machine instructions up to EXIT, from the cubin; None without ptxas."""
    from loopfuse.commands.doctor import find_ptxas

    ptxas = find_ptxas()
    if ptxas is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text, encoding="ascii")
        subprocess.run([ptxas, f"-arch={arch}", "-o", str(target), str(source)], check=True)
        code = _section(target.read_bytes(), ".text.k")
    words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 16)]
    # Predicate 7 (always true) sits in bits 12 to 15: an EXIT under a condition does not end it.
    end = next(i for i, word in enumerate(words) if word & 0xFFFF == 0x7000 | EXIT)
    return sum(word & 0xFFF != NOP for word in words[: end + 1])


def count_cpu(name: str, dtype: DType, lanes: int) -> int:
    """Instructions of the loop over a function on x86-64-v3 (AVX2, FMA), divisions and square
    roots counted by what they keep others waiting. Rare paths are counted too."""
    text = emit_llvm(host_math_module(name, dtype, lanes), Device(*native.host_triple(V3)))
    listing = native.host_machine(V3).emit_assembly(native.optimize_llvm(text, V3))
    total = 0
    for line in listing.splitlines():
        word = line.strip().split("\t")[0].split(" ")[0]
        if line.startswith("\t") and not word.startswith("."):
            total += next((cost for slow, cost in SLOW.items() if word.startswith(slow)), 1)
    return total


def _section(data: bytes, name: str) -> bytes:
    """A section of a 64-bit little-endian ELF file, by name."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    start, size, count, names = number(40, 8), number(58, 2), number(60, 2), number(62, 2)
    headers = [start + size * i for i in range(count)]
    text = number(headers[names] + 24, 8)
    for header in headers:
        at = text + number(header, 4)
        if data[at : data.index(b"\0", at)].decode() == name:
            begin = number(header + 24, 8)
            return data[begin : begin + number(header + 32, 8)]
    raise ValueError(f"no section {name}")


def main() -> None:
    """Prints one line a function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS), help="also those of `lang.ops.APPROXIMATE`")
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--all", action="store_true", help="count rare paths too")
    arguments = parser.parse_args()
    if not arguments.all:
        Ops.rare = lambda _ops, _condition, _unusual, usual: usual
    dtype, target = DType(arguments.dtype), Target(arguments.arch)

    def counts(name: str | None) -> tuple[int, int | None]:
        text = emit_ptx(kernel_llvm(name, dtype), target)
        return count_ptx(text), count_sass(text, arguments.arch)

    ptx_base, sass_base = counts(None)
    lanes = 8 if dtype is DType.F32 else 4
    print(f"{dtype.value:10}    PTX   SASS  scalar vector   {arguments.arch}, an element; x86-64-v3, a call")
    for name in arguments.names:
        ptx, sass = counts(name)
        shown = "-" if sass is None or sass_base is None else f"{(sass - sass_base) / ELEMENTS:.1f}"
        line = f"{name:10} {(ptx - ptx_base) / ELEMENTS:6.1f} {shown:>6}"
        if name not in APPROXIMATE:  # which a CPU has not
            line += f" {count_cpu(name, dtype, 0):7} {count_cpu(name, dtype, lanes):6}"
        print(line)


if __name__ == "__main__":
    main()
