"""Program texts: reading a file, and what its kernels ask of a caller.

The compiler is imported only for a text that was not checked before on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopfuse.base.diagnostics import Diagnostic, Source, UserError
from loopfuse.runtime import cache
from loopfuse.watch import current_run, is_watched

if TYPE_CHECKING:
    from loopfuse.lang.nodes import Program


def read_source(path: str | os.PathLike[str]) -> Source:
    """The text of a file, as UTF-8.

    UserError[cannot-read] or [not-utf8], naming the file; a byte-order mark is dropped.
    """
    name = os.fspath(path)
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise UserError(
            Diagnostic("cannot-read", f"cannot read `{name}`: {error.strerror or error}")
        ) from error
    except ValueError as error:  # a NUL in the name
        raise UserError(Diagnostic("cannot-read", f"cannot read `{name!r}`: {error}")) from error
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(
            Diagnostic(
                "not-utf8",
                f"`{name}` is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}",
                fix="save the file as UTF-8",
            )
        ) from error


def describe_source(source: Source, fp: str = "fast") -> list[dict[str, Any]]:
    """The `kernel`, `parameters` and `sizes` of each kernel in `source`, in text order; from the
    disk cache where this text was checked before, else by reading it (every user error)."""
    key = cache.key_of("signatures", source.text, fp)
    hit = None if is_watched() else cache.get(key)
    if hit is not None:
        return list(hit[0]["kernels"])
    from loopfuse.signatures import describe_kernel

    program = read_program(source, fp)
    described = [describe_kernel(kernel) for kernel in program.kernels]
    if not described:
        raise UserError(
            Diagnostic("no-kernel", f"`{source.name}` holds no kernel", source=source)
        )
    cache.put(key, {"kernels": described})
    return described


def read_program(
    source: Source, fp: str = "fast", constants: Mapping[str, int] | None = None
) -> Program:
    """`source` parsed and checked by the compiler."""
    from loopfuse import pipeline

    return pipeline.read_program(source, fp, dict(constants) if constants else None, current_run())
