"""What a type checker knows of an annotated argument in a kernel's body: anything may be asked of
it. Never imported when a program runs.

In a module of its own, since mypy and pyright need two things: mypy takes no base of a protocol
that is not one, but Any; pyright reports what Any makes unknown, and sees the last definition here.
"""

from __future__ import annotations

from typing import Any, Final

MYPY: Final = False  # mypy takes it for true
if MYPY:
    from typing import Any as _Any

    Array = _Any  # pyright: ignore[reportAssignmentType]
else:

    class Array:
        """An array or a number: subscripts, sizes, attributes."""

        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Any: ...
        def __getattr__(self, name: str, /) -> Any: ...
