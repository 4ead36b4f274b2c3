"""Everything that the compiler decides about all examples, cases, suites and benchmark kernels, as text: the
net under a change that should change nothing.

    python tests/tools/print_plans.py write FOLDER       # every tree, report, manifest, LLVM IR and PTX
    python tests/tools/print_plans.py compare ONE OTHER  # two such folders: what differs, and how
    python tests/tools/print_plans.py check              # against the digests in tests/plans.txt
    python tests/tools/print_plans.py store "why they change"

`--only NAME` (a part of a program's name, several times) and `--targets cpu,sm_90` say which plans; `store`
takes `--only` alone.
`check` leaves PTX out unless `--ptx` is given: LLVM makes it from the IR that is compared. The CPU's code
is made for x86-64-v3, whatever the machine; PTX is compared where llvmlite is the one it was stored with.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]  # the checkout that this file is in, installed or not
STORED = ROOT / "tests" / "plans.txt"
ROOMS = {
    "examples": "examples",
    "cases": "tests/cases",
    "benchmarks": "benchmarks/kernels",
    "polybench": "tests/polybench",
    "livermore": "tests/livermore",
    "algorithms": "tests/algorithms",
}
TARGETS = ("cpu", "sm_80", "sm_90")
PARTS = ("tree", "report", "manifest", "llvm", "ptx")
SHOWN = 40
"""Lines of a difference that are printed."""


@dataclass(frozen=True, slots=True)
class Print:
    """What was made of one kernel for one target: texts by part, or the refusal as the only one."""

    name: str
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A line: the name, and eight digits for each part."""
        return " ".join((self.name, *(f"{part}={_digest(text)}" for part, text in self.parts.items())))

    def __str__(self) -> str:
        return "".join(f"==== {self.name}: {part}\n{text.rstrip()}\n" for part, text in self.parts.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def programs(only: Iterable[str] = ()) -> dict[str, Path]:
    """Every program by its name (`cases/swap`), the benchmarks and examples, which take longest, first."""
    found = {
        f"{room}/{path.stem}": path
        for room, folder in sorted(ROOMS.items(), key=lambda item: item[0] == "cases")
        for path in sorted((ROOT / folder).glob("*.lf")) + sorted((ROOT / folder).glob("*.mlir"))
    }
    wanted = tuple(only)
    return {name: path for name, path in found.items() if not wanted or any(one in name for one in wanted)}


def prints_of(name: str, targets: Iterable[str], is_code_made: bool) -> list[tuple[str, Print]]:
    """Every kernel of one program for each of the targets, by target."""
    os.environ |= {"LOOPFUSE_CPU": "x86-64-v3", "LOOPFUSE_CACHE": "0"}
    from proved_once import proved_once

    from loopfuse import pipeline
    from loopfuse.base import machine
    from loopfuse.base.diagnostics import LoopfuseError, Source

    # Whatever the caches of the machine at hand.
    machine._PLANNED["cpu"] = replace(machine.CPU, resident=24 << 20)  # pyright: ignore[reportPrivateUsage]

    path = programs()[name]
    language = "mlir" if path.suffix == ".mlir" else "lf"
    source = Source(str(path.relative_to(ROOT)), path.read_text(), language)
    found: list[tuple[str, Print]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = pipeline.read_program(source)
        except LoopfuseError as error:
            return [(target, Print(f"{name} {target}", {"refusal": str(error)})) for target in targets]
        for kernel in program.kernels:
            with proved_once():
                for target in targets:
                    title = f"{name}:{kernel.name} {target}"
                    try:
                        parts = _parts(program, kernel.name, target, is_code_made)
                    except LoopfuseError as error:
                        parts = {"refusal": str(error)}
                    found.append((target, Print(title, parts)))
    return found


def _parts(program: Any, kernel: str, target: str, is_code_made: bool) -> dict[str, str]:
    """What is made of a kernel for one target."""
    from loopfuse import pipeline
    from loopfuse.base.options import CPU, Options, Target
    from loopfuse.tree.printer import print_tree

    options = Options(target=CPU if target == "cpu" else Target(target))
    planned = pipeline.plan_kernel(program, kernel, options)
    emit = {"report", "llvm"} | ({"ptx"} if is_code_made and target != "cpu" else set())
    made = pipeline.compile_kernel(program, kernel, options, emit=emit, planned=planned)
    parts = {
        "tree": print_tree(planned.tree),
        "report": json.dumps(made.report, indent=1),
        "manifest": json.dumps(made.manifest, indent=1),
        "llvm": made.llvm,
    }
    return {**parts, "ptx": made.ptx} if made.ptx else parts


def _one(name: str, targets: Iterable[str], is_code_made: bool) -> tuple[str, list[tuple[str, Print]]]:
    try:
        return name, prints_of(name, targets, is_code_made)
    except Exception as error:  # one broken program must not hide the others
        fault = {"fault": f"{type(error).__name__}: {error}"}
        return name, [(target, Print(f"{name} {target}", fault)) for target in targets]


def all_prints(
    only: Iterable[str], targets: Iterable[str], is_code_made: bool, jobs: int
) -> Iterator[tuple[str, str, list[Print]]]:
    """(program, target, its kernels), in the order of the names."""
    with ProcessPoolExecutor(jobs) as pool:
        for name, found in pool.map(partial(_one, targets=tuple(targets), is_code_made=is_code_made), programs(only)):
            for target in targets:
                yield name, target, [one for where, one in found if where == target]


# ------------------------------------------------------------------------------- the commands


def write(folder: Path, arguments: argparse.Namespace) -> int:
    """One file for each program and target."""
    for name, target, found in all_prints(arguments.only, arguments.targets, True, arguments.jobs):
        path = folder / f"{name}.{target}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(str(one) for one in found))
    return 0


def _sections(path: Path) -> dict[str, str]:
    parts = re.split(r"^==== (.*)\n", path.read_text() if path.exists() else "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def compare(one: Path, other: Path) -> int:
    """Prints what differs; 1 if anything does."""
    names = sorted({str(path.relative_to(room)) for room in (one, other) for path in room.rglob("*.txt")})
    differing = 0
    for name in names:
        before, after = _sections(one / name), _sections(other / name)
        for title in dict.fromkeys((*before, *after)):
            first, second = before.get(title, ""), after.get(title, "")
            if first == second:
                continue
            differing += 1
            print(f"---- {title}")
            lines = list(difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm="", n=1))[2:]
            print("\n".join(lines[:SHOWN]))
            if len(lines) > SHOWN:
                print(f"... {len(lines) - SHOWN} lines more")
    print(f"{differing} texts differ, in {len(names)} files")
    return 1 if differing else 0


def _version() -> str:
    import llvmlite

    return f"llvmlite {llvmlite.__version__}"


def _stored() -> tuple[list[str], dict[str, dict[str, str]]]:
    """The lines of the head, and by name the digest of each part."""
    lines = STORED.read_text().splitlines() if STORED.exists() else []
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, parts = _read(line)
            found[name] = parts
    return [line for line in lines if line.startswith("#")], found


def _read(line: str) -> tuple[str, dict[str, str]]:
    *name, rest = re.split(r" (?=\w+=)", line, maxsplit=1)
    return name[0], dict(part.split("=") for part in rest.split())


def _changes(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]], is_ptx_compared: bool
) -> list[str]:
    """What differs, a line each: the name and the parts."""
    said: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            said.append(f"{name}: {'new' if old is None else 'no longer there'}")
            continue
        parts = [
            part for part in (*PARTS, "refusal", "fault")
            if (part != "ptx" or is_ptx_compared) and old.get(part) != new.get(part)
        ]  # fmt: skip
        if parts:
            said.append(f"{name}: {', '.join(parts)}")
    return said


