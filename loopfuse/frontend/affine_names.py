"""Names of the language for MLIR's values: the text's own, where they are free."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_RESERVED = """
    all and any argmax argmin assume bf16 bool break const continue def else elif exp exp2 expm1
    erf f16 f32 f64 false fma fmax fmin for func fuse i16 i32 i64 i8 if import in inf inout
    kernel lambda let log log1p log2 max min nan nofuse not or out parallel pi pow prod range
    return rsqrt sqrt step sum swap tanh temp true trunc u16 u32 u64 u8 var while abs ceil floor
    round from with as is None True False lane
    """
WORDS = frozenset(_RESERVED.split())
"""What a name may not be: reserved words, functions and types of the language."""


@dataclass
class Names:
    """Names that are not taken, near the ones the text has."""

    taken: set[str] = field(default_factory=set[str])

    def fresh(self, hint: str | None, prefix: str) -> str:
        """`hint` where it is a free name, else one like it."""
        text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint or "")
        base = text if text and not text[0].isdigit() and text.strip("_") else f"{prefix}{text}"
        base = base[:200]
        found, count = base, 2
        if not text:
            found, count = f"{base}1", 2
        while found in self.taken:
            found, count = f"{base}_{count}" if text else f"{base}{count}", count + 1
        self.taken.add(found)
        return found

    @contextmanager
    def scope(self) -> Generator[None]:
        """Names made inside are free again after it."""
        taken = set(self.taken)
        yield
        self.taken = taken
