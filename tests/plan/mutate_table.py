"""The mutation table: named ways of breaking LoopTrees, what the checker says, and the proof that
each mutant really computes something wrong.

To add rows: a `Base` is a right tree with small sizes to run it at (`planned` makes one of an
example or of text, `written` takes one of `tree_examples`); a `Row` changes the tree of a base,
with the edits of `mutate_edit` or a function of your own. Put both into a module and its lists
into `BASES` and `ROWS` of `test_mutation_table`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.options import Options, Tuning, parse_target
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.pipeline import plan_kernel
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.proof.check import Verdict, verify
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import LoopTree
from tests.plan.tree_examples import GOOD

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = ("forward", "reverse", "shuffled")
RECOMPUTED = Tuning(windows=False)
"""What a fused stencil reads of another is recomputed in each thread."""


@dataclass(frozen=True, slots=True)
class Made:
    """A right tree with its program."""

    program: PolyProgram
    dependences: Dependences
    tree: LoopTree


@dataclass(frozen=True, slots=True)
class Base:
    """A right tree, made when first needed, and the sizes to run it at."""

    name: str
    make: Callable[[], Made]
    sizes: tuple[dict[str, int], ...]
    kind: str  # "planned" or "by hand"


@dataclass(frozen=True, slots=True)
class Row:
    """One way of breaking the tree of a base. `harmless` says why the mutant still computes the
    right thing, for the few that are wrong in what they claim only; `reassociate` is the option."""

    name: str
    base: str
    change: str
    edit: Callable[[LoopTree], LoopTree]
    harmless: str = ""
    reassociate: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a row: the checker's verdict."""

    row: Row
    verdict: Verdict

    @property
    def check(self) -> str:
        """Which check rejected it."""
        return self.verdict.checks[0] if self.verdict.checks else ""


# ------------------------------------------------------------------------------------ right trees


def planned(
    name: str,
    target: str,
    *sizes: dict[str, int],
    text: str = "",
    fuel: int | None = None,
    shrink: Callable[[LoopTree], LoopTree] | None = None,
    tuning: Tuning = RECOMPUTED,
    reassociate: bool = True,
    merged: bool = False,
) -> Base:
    """The planner's tree for the first kernel of example `name`, or of `text`; `shrink` makes it
    small enough to interpret. Stencils are recomputed unless `tuning` allows windows. `merged`: two
    launches that are one with arrays exchanged are one (`tree.rewrite.turns`)."""

    def make() -> Made:
        source = Source(f"{name}.lf", text or (EXAMPLES / f"{name}.lf").read_text("utf-8"))
        program = check(parse(source))
        options = Options(
            target=parse_target(target), fuel=fuel, tuning=tuning, reassociate=reassociate
        )
        with nullcontext() if merged else patch("loopfuse.plan.schedule.merge", lambda tree, fresh: tree):
            plan = plan_kernel(program, program.kernels[0].name, options)
        assert plan.verdict.answer == "proved", plan.verdict
        tree = plan.tree if shrink is None else shrink(plan.tree)
        return Made(plan.program, plan.dependences, tree)

    device = "cpu" if target == "cpu" else "gpu"
    if tuning.windows:
        device = "lines" if target == "cpu" else "windows"
    label = f"{name} {device}{' unfused' if fuel == 0 else ''}"
    return Base(label, cache(make), sizes, "planned")


def written(name: str) -> Base:
    """A tree made by hand."""

    def make() -> Made:
        example = GOOD[name]()
        return Made(example.program, find_dependences(example.program), example.tree)

    return Base(name, cache(make), (GOOD[name]().sizes,), "by hand")


# ------------------------------------------------------------------------------------ judging


def judge(row: Row, base: Base) -> Outcome:
    """Ask the checker."""
    made = base.make()
    mutant = row.edit(made.tree)
    assert mutant != made.tree, f"{row.name} changes nothing"
    return Outcome(row, verify(made.program, made.dependences, mutant, row.reassociate))


