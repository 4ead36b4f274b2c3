"""Runs command lines in one process under an audit hook, and prints as JSON what they did.

    python file_audit.py < [["compile", "x.lf", ...], ...]

For each: the exit code, and what was opened for writing, removed or renamed, started as a process,
reached over the network, and which code objects were executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    """Warm up (imports write byte code), then watch."""
    from loopfuse.cli import _run

    commands = json.load(sys.stdin)
    on = False
    seen: dict[str, list[str]] = {}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not on:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & WRITES:
                seen["written"].append(os.path.abspath(str(path)))
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link",
                       "os.truncate", "os.chmod"):  # fmt: skip
            for name in (one for one in arguments[:2] if isinstance(one, str)):
                at = arguments[-1] if event != "os.truncate" else -1
                # Names relative to an open folder: as shutil.rmtree removes.
                base = os.readlink(f"/proc/self/fd/{at}") if at >= 0 else ""
                seen["written"].append(os.path.abspath(os.path.join(base, name)))
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
            seen["processes"].append(str(arguments[0] if arguments else event))
        elif event.startswith(("socket.", "urllib.")):
            seen["network"].append(event)
        elif event == "exec":
            seen["executed"].append(arguments[0].co_filename)
        elif event == "compile":
            seen["executed"].append(str(arguments[1]))
        elif event == "import":
            seen["imported"].append(str(arguments[0]))
        elif event in ("pickle.find_class", "marshal.loads"):
            seen["pickled"].append(str(arguments[0])[:60])

    sys.addaudithook(hook)
    results: list[dict[str, Any]] = []
    for command in commands:
        kinds = ("written", "processes", "network", "executed", "imported", "pickled")
        seen = {kind: [] for kind in kinds}
        out, err = io.StringIO(), io.StringIO()
        on = True
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _run(list(command))
        on = False
        results.append({"code": code, "err": err.getvalue(), **{k: sorted(set(v)) for k, v in seen.items()}})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
