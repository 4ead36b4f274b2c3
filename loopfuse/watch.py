"""Watching compiles: `LOOPFUSE_DEBUG`, `--dump`, `--stop-after` and `--time`.

`LOOPFUSE_DEBUG` prints to standard error: 1 the time of each stage, 2 also the scheduled loop
tree, 3 also the checked program, its model and dependences, 4 also the MLIR, 5 everything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loopfuse.base.diagnostics import Diagnostic, UserError

if TYPE_CHECKING:
    from loopfuse.pipeline import Run

_LEVELS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("schedule",),
    ("check", "schedule", "model", "dependences"),
    ("check", "schedule", "model", "dependences", "lower"),
)

_set: list[Run] = []


def watch(dump: Collection[str], stop_after: str | None) -> Run:
    """Watch every compile of this process from now on; UserError[unknown-stage]. `all` dumps
    after every stage."""
    from loopfuse.pipeline import STAGES, Run

    for name in [*dump, *([stop_after] if stop_after else [])]:
        if name not in STAGES and not (name == "all" and name in dump):
            raise UserError(
                Diagnostic(
                    "unknown-stage",
                    f"there is no stage `{name}`",
                    fix=f"the stages are {', '.join(STAGES)}",
                )
            )
    run = Run(dump=STAGES if "all" in dump else tuple(dump), stop_after=stop_after or "")
    _set[:] = [run]
    return run


def unwatch() -> None:
    """Undo `watch`."""
    _set.clear()


def is_watched() -> bool:
    """A cached result would hide what is to be seen."""
    return bool(_set)


def current_run() -> Run | None:
    """What the next compile is watched by: `watch`'s, else `LOOPFUSE_DEBUG`'s, else None."""
    if _set:
        return _set[0]
    level = os.environ.get("LOOPFUSE_DEBUG", "")
    if not level or level == "0":
        return None
    if level not in ("1", "2", "3", "4", "5"):
        raise UserError(
            Diagnostic("bad-debug-level", f"LOOPFUSE_DEBUG is `{level}`", fix="set it to 1 to 5")
        )
    from loopfuse.pipeline import STAGES, Run

    return Run(dump=STAGES if level == "5" else _LEVELS[int(level)])


WORDS = {
    "parse": "reading", "check": "reading", "model": "what is read and written",
    "dependences": "what must stay in order", "simplify": "what must stay in order",
    "fuse": "what is fused", "schedule": "where it runs", "verify": "the proof",
    "lower": "code", "llvm": "code", "emit": "machine code", "assemble": "machine code",
}  # fmt: skip
"""What a stage is about, for people."""


@contextmanager
def noticed_run(doing: str) -> Generator[Run, None, None]:
    """A run whose stages are shown on a terminal or in a notebook once it takes long; or the run
    by which this process watches compiles: the times of its stages are printed after each under
    `LOOPFUSE_DEBUG` (`--time` prints them at the end)."""
    run = current_run()
    if run is not None:
        yield run
        if not _set:
            print(times_text(run), file=sys.stderr)
        return
    from loopfuse.base.progress import long_work
    from loopfuse.pipeline import Run

    with long_work(doing) as tell:
        yield Run(notice=lambda stage: tell(WORDS[stage]))


def is_stop(error: Exception) -> bool:
    """`error` only says that the stage of `--stop-after` has run."""
    pipeline = sys.modules.get("loopfuse.pipeline")
    return pipeline is not None and isinstance(error, pipeline.Stopped)


def times_text(run: Run) -> str:
    """A line a stage, and the sum."""
    lines = [f"  {name:<12}{seconds * 1e3:9.1f} ms" for name, seconds in run.seconds.items()]
    total = sum(run.seconds.values())
    return "\n".join(["stages", *lines, f"  {'together':<12}{total * 1e3:9.1f} ms"])