def check(arguments: argparse.Namespace) -> int:
    """Prints which plans are not those whose digests are stored; 1 if any."""
    start = time.perf_counter()
    head, stored = _stored()
    is_ptx_compared = arguments.ptx and f"# {_version()}" in head
    now: dict[str, dict[str, str]] = {}
    for _, _, found in all_prints(arguments.only, arguments.targets, is_ptx_compared, arguments.jobs):
        now |= dict(_read(one.digest) for one in found)
    wanted = tuple(arguments.only)
    before = {
        name: parts
        for name, parts in stored.items()
        if name.rsplit(" ", 1)[1] in arguments.targets and (not wanted or any(one in re.split("[: ]", name)[0] for one in wanted))
    }
    said = _changes(before, now, is_ptx_compared)
    for line in said:
        print(line)
    took = time.perf_counter() - start
    if not said:
        print(f"{len(now)} plans are as stored ({took:.0f}s)")
        return 0
    print(
        f"{len(said)} of {len(now)} plans are not as stored ({took:.0f}s). `write` here and at an earlier commit, and\n"
        "`compare`, show how; where the change is wanted: `store` with the reason"
    )
    return 1


def store(reason: str, arguments: argparse.Namespace) -> int:
    """Writes the digests (of the programs that `--only` names, or of all), and why they are others."""
    head, before = _stored()
    wanted = programs(arguments.only)
    found = [
        " ".join((name, *(f"{part}={digest}" for part, digest in parts.items())))
        for name, parts in before.items()
        if arguments.only and re.split("[: ]", name)[0] not in wanted
    ]
    found += [
        one.digest
        for _, _, prints in all_prints(arguments.only, TARGETS, True, arguments.jobs)
        for one in prints
    ]
    faults = [line for line in found if " fault=" in line]
    if faults:
        print("\n".join(faults))
        return 1
    changed = _changes(before, dict(_read(line) for line in found), is_ptx_compared=True)
    reasons = [line for line in head if re.match(r"# \d{4}-", line)]
    reasons.append(f"# {datetime.now(UTC):%Y-%m-%d} ({len(changed)} plans): {reason}")
    text = [
        "# Digests of every plan (tests/tools/print_plans.py), and why they changed, the last reason last.",
        f"# {_version()}", *reasons, *sorted(found),
    ]  # fmt: skip
    STORED.write_text("\n".join(text) + "\n")
    print(f"{len(changed)} plans changed")
    return 0


def main() -> int:
    """Runs one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("write", "compare", "check", "store"))
    parser.add_argument("what", nargs="*", help="folders, or the reason")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--targets", default=TARGETS, type=lambda text: tuple(text.split(",")))
    parser.add_argument("--ptx", action="store_true", help="compare PTX too")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    match arguments.command, arguments.what:
        case "write", [folder]:
            return write(Path(folder), arguments)
        case "compare", [one, other]:
            return compare(Path(one), Path(other))
        case "check", []:
            return check(arguments)
        case "store", [reason]:
            return store(reason, arguments)
        case _:
            parser.error("`write FOLDER`, `compare ONE OTHER`, `check` or `store REASON`")


if __name__ == "__main__":
    sys.exit(main())
