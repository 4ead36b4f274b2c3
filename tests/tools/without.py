"""A strategy can be taken out: its folder, and its lines in the registry.

    python tests/tools/without.py sliding rows     # in a copy of the project, one after the other
    python tests/tools/without.py --share 3 rows   # with a third of the cases, always the same
    python tests/tools/without.py all              # each but those that everything falls back on

What is left imports, type-checks (where pyright is installed), and passes the tests of all cases that other
strategies take: which those are is read off the plans. Exit status 1 where something does not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = Path("loopfuse/plan/strategies")
REGISTRY = Path("loopfuse/plan/registry.py")
NEEDED = ("generic", "plain")
"""What takes everything that no other takes."""
IMPORTS = """
import importlib, pkgutil, loopfuse
skip = ("__main__", "mypy_plugin", "static_types")
for module in pkgutil.walk_packages(loopfuse.__path__, "loopfuse."):
    if not module.name.endswith(skip):
        importlib.import_module(module.name)
"""


def strategies() -> list[str]:
    """Every strategy that may go."""
    text = (ROOT / REGISTRY).read_text()
    found = re.findall(r"^from loopfuse\.plan\.strategies\.(\w+)\S* import [A-Z]+$", text, re.M)
    return [name for name in found if name not in NEEDED]


def users(share: int = 1) -> dict[str, set[str]]:
    """The strategies that take part in the plans of each case (or of one in `share`), by its name."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import engines
    from test_cases import PROGRAMS, named

    from loopfuse.base.options import CPU

    found: dict[str, set[str]] = {}
    warnings.simplefilter("ignore")
    for case in PROGRAMS[::share]:
        mine = found.setdefault(named(case), set())
        with engines.without_proofs():
            for kernel in engines.read(case.source).kernels:
                for target in (engines.GPU, CPU):
                    planned = engines._plan(case.source, kernel.name, target, None, True)
                    mine |= set(map(strategy_of, planned.scheduled.fits.values()))
    return found


def strategy_of(fit: object) -> str:
    """The folder or file that a fit comes from."""
    return getattr(fit, "strategy", "") or type(fit).__module__.split(".")[3]


def copy_without(name: str, folder: Path) -> None:
    """The project in `folder`, without the strategy."""
    for part in ("loopfuse", "grammar", "tests", "examples", "benchmarks", "pyproject.toml"):
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "results"))
        elif source.exists():
            shutil.copy(source, folder / part)
    gone = folder / STRATEGIES / name
    if gone.is_dir():
        shutil.rmtree(gone)
    else:
        gone.with_suffix(".py").unlink()
    registry = folder / REGISTRY
    lines = registry.read_text().splitlines(keepends=True)
    kept = [line for line in lines if f"strategies.{name}" not in line and line.strip() != f"{name.upper()},"]
    assert len(kept) == len(lines) - 2, f"{name} has other lines than two in the registry"
    registry.write_text("".join(kept))


def try_without(name: str, cases: list[str]) -> bool:
    """Does what is left do without the strategy?"""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        copy_without(name, folder)
        listing = folder / "cases.txt"
        listing.write_text("".join(f"tests/test_cases.py::test_all_ways_agree[{case}]\n" for case in cases))
        steps = [
            ("imports", [sys.executable, "-c", IMPORTS]),
            ("types", [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "loopfuse/plan", "loopfuse/pipeline.py"]),
            ("cases", [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "-n", "2",
                       "--timeout", "300", f"@{listing}"]),
        ]  # fmt: skip
        good = True
        for step, command in steps:
            if step == "types" and not _has("pyright"):
                print(f"without {name}: no pyright here, types not checked")
                continue
            env = {**os.environ, "PYTHONPATH": str(folder)}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
            if done.returncode != 0:
                good = False
                print(f"without {name}: {step} fail\n{(done.stdout + done.stderr)[-3000:]}")
    words = f"{len(cases)} cases" if good else "FAILED"
    print(f"without {name}: {words} ({time.monotonic() - begun:.0f} s)")
    return good


def _has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def main(arguments: list[str]) -> int:
    known, share = strategies(), 1
    if arguments[:1] == ["--share"] and len(arguments) > 2 and arguments[1].isdecimal():
        share, arguments = max(1, int(arguments[1])), arguments[2:]
    names = known if arguments == ["all"] else arguments
    if not names or any(name not in known for name in names):
        print(f"usage: without.py [--share N] STRATEGY ... | all   ({', '.join(known)})", file=sys.stderr)
        return 2
    found = users(share)
    results = [try_without(name, [case for case, who in found.items() if name not in who]) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
