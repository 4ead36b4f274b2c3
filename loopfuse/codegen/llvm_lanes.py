"""What LLVM's loop vectoriser made of divisions under conditions, looked at.

It may compute what is the same in all lanes once, under the condition of the first lane alone, and use
it in the address of a masked access for the others (`mlir_hoist`). In the optimised module that is a
scalar that is made of a quotient on one way and `poison` on the other:

    pred.udiv.if:        %quotient = udiv i32 %a, %b    %wide = zext i32 %quotient to i64
    pred.udiv.continue:  %q = phi i64 [ poison, %vector.body ], [ %wide, %pred.udiv.if ]

Index arithmetic no longer stands under such conditions. What is left are divisions of data that are a
subscript at once; where one of theirs looks like that, the module is compiled without the loop
vectoriser. (The quotients of single lanes, which are as they should be, become vectors at once, or
stay under their own lane's condition; of these, some are taken for the other kind.)
"""

from __future__ import annotations

import re

_DIVISION = re.compile(r"= [us](?:div|rem) i\d+ ")
_LABEL = re.compile(r"^([^\s:;]+|\"[^\"]+\"):")
_MERGED = re.compile(
    r"= phi (?:i\d+|ptr) \[ ([^ ,]+), %([^ ]+) \], \[ ([^ ,]+), %([^ ]+) \](?:, !dbg.*)?$"
)


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
