"""What is done about each message of the command line, and of the assertions of loopfuse.testing."""

from __future__ import annotations

import re

from tests.fixes.said import ByMachine, ByUser, Entry, Hand, Said

USER = ByUser("the number is the user's choice")
OURS = ByUser("it is a fault of ours, and asks for a report")
NAME = ByUser("which of those that it lists was meant is not known")


def word(pattern: str) -> Hand:
    """The fix's first code instead of the pattern."""

    def hand(said: Said) -> str:
        text, count = re.subn(pattern, said.codes[0], said.text, count=1)
        assert count == 1
        return text

    return hand


def added(said: Said) -> str:
    """`add `--size N=6``, `name one: `--kernel k``."""
    assert re.match(r"add|name one", said.fix)
    return f"{said.text} {said.codes[0]}"


def number(pattern: str) -> Hand:
    """The first number of the fix instead of the pattern."""
    return lambda s: re.sub(pattern, re.findall(r"\d+", s.fix)[0], s.text, count=1)


COMMAND_LINE: dict[str, Entry] = {
    "bad-budget": ByUser("how long a search may take is the user's choice"),
    "bad-cache-limit": ByMachine(number("many(?= )"), "LOOPFUSE_CACHE_LIMIT=many explain one.lf"),
    "bad-debug-level": ByMachine(number("9(?= )"), "LOOPFUSE_DEBUG=9 explain one.lf"),
    "bad-emit": ByMachine(word(r"--target cpu"), "compile one.lf --target cpu --emit ptx -o out"),
    "bad-fuel": USER,
    "bad-operations": ByMachine(
        lambda s: s.text.replace("=0 ", f"={re.findall(r'[0-9]+', s.fix)[-1]} "),
        "LOOPFUSE_ISL_OPERATIONS=0 explain one.lf",
    ),
    "bad-thread-count": ByMachine(number("0(?= )"), "LOOPFUSE_NUM_THREADS=0 run one.lf x=random:4"),
    "bad-thread-layer": ByUser("a process keeps its threads, tests/runtime has it"),
    "no-thread-layer": ByUser("a package is to be installed, or none asked for"),
    "bad-value": ByUser("which value was meant is not known"),
    "cannot-read": ByUser("which file was meant is not known"),
    "cannot-write": ByUser("which directory was meant is not known"),
    "file-too-large": ByUser("where to cut a program is the user's choice"),
    "missing-package": ByUser("a package is to be installed"),
    "no-kernel": ByUser("the kernel is to be written"),
    "no-sizes": USER,
    "not-utf8": ByUser("the file is to be saved again"),
    "unknown-example": ByMachine(word(r"example:\w+"), "explain example:unshap"),
    "unknown-kernel": ByMachine(
        lambda s: s.text.replace("kk", s.fix.split()[-1]), "explain one.lf --kernel kk"
    ),
    "unknown-sample": NAME,
    "unexpected": OURS,
    "unknown-stage": NAME,
    "unknown-cpu": ByMachine(word("skylake"), "LOOPFUSE_CPU=skylake run one.lf x=random:4"),
    "unknown-target": ByMachine(word("tpu"), "explain one.lf --target tpu"),
    "unsafe-cache": ByUser("whose the directory is to be is the user's choice"),
    "which-kernel": ByMachine(added, "run two.lf x=random:4"),
    "bad-manifest": OURS,
    "bad-object": OURS,
    "forms-differ": OURS,
}
INSTANCES = ByMachine(added, "deps one.lf --instances")
MANY_INSTANCES = ByMachine(number("9{8}"), "deps example:jacobi --instances --size N=99999999,steps=2")
TESTING: dict[str, Entry] = {
    code: ByUser("which of those that it lists was meant is not known")
    for code in (
        "not-a-kernel", "unknown-loop", "ambiguous-loop", "unknown-iterator", "unknown-array",
        "unknown-statement", "bad-filter", "bad-formula", "unknown-size", "unknown-home",
        "reference-arguments", "reference-returns-nothing", "reference-results",
    )
}  # fmt: skip
