"""Stores that go past the caches (x86).

LLVM's vectoriser makes no vectors of nontemporal stores whose alignment it does not know yet; and single elements gain
nothing. So they carry a mark through all optimisations, an access group, and those that have become vectors which begin at
multiples of their size are nontemporal in the end:

before:  store <8 x float> %v, ptr %p, align 32, !llvm.access.group !5
after:   store <8 x float> %v, ptr %p, align 32, !llvm.access.group !5, !nontemporal !1999999
         ...
         call void @llvm.x86.sse.sfence()
         ret void

Where the loop begins at such a place (`codegen.mlir.nontemporal`), LLVM finds the alignment itself. What is stored so comes
to memory in no order, so that a function ends by a fence: whoever is told that it has ended finds all of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopfuse.codegen.llvm.types import bits_of

_MARKED = re.compile(r"^  store <(\d+) x (\w+)> .*, align (\d+),.* !llvm\.access\.group ![^\n]*$")
_REGISTER = (128, 256, 512)
"""Bits of a vector that one instruction stores past the caches."""
_FENCE = "llvm.x86.sse.sfence"
_LAST = "!1999999"


def store_past_caches(optimised: str) -> str:
    """The module with its marked vectors stored past the caches."""
    if "!llvm.access.group" not in optimised:
        return optimised
    out: list[str] = []
    start, changed, has_changed = 0, False, False
    for line in optimised.split("\n"):
        if line.startswith("define "):
            start, changed = len(out), False
        elif (found := _MARKED.match(line)) and _fits(found):
            line, changed, has_changed = f"{line}, !nontemporal {_LAST}", True, True
        out.append(line)
        if line == "}" and changed:
            out[start:] = _fenced(out[start:])
    if not has_changed:
        return optimised
    return "\n".join((*out, f"declare void @{_FENCE}()", f"{_LAST} = !{{i32 1}}", ""))


def _fenced(function: Sequence[str]) -> list[str]:
    """The lines of a function, with a fence wherever it ends."""
    out: list[str] = []
    for line in function:
        if line.startswith("  ret "):
            out.append(f"  call void @{_FENCE}()")
        out.append(line)
    return out


def _fits(found: re.Match[str]) -> bool:
    bits = int(found[1]) * bits_of(found[2])
    return bits in _REGISTER and 8 * int(found[3]) >= bits
