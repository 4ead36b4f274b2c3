"""A process that compiles what it is told to, for a search (`loopfuse.tuning.helpers`).

Messages come on standard input, each a pickled `Wanted` after its length; the artifact goes into the
disk cache, and a line of JSON, what the compile said, to standard output. Ends with its input.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import asdict, dataclass

from loopfuse import pipeline
from loopfuse.base.options import Options
from loopfuse.kernels.stored import find_artifact, store_artifact
from loopfuse.lang.nodes import Program
from loopfuse.tuning.helpers import LENGTH
from loopfuse.tuning.told import Told, listen


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compile, and the key to keep it under."""

    key: str
    program: Program
    kernel: str
    options: Options
    emit: frozenset[str]


def compile_wanted(wanted: Wanted) -> Told:
    """Compile it into the disk cache, unless it is there, or cannot be used."""
    if find_artifact(wanted.key) is not None:
        return Told()
    made, told = listen(
        lambda: pipeline.compile_kernel(
            wanted.program, wanted.kernel, wanted.options, emit=wanted.emit
        )
    )
    if made is not None:
        store_artifact(wanted.key, made)
    return told


def main() -> None:
    """Serve until there is no more input."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anybody else prints is no reply
    messages = sys.stdin.buffer
    while head := messages.read(LENGTH):
        wanted = pickle.loads(messages.read(int.from_bytes(head, "little")))
        replies.write(json.dumps(asdict(compile_wanted(wanted))) + "\n")
        replies.flush()
