"""Failing, or dying at, the k-th call to the file system that loopfuse makes to write files."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

# Everything that base/files and runtime/cache call to change the file system.
CALLS = ("open", "write", "fsync", "fchmod", "close", "replace", "mkdir", "utime")


class Faulty:
    """`os`, with the k-th of CALLS raising `error` (or killing the process, where it is None).
    `short` makes each write take a few bytes only, as a nearly full disk does."""

    def __init__(self, at: int, error: int | None, short: bool = False) -> None:
        self.at, self.error, self.short, self.count = at, error, short, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                if self.error is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                elif name == "close":
                    real(*args)  # a close that fails has closed
                raise OSError(self.error, os.strerror(self.error or 0))
            if name == "write" and self.short:
                handle, data = args
                return real(handle, bytes(data[: max(1, len(data) // 2)]))
            return real(*args, **kwargs)

        return call


def install(faulty: Faulty) -> None:
    """Put it in the place of `os` where files are written."""
    from loopfuse.base import files

    files.os = faulty  # pyright: ignore


def main() -> None:
    """`file_faults.py K ARGUMENTS...`: the command line, killed at the K-th call (0: never);
    prints how many calls there were."""
    from loopfuse.cli import _run

    faulty = Faulty(int(sys.argv[1]), None)
    install(faulty)
    code = _run(sys.argv[2:])
    print(f"calls {faulty.count}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
