"""Which math functions are called and not copied: those of a GPU's module that would make it too long.

    before: 640 copies of sin: 9 MB of PTX, which ptxas takes half a minute for
    after:  one function, and 640 calls
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopfuse.codegen.ir import Operation

LONG = 100
"""Operations of a function beside which a call is cheap: `sin`, `cos`, `tan` and `pow` have more."""
LOOPING = 300
"""What an exact remainder counts, which loops around remainders of 64 bits: of 44 in windows ptxas took 40 s."""
MOST = 8_000
"""Operations of all copies of one function, at most. A point-wise kernel has up to 26 copies."""


def call_long_functions(functions: Sequence[Operation], kernels: Sequence[Operation]) -> None:
    """Keep one copy of each function that would be copied too often, apart from the code that calls it."""
    calls = Counter(
        operation.properties["callee"]
        for each in (*functions, *kernels)
        for operation in each.walk()
        if operation.name == "func.call"
    )
    for function in functions:
        operations = [operation.name for operation in function.walk()]
        length = LOOPING if "scf.for" in operations else len(operations)
        if length > LONG and length * calls[function.properties["sym_name"]] > MOST:
            function.properties = {**function.properties, "apart": True}
