"""The import walls of docs/architecture.md, held by reading every import in the package.

Imports under `if TYPE_CHECKING` are types only and load nothing; all others count, wherever they
stand. `LAZY` names modules that must be imported inside a function, not when a file loads.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "loopfuse"
FILES = sorted(PACKAGE.rglob("*.py"))

# room -> what of ours it may import (a room, or one module of it), besides itself.
ROOMS: dict[str, tuple[str, ...]] = {
    "base": (),
    "lang": ("base",),
    "runtime": ("base",),
    "tuning": ("runtime", "base"),
    "distribution": ("base", "runtime.arguments", "runtime.formulas"),
    "frontend": ("lang", "base"),
    "poly": ("lang", "base"),
    "plan": ("poly", "lang", "base"),
    # lang.walk and lang.affine are functions over lang.nodes, lang.ops is the table of its operations;
    # nothing else of lang is seen. What a tree
    # costs (plan.tree_price) is printed into the manifest, as what it holds is.
    "codegen": ("plan.looptree", "plan.tree_price", "lang.nodes", "lang.ops", "lang.walk", "lang.affine", "base"),
}
# single files at the top; `commands` holds the command line's bodies.
TOP: dict[str, tuple[str, ...]] = {
    "__init__": ("base", "kernels", "pykernel"),
    "kernels": ("base", "runtime", "tuning", "distribution", "pipeline", "sources", "explain", "explain_dependences", "commands", "lang.nodes", "watch", "stored", "clearing", "compile_helper"),
    "compile_helper": ("base", "stored", "tuning", "pipeline", "lang.nodes"),
    "stored": ("base", "runtime.cache"),
    "clearing": ("base", "runtime.cache", "runtime.cuda", "runtime.gpu_clearing", "codegen.assemble"),
    "sources": ("base", "runtime.cache", "pipeline", "signatures", "lang.nodes", "watch"),
    "signatures": ("codegen.abi", "lang.nodes"),
    "explain": ("base", "plan.records", "runtime.formulas", "explain_html"),
    "explain_html": ("base", "explain", "plan.records"),
    "explain_dependences": ("base",),
    "watch": ("base", "commands.progress", "pipeline"),
    "pykernel": (
        "base", "kernels", "pipeline", "signatures", "frontend.pyfunc", "frontend.pyfunc_written", "pykernel_scope",
        "pykernel_types", "pykernel_words", "runtime.arrays", "runtime.cache", "tuning", "watch",
        "distribution.torch_op", "pykernel_sent", "pykernel_results",
    ),
    "pykernel_results": (
        "base", "runtime", "codegen.abi", "frontend.pyfunc_context", "lang.nodes",
    ),
    "pykernel_sent": ("base", "pykernel", "pykernel_types"),
    "__main__": ("cli",),
    "mypy_plugin": (),
    "pykernel_scope": ("base",),
    "pykernel_types": ("base", "runtime.not_arrays", "runtime.views", "frontend.pyfunc_context"),
    "pykernel_words": ("base",),
    "cli": ("", "base", "commands", "watch"),
}
ANYTHING = (
    "pipeline", "commands", "testing", "testing_dependences", "testing_facts", "testing_formulas",
    "testing_forms", "testing_names", "testing_subject",
)  # fmt: skip

# third party -> the rooms it lives in (a room or a module; a module's name may be a prefix).
HOMES: dict[str, tuple[str, ...]] = {
    "lark": ("frontend.lf",),
    "islpy": ("poly.isl",),
    "xdsl": ("frontend.affine",),
    "llvmlite": ("codegen", "runtime.cpu", "runtime.native_code"),
    "cuda": ("runtime.cuda",),
    "numba": ("runtime.threads",),
    "click": ("cli",),
    "rich": ("cli", "commands.progress"),
    "skimage": ("runtime.samples",),
    "PIL": ("runtime.samples",),
    "torch": ("distribution.torch_op",),
    "mypy": ("mypy_plugin",),
    "IPython": ("commands.progress",),
    "ml_dtypes": ("runtime", "lang", "base"),
    "numpy": ("runtime", "tuning", "lang", "plan", "codegen", "commands", "frontend.pyfunc", "testing"),
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


def imports_of(file: Path) -> Iterator[tuple[str, bool, int]]:
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

    yield from visit(ast.parse(file.read_text("utf-8")).body, True)


def is_within(module: str, place: str) -> bool:
    """`lang.nodes` is within `lang` and within `lang.nodes`."""
    return module == place or module.startswith(place + ".")


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_our_own_walls(file: Path) -> None:
    module = module_of(file)
    room = module.split(".")[0]
    if room in ANYTHING:
        return
    allowed = ROOMS[room] if room in ROOMS else TOP[room]
    for name, _, line in imports_of(file):
        if name != "loopfuse" and not name.startswith("loopfuse."):
            continue
        target = name.removeprefix("loopfuse").removeprefix(".")
        if not target:
            assert "" in allowed, f"{file}:{line} imports the whole of loopfuse"
            continue
        good = (room in ROOMS and is_within(target, room)) or any(
            place and is_within(target, place) for place in allowed
        )
        assert good, f"{file}:{line}: {module} may not import {target}"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_third_parties_have_one_room(file: Path) -> None:
    module = module_of(file)
    for name, at_load, line in imports_of(file):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top == "loopfuse":
            continue
        assert top in HOMES, f"{file}:{line}: {top} has no room"
        homes = HOMES[top]
        # A home `frontend.lf` is the module and its parts in files of their own: `frontend.lf_*`.
        good = any(is_within(module, h) or module.startswith(h + "_") for h in homes)
        assert good, f"{file}:{line}: {top} lives in {', '.join(homes)}, not in {module}"
        if top in LAZY and module.split(".")[0] not in EAGER_HOMES:
            assert not at_load, f"{file}:{line}: import {top} inside the function that needs it"


def test_the_kernel_loads_no_compiler() -> None:
    """Loading loopfuse, and so a cache hit, loads neither lark, islpy, xdsl, LLVM nor numba."""
    heavy = ("lark", "islpy", "xdsl", "llvmlite", "numba", "click", "rich", "skimage")
    code = (
        "import sys, loopfuse, loopfuse.runtime.cuda, loopfuse.runtime.cpu;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=PACKAGE.parent,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_every_room_is_known() -> None:
    """A new folder or top-level file needs a wall of its own."""
    for file in FILES:
        room = module_of(file).split(".")[0]
        assert room in ROOMS or room in TOP or room in ANYTHING, f"no wall for {room}"
