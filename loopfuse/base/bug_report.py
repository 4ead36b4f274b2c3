"""A bug of ours, saved: what a report needs, in one file, and the error that names it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from loopfuse.base.diagnostics import Diagnostic, InternalError, Source
from loopfuse.base.options import Options

ISSUES = "https://github.com/loopfuse/loopfuse/issues"


def unexpected(
    error: Exception, source: Source, kernel: str, options: Options, stages: Sequence[str]
) -> InternalError:
    """InternalError[unexpected] for an exception that no stage should raise. The program, the
    options, what each finished stage made (`stages`, as `--dump` prints it) and the traceback are
    saved in the system's directory for temporary files; the note names the file."""
    trace = "".join(traceback.format_exception(error))
    text = "\n\n".join(
        [
            f"loopfuse {_version()}, kernel {kernel} of {source.name}",
            str(options),
            f"== program\n{source.text}",
            *stages,
            f"== error\n{trace}",
        ]
    )
    notes = [f"please report it at {ISSUES}, with the program"]
    path = _saved(text)
    if path:
        notes[0] = f"please report it at {ISSUES}, with the file {path}"
    where = traceback.extract_tb(error.__traceback__)[-1:]
    at = f" ({Path(where[0].filename).name}:{where[0].lineno})" if where else ""
    what = f"{type(error).__name__}: {str(error)[:200]}{at}"
    message = f"loopfuse failed to compile `{kernel}`: {what}"
    return InternalError(Diagnostic("unexpected", message, notes=tuple(notes), source=source))


def _version() -> str:
    try:
        return metadata.version("loopfuse")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _saved(text: str) -> str:
    """Write the report, under a name made of its content, readable by its owner alone; the path,
    or "" where nothing can be written."""
    data = text.encode("utf-8", "backslashreplace")
    name = f"loopfuse-bug-{hashlib.sha256(data).hexdigest()[:12]}.txt"
    path = os.path.join(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except FileExistsError:
            raise
        except OSError:
            return ""
    return path
