"""Where compiled kernels and the parser's tables are kept, and whether that place is safe.

What lies there is run (machine code) or unpickled (tables), so nobody else may put a file there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from loopfuse.base.diagnostics import Diagnostic, LoopfuseError
from loopfuse.base.files import others_may_write
from loopfuse.base.warn import warn

_told: set[str] = set()


def cache_directory() -> Path | None:
    """`LOOPFUSE_CACHE_DIR`, else `loopfuse` under `XDG_CACHE_HOME` or `~/.cache`; None for a user
    without a home."""
    named = os.environ.get("LOOPFUSE_CACHE_DIR", "")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # as the XDG specification has it
        home = os.path.expanduser("~/.cache")
    return Path(home) / "loopfuse" if os.path.isabs(home) else None


def directory_problem(directory: Path) -> str:
    """Why nothing of `directory` may be trusted, or empty; a missing one is no problem. OSError
    where it cannot be looked at."""
    try:
        status = os.stat(directory)
    except FileNotFoundError:
        return ""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if not others_may_write(status):
        return ""
    mine = status.st_uid == os.geteuid()
    return "other users may write to it" if mine else "it belongs to another user"


def private_directory(make: bool) -> Path | None:
    """The cache's directory, made (for this user alone) if asked for; None where there is none
    or it cannot be trusted, of which the first call in a process warns."""
    directory = cache_directory()
    if directory is None:
        return None
    try:
        if make:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = directory_problem(directory)
    except OSError:
        return None
    if not problem:
        return directory
    if str(directory) not in _told:
        _told.add(str(directory))
        another = "name a directory of your own in LOOPFUSE_CACHE_DIR"
        complaint = Diagnostic(
            "unsafe-cache",
            f"the cache `{directory}` is not used, because {problem}",
            fix=f"`chmod 700 {directory}`, or {another}" if "write" in problem else another,
            severity="warning",
        )
        warn(str(LoopfuseError(complaint)))
    return None
