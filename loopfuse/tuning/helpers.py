"""Processes that compile choices ahead of their trials, into the disk cache.

    wanted: steps=1, steps=2, rows=16, rows=32, ...   (the order in which trials would come)
    now:    the first of them, one a processor; their trials start when all are compiled

Nothing is measured while helpers work. What they are told is for `loopfuse.kernels.compile_helper`, which
they run; what they reply is what the compile said. A helper that dies is no error: the trial
compiles for itself.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from loopfuse.base.options import Tuning
from loopfuse.tuning.told import Told

MOST = 16
"""Helpers at most: each takes up to 300 MB of memory."""
LENGTH = 8
"""Bytes of a message's length, which goes before it."""
ROOT = Path(__file__).resolve().parent.parent.parent
START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from loopfuse.kernels.compile_helper import main; main()"

Process = subprocess.Popen[bytes]


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Helpers:
    """Processes, one a processor, started when first needed. `request` makes the message for a
    choice (None: there are no helpers); `told` holds what those said that were compiled ahead."""

    def __init__(self, request: Callable[[Tuning], object] | None) -> None:
        self.request = request
        self.many = min(processors(), MOST)
        self.told: dict[Tuning, Told] = {}
        self._running: list[Process] = []

    def prepare(self, wanted: Sequence[Tuning], seconds: float) -> None:
        """Compile as many of `wanted` as there are processors, the first of them first. Returns when
        they are done, or after `seconds`, when the helpers that still work are ended."""
        chosen = [tuning for tuning in dict.fromkeys(wanted) if tuning not in self.told][: self.many]
        if self.request is None or len(chosen) < 2 or wanted[0] in self.told:
            return  # one alone needs no help
        try:
            messages = [pickle.dumps(self.request(tuning)) for tuning in chosen]
            while len(self._running) < len(chosen):
                self._running.append(_start())
        except (RecursionError, OSError):  # a program nested too deep; no more processes
            self.many = 0
            return
        replies: SimpleQueue[tuple[Tuning, Told | None]] = SimpleQueue()

        def ask(helper: Process, tuning: Tuning, message: bytes) -> None:
            replies.put((tuning, _ask(helper, message)))

        for task in zip(self._running, chosen, messages, strict=False):
            threading.Thread(target=ask, args=task, daemon=True).start()
        timer = threading.Timer(seconds, self._kill)
        timer.start()
        found = dict(replies.get() for _ in chosen)
        timer.cancel()
        self.told |= {tuning: told for tuning, told in found.items() if told is not None}
        if None in found.values():
            self.close()
        if not any(found.values()):
            self.many = 0  # they cannot run here

    def _kill(self) -> None:
        for helper in self._running:
            helper.kill()

    def close(self) -> None:
        """End them, at once."""
        self._kill()
        for helper in self._running:
            helper.communicate()
        self._running.clear()


def _start() -> Process:
    """One that waits for messages. Ctrl-C is for us, and we end it."""
    if not sys.executable:
        raise OSError("no interpreter to start")
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet,
        start_new_session=True,
    )  # fmt: skip


def _ask(helper: Process, message: bytes) -> Told | None:
    """Its reply; None where it died."""
    assert helper.stdin is not None and helper.stdout is not None
    with suppress(OSError, ValueError):
        helper.stdin.write(len(message).to_bytes(LENGTH, "little") + message)
        helper.stdin.flush()
        return Told(**json.loads(helper.stdout.readline()))
    return None
