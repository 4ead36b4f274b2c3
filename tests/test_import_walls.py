"""The import walls of docs/architecture.md, held by reading every import in the package.

Imports under `if TYPE_CHECKING` are types only and load nothing; all others count, wherever they
stand. `LAZY` names modules that must be imported inside a function, not when a file loads.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "loopfuse"
FILES = sorted(PACKAGE.rglob("*.py"))

# What of ours each room may import besides itself: rooms (without those inside them), or single modules of rooms.
# A room is a folder or a file at the top, and what lies inside a folder is a room of its own.
#
# The floors: base; lang; tree and poly; proof, plan and codegen, which do not see each other; and pipeline, which
# sees them all. frontend stands on lang, runtime on base alone: a cached kernel loads no compiler.
_CODE = ("tree.looptree", "tree.layout", "tree.price", "lang.nodes", "lang.ops", "lang.walk", "lang.index", "lang.index_text", "lang.linear", "base")
"""What code generation sees of a tree: its nodes and expressions, and what it costs, which the manifest says."""
_PLAN = ("plan.units", "tree", "poly", "lang", "base")
WALLS: dict[str, tuple[str, ...]] = {
    "base": (),
    "lang.surface": ("base",),
    "lang": ("lang.surface", "base"),
    "lang.check": ("lang", "lang.surface", "base"),
    "frontend": (),
    "frontend.lf": ("lang.surface", "base"),
    "frontend.mlir": ("lang", "lang.surface", "base"),
    "frontend.python": ("lang", "lang.surface", "lang.check", "base"),
    "poly": ("lang", "base"),
    "tree": ("lang", "base"),
    "tree.rewrite": ("tree", "lang", "base"),
    "tree.form": ("tree", "tree.rewrite", "lang", "base"),
    "tree.interp": ("tree", "tree.form", "tree.rewrite", "lang", "base"),
    "proof": ("tree", "tree.form", "tree.rewrite", "poly", "lang", "base"),
    "plan.simplify": ("poly", "lang"),
    "plan.units": ("tree", "poly", "lang", "base"),
    "plan.mapping": ("tree.rewrite", *_PLAN),
    "plan.fusion": ("plan.mapping", *_PLAN),
    "plan.strategies": ("plan.fusion", "plan.mapping", "tree.rewrite", *_PLAN),
    "plan.strategies.generic": ("plan.strategies", "plan.mapping", "tree.rewrite", *_PLAN),
    "plan.strategies.affine": ("plan.strategies", "plan.mapping", *_PLAN),
    "plan.strategies.contract": ("plan.strategies", "plan.strategies.generic", "plan.mapping", *_PLAN),
    "plan.strategies.histogram": ("plan.strategies", "plan.strategies.generic", "plan.mapping", *_PLAN),
    "plan.strategies.plain": ("plan.mapping", *_PLAN),
    "plan.strategies.pointwise": ("plan.strategies", "plan.strategies.generic", "plan.mapping", "tree.rewrite", *_PLAN),
    "plan.strategies.rows": ("plan.strategies", "plan.strategies.generic", "plan.mapping", "tree.rewrite", *_PLAN),
    "plan.strategies.scan": ("plan.strategies", "plan.strategies.generic", "plan.mapping", "tree.rewrite", *_PLAN),
    "plan.strategies.sliding": (
        "plan.strategies.sliding.windows", "plan.strategies.sliding.gpu", "plan.strategies.sliding.cpu",
        "plan.strategies", "plan.fusion", "plan.mapping", *_PLAN,
    ),
    "plan.strategies.sliding.windows": ("plan.fusion", "plan.mapping", *_PLAN),
    "plan.strategies.sliding.gpu": ("plan.strategies.sliding.windows", "plan.mapping", *_PLAN),
    "plan.strategies.sliding.cpu": ("plan.strategies.sliding.windows", "plan.fusion", "plan.mapping", *_PLAN),
    "plan": (
        "plan.fusion", "plan.strategies", "plan.strategies.affine", "plan.strategies.contract", "plan.strategies.generic",
        "plan.strategies.histogram", "plan.strategies.pointwise", "plan.strategies.rows", "plan.strategies.scan", "plan.strategies.sliding", "plan.mapping",
        "tree.rewrite", *_PLAN,
    ),
    "codegen": ("tree.rewrite", *_CODE),
    "codegen.lower": ("codegen", "codegen.mlir", "codegen.llvm", "codegen.targets", *_CODE),
    "codegen.llvm": ("codegen", "base"),
    "codegen.targets": ("codegen.llvm", "base"),
    "codegen.math": ("codegen", "codegen.llvm", "codegen.targets", "lang.approximate", *_CODE),
    "codegen.select": ("codegen", *_CODE),
    "codegen.mlir": ("codegen", "codegen.math", "codegen.select", "lang.price", "tree.chains", "tree.rewrite", "tree.walk", *_CODE),
    "codegen.upstream": ("codegen", "codegen.mlir", *_CODE),
    "runtime": ("base",),
    "runtime.arrays": ("runtime", "runtime.devices", "base"),
    "runtime.devices": ("runtime", "base"),
    "runtime.call": ("runtime", "runtime.arrays", "runtime.devices", "base"),
    "tuning": ("runtime", "runtime.arrays", "runtime.call", "runtime.devices", "base"),
    "distribution": ("runtime.arrays", "runtime.formulas", "base"),
    "explain": ("plan.units.records", "runtime.formulas", "base"),
    "pipeline": (
        "codegen", "codegen.lower", "codegen.llvm", "codegen.math", "codegen.select", "codegen.targets", "codegen.upstream", "frontend.lf", "frontend.mlir",
        "lang.check", "lang.surface", "plan", "plan.fusion", "plan.simplify", "plan.strategies.plain",
        "proof", "tree.rewrite", *_PLAN,
    ),
    "watch": ("pipeline", "base"),
    "kernels": (
        "pipeline", "watch", "explain", "distribution", "tuning", "codegen.abi", "codegen.targets.assemble",
        "frontend.python", "lang",
        "runtime", "runtime.arrays", "runtime.call", "runtime.devices",
        "poly.isl_sizes", "base",
    ),
    "commands": (
        "kernels", "pipeline", "explain", "distribution", "tuning", "frontend.lf", "poly", "lang", "lang.surface", "runtime",
        "runtime.arrays", "runtime.devices", "base", "",
    ),
    "testing": (
        "kernels", "pipeline", "watch", "explain", "plan", "plan.fusion", "plan.units", "poly", "lang", "tree",
        "tree.interp", "runtime", "runtime.arrays", "base",
    ),
    "": ("kernels", "base"),
    "cli": ("", "commands", "watch", "base"),
    "__main__": ("cli",),
    "mypy_plugin": (),
}  # fmt: skip

CIRCLES: tuple[set[str], ...] = ()
"""Rooms of which each reaches the others."""

FILE_CIRCLES: tuple[set[str], ...] = ()
"""Files that import each other, in functions too."""

# third party -> the rooms it lives in (a room or a module; a module's name may be a prefix).
HOMES: dict[str, tuple[str, ...]] = {
    "lark": ("frontend.lf",),
    "islpy": ("poly.isl",),
    "xdsl": ("frontend.mlir",),
    "llvmlite": ("codegen", "runtime.devices.cpu", "runtime.native_code"),
    "cuda": ("runtime.devices.cuda",),
    "numba": ("runtime.devices.threads",),
    "click": ("cli",),
    "rich": ("cli", "base.progress"),
    "skimage": ("runtime.arrays.samples",),
    "PIL": ("runtime.arrays.samples",),
    "torch": ("distribution.torch_op",),
    "mypy": ("mypy_plugin",),
    "IPython": ("base.progress",),
    "ml_dtypes": ("runtime", "lang", "base"),
    "numpy": ("runtime", "tuning", "lang", "plan", "codegen", "commands", "kernels", "frontend.python", "tree", "testing"),
}
LAZY = ("lark", "islpy", "xdsl", "llvmlite", "cuda", "numba", "click", "rich", "skimage", "PIL", "torch")
# These may load their third party with the file: the file itself is loaded only when needed.
EAGER_HOMES = ("frontend", "poly", "codegen", "cli", "plan", "pipeline")


def module_of(file: Path) -> str:
    """`lang.nodes` for loopfuse/lang/nodes.py; a room's `__init__` is the room."""
    parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


