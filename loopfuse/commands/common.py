"""What commands share: choosing kernels, saying things, writing files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopfuse.base.diagnostics import Source
from loopfuse.base.files import write_together
from loopfuse.base.printable import printable
from loopfuse.kernels.kernel import Kernel, Kernels, load_all
from loopfuse.kernels.sources import read_source
from loopfuse.runtime.arrays.arguments import refuse


@dataclass(frozen=True, slots=True)
class Common:
    """The flags that most commands take."""

    kernel: str | None = None
    target: str | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    fp: str = "fast"
    reassociate: bool = True
    dump: tuple[str, ...] = ()
    stop_after: str | None = None
    time: bool = False
    check: str = "lazy"


def open_kernels(file: str, common: Common) -> list[Kernel]:
    """The kernels of `file` that `--kernel` names, or all of them."""
    return kernels_of(read_source(file), common)


def kernels_of(source: Source, common: Common) -> list[Kernel]:
    """The kernels of a text that `--kernel` names, or all of them."""
    kernels: Kernels = load_all(
        source,
        fp=common.fp,
        reassociate=common.reassociate,
        target=common.target,
        check=common.check,
    )
    if common.kernel is None:
        return list(kernels.values())
    if common.kernel not in kernels:
        raise refuse(
            "unknown-kernel",
            f"`{source.name}` has no kernel `{common.kernel}`",
            f"it has {', '.join(kernels)}",
        )
    return [kernels[common.kernel]]


def open_kernel(file: str, common: Common) -> Kernel:
    """The one kernel meant; UserError[which-kernel] where a file has several and none is named."""
    kernels = open_kernels(file, common)
    if len(kernels) > 1:
        names = ", ".join(kernel.name for kernel in kernels)
        raise refuse(
            "which-kernel",
            f"`{file}` has {len(kernels)} kernels: {names}",
            f"name one: `--kernel {kernels[0].name}`",
        )
    return kernels[0]


# --------------------------------------------------------------------------------------- saying


def say(text: str = "") -> None:
    """Print a line to standard output; plain text, the same on a terminal and in a pipe. What
    others wrote (names of files and of kernels) cannot command the terminal."""
    print(printable(text))


def say_json(data: Any, indent: int | None = 2) -> None:
    """Print `data` as JSON, in ASCII."""
    print(json.dumps(data, indent=indent).replace("\x7f", "\\u007f"))


def is_terminal() -> bool:
    """Colours are wanted: standard output is a terminal and NO_COLOR is unset."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def write_files(files: Mapping[Path, bytes | str], keep: str = "") -> None:
    """Write files, each whole or not at all, and none before all are known to fit on the disk.

    UserError[cannot-write] naming the one that failed, or that is the file `keep` itself.
    """
    for path in files:
        if "\0" in str(path):
            raise refuse("cannot-write", f"cannot write `{str(path)!r}`: no file has such a name")
        if keep and path.exists() and path.samefile(keep):
            raise refuse(
                "cannot-write",
                f"cannot write `{path}`: it is the program being compiled",
                "write elsewhere: `-o out`",
            )
    try:
        write_together(
            # A file's name need not be text, and stands in some of the files.
            {p: d.encode("utf-8", "surrogateescape") if isinstance(d, str) else d
             for p, d in files.items()}
        )
    except OSError as error:
        raise refuse(
            "cannot-write", f"cannot write `{error.filename}`: {error.strerror or error}"
        ) from error
