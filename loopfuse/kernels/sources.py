"""Program texts: reading a file, and what its kernels ask of a caller.

The compiler is imported only for a text that was not checked before on this machine.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, UserError
from loopfuse.base.examples import find_example, like_example
from loopfuse.base.files import read_bounded
from loopfuse.base.printable import printable
from loopfuse.runtime import cache
from loopfuse.watch import current_run, is_watched

if TYPE_CHECKING:
    from loopfuse.lang.nodes import Program


# A program as large as this is a mistake (a file of data, say), and would take hours to read.
LARGEST_SOURCE = 16 << 20


def read_source(path: str | os.PathLike[str]) -> Source:
    """The text of a file (or of a pipe whose writer does not dawdle), as UTF-8; `example:NAME` is
    a program that comes with loopfuse.

    UserError[cannot-read], [unknown-example] or [not-utf8], naming the file, or
    LimitError[file-too-large]; a byte-order mark is dropped.
    """
    name = os.fspath(path)
    example = find_example(name)
    try:
        data = read_bounded(name if example is None else str(example), LARGEST_SOURCE)
    except OSError as error:
        shipped = like_example(name) if isinstance(error, FileNotFoundError) else ""
        raise UserError(
            Diagnostic(
                "cannot-read",
                f"cannot read `{name}`: {error.strerror or error}",
                fix=f"`{shipped}` comes with loopfuse"
                if shipped
                else "name a file that is there and can be read",
            )
        ) from error
    except ValueError as error:  # a NUL in the name
        raise UserError(Diagnostic("cannot-read", f"cannot read `{name!r}`: {error}")) from error
    if data is None:
        raise LimitError(
            Diagnostic(
                "file-too-large",
                f"`{name}` has more than {LARGEST_SOURCE >> 20} MiB",
                fix="split the program, and pass data as arrays",
            )
        )
    if name.endswith(".py"):
        raise UserError(
            Diagnostic(
                "cannot-read",
                f"`{name}` is a Python file; programs that are read from files are .lf or .mlir",
                fix="ask its kernels from Python: `kernel.compile(...)`, `kernel.explain(...)`, "
                "`kernel.verify(...)`, `kernel.tune(...)`",
            )
        )
    try:
        language = "mlir" if str(example or name).endswith(".mlir") else "lf"
        return Source(name, data.decode("utf-8-sig"), language)
    except UnicodeDecodeError as error:
        raise UserError(
            Diagnostic(
                "not-utf8",
                f"`{name}` is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}",
                fix="save the file as UTF-8",
            )
        ) from error


Programs = dict[tuple[tuple[str, int], ...], Any]
"""The checked programs of one source, by the values of `const` parameters."""


def describe_source(
    source: Source, fp: str = "fast", programs: Programs | None = None
) -> list[dict[str, Any]]:
    """The `kernel`, `parameters` and `sizes` of each kernel in `source`, in text order; from the
    disk cache where this text was checked before, else by reading it (every user error). What was
    read goes into `programs`."""
    key = cache.key_of("signatures", source.language, source.text, fp)
    hit = None if is_watched() else cache.get(key)
    if hit is not None:
        return list(hit[0]["kernels"])
    from loopfuse.kernels.signatures import describe_kernel

    program = None
    try:
        program = read_program(source, fp)
        kernels = program.kernels
    except LimitError as error:
        if any(one.code != "const-needs-value" for one in error.diagnostics):
            raise
        from loopfuse import pipeline

        # A step or a factor is a `const` parameter: what a kernel takes is the same for every value.
        kernels = pipeline.read_heads(source)
    described = [describe_kernel(kernel) for kernel in kernels]
    if not described:
        raise UserError(
            Diagnostic(
                "no-kernel",
                f"`{source.name}` holds no kernel",
                fix="write `kernel name(...):` with its loops",
                source=source,
            )
        )
    cache.put(key, {"kernels": described})
    if programs is not None and program is not None:
        programs[()] = program
    return described


def comment_above(source: Source, kernel: str) -> str | None:
    """The comment that stands above a kernel of .lf text, or, of the first one, at the top."""
    if source.language != "lf":
        return None
    lines = source.text.splitlines()
    heads = [k for k, line in enumerate(lines) if re.match(r"kernel\s+\w", line)]
    place = next((k for k in heads if re.match(rf"kernel\s+{re.escape(kernel)}\b", lines[k])), None)
    if place is None:
        return None
    first = place
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    comment = lines[first:place]
    if not comment and place == heads[0]:
        comment = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    return printable("\n".join(line[1:].strip() for line in comment)) or None


def read_program(
    source: Source, fp: str = "fast", constants: Mapping[str, int] | None = None
) -> Program:
    """`source` parsed and checked by the compiler."""
    from loopfuse import pipeline

    return pipeline.read_program(source, fp, dict(constants) if constants else None, current_run())