@functools.cache
def imports_of(file: Path) -> tuple[tuple[str, bool, int], ...]:
    """(module, at load time, line) of every import that runs."""

    def visit(body: list[ast.stmt] | list[ast.AST], at_load: bool) -> Iterator[tuple[str, bool, int]]:
        for node in body:
            if isinstance(node, ast.Import):
                yield from ((alias.name, at_load, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                base = node.module or ""
                if base == "loopfuse" or base.startswith("loopfuse."):
                    for alias in node.names:
                        full = f"{base}.{alias.name}"
                        path = PACKAGE.joinpath(*full.split(".")[1:])
                        is_module = path.with_suffix(".py").exists() or path.is_dir()
                        yield (full if is_module else base, at_load, node.lineno)
                else:
                    yield (base, at_load, node.lineno)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            else:
                inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from visit(list(ast.iter_child_nodes(node)), at_load and not inside)

    return tuple(visit(ast.parse(file.read_text("utf-8")).body, True))


def is_within(module: str, place: str) -> bool:
    """`lang.nodes` is within `lang` and within `lang.nodes`."""
    return module == place or module.startswith(place + ".")


def room_of(module: str) -> str:
    """The room of a module, or of a room's own `__init__`."""
    if module == "__init__":
        return ""
    return module if (PACKAGE / module.replace(".", "/")).is_dir() else module.rpartition(".")[0] or module


def ours(file: Path) -> Iterator[tuple[str, bool, int]]:
    """(module of ours, at load time, line) of every import of a file."""
    for name, at_load, line in imports_of(file):
        if name == "loopfuse" or name.startswith("loopfuse."):
            yield name.removeprefix("loopfuse").removeprefix(".") or "__init__", at_load, line


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_our_own_walls(file: Path) -> None:
    module = module_of(file)
    room = room_of(module)
    assert room in WALLS, f"a new room needs walls: {room}"
    for target, _, line in ours(file):
        good = room_of(target) in (room, *WALLS[room]) or target in WALLS[room]
        assert good, f"{file}:{line}: {module} may not import {target}"


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """What reaches itself through others (Tarjan's strongly connected components of more than one)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(one: str) -> None:
        number[one] = lowest[one] = len(number)
        open_.append(one)
        for other in sorted(arrows.get(one, ())):
            if other not in number:
                visit(other)
                lowest[one] = min(lowest[one], lowest[other])
            elif other in open_:
                lowest[one] = min(lowest[one], number[other])
        if lowest[one] == number[one]:
            at = open_.index(one)
            found.append(set(open_[at:]))
            del open_[at:]

    for one in sorted(arrows):
        if one not in number:
            visit(one)
    return [each for each in found if len(each) > 1]


def sorted_sets(sets: Iterable[set[str]]) -> list[list[str]]:
    return sorted(sorted(each) for each in sets)


def test_no_more_circles() -> None:
    """Between rooms and between files there are those that are listed, and no others; one that is gone must be
    taken out of the list."""
    files = {module_of(file): {target for target, _, _ in ours(file)} for file in FILES}
    rooms: dict[str, set[str]] = {}
    for module, targets in files.items():
        here = room_of(module)
        rooms.setdefault(here, set()).update(room_of(each) for each in targets if room_of(each) != here)
    assert sorted_sets(circles(rooms)) == sorted_sets(CIRCLES)
    assert sorted_sets(circles(files)) == sorted_sets(FILE_CIRCLES)


def test_every_permission_is_used() -> None:
    """Walls allow no more than is asked for."""
    used: set[tuple[str, str]] = set()
    for file in FILES:
        here = room_of(module_of(file))
        for target, _, _ in ours(file):
            used |= {(here, target), (here, room_of(target))}
    shared = {*_CODE, *_PLAN}
    asked = {(room, one) for room, each in WALLS.items() for one in each if one not in shared}
    assert sorted(asked - used) == []


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_third_parties_have_one_room(file: Path) -> None:
    module = module_of(file)
    for name, at_load, line in imports_of(file):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top == "loopfuse":
            continue
        assert top in HOMES, f"{file}:{line}: {top} has no room"
        homes = HOMES[top]
        # A home `frontend.lf.door` is the module and its parts in files of their own: `frontend.lf_*`.
        good = any(is_within(module, h) or module.startswith(h + "_") for h in homes)
        assert good, f"{file}:{line}: {top} lives in {', '.join(homes)}, not in {module}"
        if top in LAZY and module.split(".")[0] not in EAGER_HOMES:
            assert not at_load, f"{file}:{line}: import {top} inside the function that needs it"


def test_the_kernel_loads_no_compiler() -> None:
    """Loading loopfuse, and so a cache hit, loads neither lark, islpy, xdsl, LLVM nor numba."""
    heavy = ("lark", "islpy", "xdsl", "llvmlite", "numba", "click", "rich", "skimage")
    code = (
        "import sys, loopfuse, loopfuse.runtime.devices.cuda, loopfuse.runtime.devices.cpu;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=PACKAGE.parent,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
