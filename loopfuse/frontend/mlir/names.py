"""Names of the language for MLIR's values: the text's own, where they are free."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from loopfuse.lang.ops import FUNCTIONS

_RESERVED = """
    all and any argmax argmin assume bf16 bool break const continue def else elif f16 f32 f64 false
    for func fuse i16 i32 i64 i8 if import in inf inout kernel lambda let nan nofuse not or out
    parallel pi prod range return step sum swap temp true u16 u32 u64 u8 var while from with as is
    None True False lane
    """
RESERVED = frozenset(_RESERVED.split())
"""What no name may be: reserved words and types of the language."""

WORDS = RESERVED | frozenset(FUNCTIONS)
"""What the name of a value may not be, so that none is a function's."""


def helper_name(symbol: str) -> str:
    """The name of a function that others call: one of `@sin` must not hide the sine."""
    return f"{symbol}_function" if symbol in WORDS else symbol


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
