"""What LLVM's loop vectoriser made of accesses under conditions, looked at.

**Divisions.** It may compute what is the same in all lanes once, under the condition of the first lane alone, and use
it in the address of a masked access for the others (`mlir_hoist`). In the optimised module that is a
scalar that is made of a quotient on one way and `poison` on the other:

    pred.udiv.if:        %quotient = udiv i32 %a, %b    %wide = zext i32 %quotient to i64
    pred.udiv.continue:  %q = phi i64 [ poison, %vector.body ], [ %wide, %pred.udiv.if ]

Index arithmetic no longer stands under such conditions. What is left are divisions of data that are a
subscript at once; where one of theirs looks like that, the module is compiled without the loop
vectoriser. (The quotients of single lanes, which are as they should be, become vectors at once, or
stay under their own lane's condition; of these, some are taken for the other kind.)

**Masked loads.** For AVX-512, LLVM 22 makes a masked load the memory operand of the instruction that uses it under
the same mask, which is right, and may then take it out again without the mask (`TwoAddressInstructionPass`,
`unfoldMemoryOperand`), which reads what no lane asked for:

    vfmadd132pd -8(%rdi,%rcx,8), ... {%k1} {z}   ->   vmovupd -8(%rdi,%rcx,8), %ymm11
                                                      vfmadd132pd %ymm10, %ymm28, %ymm11 {%k1} {z}

`hold_masked_loads` puts an empty piece of assembly behind each, which costs nothing and through which nothing
is moved into another instruction.
"""

from __future__ import annotations

import itertools
import re

_DIVISION = re.compile(r"= [us](?:div|rem) i\d+ ")
_LABEL = re.compile(r"^([^\s:;]+|\"[^\"]+\"):")
_MERGED = re.compile(
    r"= phi (?:i\d+|ptr) \[ ([^ ,]+), %([^ ]+) \], \[ ([^ ,]+), %([^ ]+) \](?:, !dbg.*)?$"
)


MASKED_LOAD = "llvm.masked.load."
_MASKED = re.compile(
    r"^(\s+)(%\S+) = ((?:tail )?call <(\d+) x (\w+)> @llvm\.masked\.load\.[^\n]*)$", re.MULTILINE
)
# (Halves are in registers only of CPUs that compute with them; our code loads them as integers.)
_BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32, "i16": 16, "i8": 8}
_LEAST, _MOST = 128, 512
"""Bits of a vector register."""


def hold_masked_loads(optimised: str) -> str | None:
    """The module with every masked load on its own; None where one is of a type that no register has."""
    numbers = itertools.count()
    odd = False

    def hold(found: re.Match[str]) -> str:
        nonlocal odd
        indent, name, load, count, element = found[1], found[2], found[3], int(found[4]), found[5]
        bits = count * _BITS.get(element, 0)
        if not bits or bits > _MOST or bits & (bits - 1):
            odd = True
            return found[0]
        loaded, held = (f"%masked.{next(numbers)}" for _ in range(2))
        kind = f"<{count} x {element}>"
        lines = [f"{loaded} = {load}"]
        if bits >= _LEAST:
            lines.append(f'{name} = call {kind} asm "", "=v,0"({kind} {loaded})')
        else:  # a part of a register
            several = _LEAST // _BITS[element]
            wide = f"<{several} x {element}>"
            spread = ", ".join(f"i32 {k if k < count else 'poison'}" for k in range(several))
            back = ", ".join(f"i32 {k}" for k in range(count))
            filled, kept = f"{held}.wide", f"{held}.kept"
            lines += [
                f"{filled} = shufflevector {kind} {loaded}, {kind} poison, <{several} x i32> <{spread}>",
                f'{kept} = call {wide} asm "", "=v,0"({wide} {filled})',
                f"{name} = shufflevector {wide} {kept}, {wide} poison, <{count} x i32> <{back}>",
            ]
        return "\n".join(indent + line for line in lines)

    made = _MASKED.sub(hold, optimised)
    return None if odd else made


def divides(llvm: str) -> bool:
    """Does the module divide integers anywhere?"""
    return _DIVISION.search(llvm) is not None


def has_guarded_quotient(optimised: str) -> bool:
    """Does a block of the module divide, and give what it made of the quotient to one scalar that is
    `poison` where the block was not run?"""
    dividing: set[str] = set()
    merged: list[str] = []
    label = ""
    for line in optimised.splitlines():
        if line.startswith("define "):
            if dividing.intersection(merged):
                return True
            dividing, merged, label = set(), [], ""
        elif found := _LABEL.match(line):
            label = found[1]
        elif _DIVISION.search(line):
            dividing.add(label)
        elif "poison" in line and (found := _MERGED.search(line)):
            one, before, other, behind = found.groups()
            if (one == "poison") != (other == "poison"):
                merged.append(behind if one == "poison" else before)
    return bool(dividing.intersection(merged))
