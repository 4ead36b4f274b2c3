"""Runs `loopfuse` in a process of its own and says what it took: seconds, memory, how it ended."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEGABYTES = 10.0, 1000.0
"""What a file of 100 kB may cost."""


@dataclass(frozen=True)
class Measured:
    """How one command went: exit code (negative: a signal), seconds of processor time (other work
    on the machine does not count), peak memory, what it said."""

    code: int
    seconds: float
    megabytes: float
    text: str

    def check(self, *codes: int, seconds: float = SECONDS) -> Measured:
        """Fails unless the command ended with one of `codes`, in time, in memory, and without a
        traceback."""
        shown = f"code {self.code}, {self.seconds:.1f} s, {self.megabytes:.0f} MB\n{self.text[-3000:]}"
        assert "Traceback" not in self.text and "bug[" not in self.text, shown
        assert self.code in codes, shown
        assert self.seconds < seconds, shown
        assert self.megabytes < MEGABYTES, shown
        return self


def measure(*arguments: str, timeout: float = 120.0, environment: dict[str, str] | None = None) -> Measured:
    """`loopfuse` with `arguments`, under `timeout` seconds and 6 GB of address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    # `ru_maxrss` of a child begins with the memory of the process that forked it: it says its own.
    script = (
        "import atexit, os; from loopfuse.cli import main; "
        "said = lambda: open(os.environ['MEMORY_FILE'], 'w').write(open('/proc/self/status').read()); "
        "atexit.register(said); main()"
    )
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryDirectory() as cache,
        tempfile.NamedTemporaryFile("r") as memory,
    ):
        environ = {
            **os.environ,
            "LOOPFUSE_CACHE_DIR": cache,
            "MEMORY_FILE": memory.name,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **(environment or {}),
        }
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            preexec_fn=limit,
            start_new_session=True,
        )
        while True:
            done, status, used = os.wait4(child.pid, os.WNOHANG)
            if done:
                break
            if time.perf_counter() - start > timeout:
                os.killpg(child.pid, signal.SIGKILL)
                _, status, used = os.wait4(child.pid, 0)
                break
            time.sleep(0.01)
        seconds = used.ru_utime + used.ru_stime
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
        own = re.search(r"VmHWM:\s+(\d+) kB", memory.read())
    kilobytes = int(own[1]) if own else used.ru_maxrss
    return Measured(child.returncode, seconds, kilobytes / 1024, text)