def shown_wrong(row: Row, base: Base) -> str:
    """Where the mutant, run beside the right tree, computes something else or cannot be run: "" if
    no order of the threads shows it at any of the base's sizes."""
    made = base.make()
    mutant = row.edit(made.tree)
    try:
        check_tree(mutant)
    except InternalError:
        return "not well formed"
    for each in base.sizes:
        given = arguments(made, each)
        right = run(made.tree, given, each, "forward", True)
        for order in ORDERS:
            for aligned in (True, False):
                at = " ".join(f"{name}={value}" for name, value in each.items())
                at += f" {order}" * (order != "forward")
                try:
                    found = run(mutant, given, each, order, aligned)
                except InternalError as error:
                    return f"{at}: {error.diagnostics[0].message}"
                except KeyError as name:  # a symbol that is no parameter
                    return f"{at}: nothing is called {name}"
                except IndexError:  # an argument of another shape
                    return f"{at}: outside an argument"
                for name, value in right.items():
                    if not equal(value, found[name]):
                        return f"{at}: `{name}` differs"
    return ""


def arguments(made: Made, sizes: dict[str, int], seed: int = 3) -> dict[str, Any]:
    """Random arguments for the kernel. Subscripts that are data stay inside and repeat."""
    random = np.random.default_rng(seed)
    given: dict[str, Any] = {}
    for array in made.program.kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        dtype = np.dtype(array.dtype.numpy_name)
        if array.dtype.is_float:
            given[array.name] = random.standard_normal(shape).astype(dtype)
        else:
            given[array.name] = random.integers(0, 6, shape).astype(dtype)
        if array.name == "start":  # of a ragged row: they ascend
            given[array.name] = np.sort(given[array.name])
    for scalar in made.program.kernel.scalars:
        given[scalar.name] = sizes.get(scalar.name, 0.75)
    return given


def run(
    tree: LoopTree, given: dict[str, Any], sizes: dict[str, int], order: str, aligned: bool
) -> dict[str, np.ndarray]:
    """All arrays after running the tree on copies."""
    held = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()}
    run_tree(tree, held, sizes, order=order, aligned=aligned)
    return {name: value for name, value in held.items() if isinstance(value, np.ndarray)}


def interpreted(made: Made, given: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """What the program itself gives."""
    return interpret(made.program.kernel, given, sizes, offences=[])


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    """The same bits, or both NaN."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


# ------------------------------------------------------------------------------------ the page

HEAD = """# The checker against named mutations

Every compile ends with `proof/check.py` proving the LoopTree against the exact dependences. This
page lists ways of breaking a tree and what the checker says of each; the mutant is also run by
the LoopTree interpreter, beside the right tree, to show that it really computes something wrong.
Made by `python -m tests.plan.test_mutation_table`; `pytest -s tests/plan/test_mutation_table.py`
prints it and holds it to be current. "Planned" trees are what the planner makes of an example.

"""


def print_table(outcomes: Sequence[Outcome]) -> str:
    """The table as text, for a terminal."""
    lines = [f"{'mutation':<52} {'tree':<22} {'answer':<8} {'check':<10} what the checker said"]
    for each in outcomes:
        lines.append(
            f"{each.row.name:<52} {each.row.base:<22} {each.verdict.answer:<8} {each.check:<10} "
            f"{said(each)}"
        )
    return "\n".join(lines)


def said(outcome: Outcome) -> str:
    """The first finding."""
    return outcome.verdict.findings[0] if outcome.verdict.findings else "nothing"


def make_page(outcomes: Sequence[Outcome]) -> str:
    """docs/checking-mutations.md."""
    parts = [HEAD]
    wrong = sum(each.verdict.answer == "wrong" for each in outcomes)
    parts.append(f"{len(outcomes)} mutations, {wrong} rejected as wrong, ")
    parts.append(f"{len(outcomes) - wrong} because the checker does not know.\n")
    for base in dict.fromkeys(each.row.base for each in outcomes):
        parts.append(f"\n## {base}\n\n")
        parts.append("| mutation | what was changed | rejected by | what the checker said |\n")
        parts.append("|---|---|---|---|\n")
        for each in outcomes:
            if each.row.base == base:
                cells = (each.row.name, each.row.change, _by(each), f"`{_short(said(each))}`")
                parts.append("| " + " | ".join(cells) + " |\n")
    return "".join(parts)


def _by(outcome: Outcome) -> str:
    return outcome.check + (" (unknown)" if outcome.verdict.answer == "unknown" else "")


def _short(finding: str) -> str:
    """Without the example, which depends on isl's choice."""
    text = re.split(r": [@nSt]\w*\[", finding)[0].replace("|", "\\|").replace("`", "'")
    return text.split("; ")[0]
