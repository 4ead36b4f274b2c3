"""Random `.lf` programs in the quickest honest way: the interpreter against compiled code on the CPU.

A program is compiled once, with the options that a user gets (reductions keep their order where
there are any, or bits could not be compared), and called for three sets of sizes: those it was drawn
with, one with a dimension as long as vectors are, and next to nothing. Each array lies between pages
that may not be touched (`guarded`), at one end and at the other; so do workspaces. The second call for
equal shapes takes the generated call path. What the checker and the trees say, the longer comparison
(`fuzz.compare`) tells.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from guarded import SIDES, guard_all, guarded_workspaces

from fuzz import engines
from fuzz.arguments import arguments_of, copied
from fuzz.campaigns import Checked
from fuzz.choices import RandomChoices
from fuzz.compare import described, differs, has_reductions
from fuzz.generate import generate
from fuzz.program import Program, case_text
from loopfuse.base.diagnostics import LimitError, Source, UserError
from loopfuse.kernels import kernel as kernels

SUFFIX = ".lf"
WIDE = (16, 17, 31, 32, 33, 37, 40, 48, 63, 64, 65, 70)
"""Lengths of a dimension at which the vectoriser's loops run, whole and with rests."""
SHORT = 17
"""The longest such dimension where a loop runs over its product with another: its square would take the
interpreter minutes."""
POINTS = 500
"""About how many points an array of a wide call may have: the interpreter takes microseconds each."""


BRANCHES = "volumes,mixed_conditions,branches"
"""What every fourth program has: conditions that hold in some lanes of a vector and not in others,
around reads beyond an array, in three dimensions."""

WRONGLY = "wrongly and noticed"
"""What the pipeline says of a plan that the checker found to be wrong."""

MOST_LINES = 24
MOST_ACCESSES = 36
"""Programs of more are drawn anew, a few times: one in ten takes more than half of the time."""


def program_of(number: int) -> Program:
    """Program `number`."""
    profile = BRANCHES if number % 4 == 3 else ""
    program = Program("")
    for turn in range(8):
        program = generate(RandomChoices(f"lf:{number}:{turn}"), profile)
        if program.text.count("\n") <= MOST_LINES and program.text.count("[") <= MOST_ACCESSES:
            break
    return program


def text(number: int, notes: str) -> str:
    """See `campaigns`."""
    return case_text(program_of(number), notes)


def check(number: int) -> Checked:
    """See `campaigns`."""
    return check_program(program_of(number), number)


def check_program(program: Program, number: int = 0, is_exact: bool = False) -> Checked:
    """Each kernel of the program; the first failure counts, and a plan that the checker found to be wrong is one.
    `is_exact`: sums have the same bits in any order, and may have any."""
    ran: Counter[str] = Counter()
    refused = ""
    names = re.findall(r"^kernel (\w+)\(", program.text, re.MULTILINE)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name in names:
            try:
                difference = _check_kernel(program, name, number, ran, is_exact)
            except (UserError, LimitError) as error:
                refused = error.diagnostics[0].code
                continue
            except Exception as error:
                failure = described("compiled", error)
                return Checked("failed", "", failure.kind, failure.detail, dict(ran))
            if difference:
                return Checked("failed", "", "differ: compiled", difference, dict(ran))
    for one in said:
        if WRONGLY in str(one.message):
            return Checked("failed", "", "planned wrongly, noticed", str(one.message), dict(ran))
    return Checked("refused" if refused else "ok", refused, ran=dict(ran))


def calls_of(program: Program, number: int) -> Iterator[Program]:
    """The program with the sizes of each call."""
    yield program
    drawn = random.Random(f"sizes:{number}")
    names = list(program.sizes)
    depth = max((line.count(",") + 1 for line in re.findall(r"\w+\d*\[([^\]]*)\]", _head(program))), default=1)
    last = re.findall(r"(\w+)[^\w\]]*\]", _head(program))[:1]
    wide = last[0] if last and last[0] in names and drawn.random() < 0.5 else drawn.choice(names)
    length = drawn.choice(WIDE)
    if re.search(rf"\b{wide} \* \w+:|\* {wide}:", program.text):
        length = min(length, SHORT)
    room = int((POINTS / length) ** (1 / max(1, depth - 1)))
    sizes = {name: drawn.randint(1, max(1, min(7, room))) for name in names}
    yield replace(program, sizes={**sizes, wide: length}, seed=program.seed + 1)
    yield replace(program, sizes={name: drawn.randint(0, 3) for name in names}, seed=program.seed + 2)


def _head(program: Program) -> str:
    return "".join(re.findall(r"^kernel .*$", program.text, re.MULTILINE))


def _check_kernel(program: Program, name: str, number: int, ran: Counter[str], is_exact: bool) -> str:
    """In words, where compiled code differs from the interpreter; "" where it does not."""
    source = Source("random.lf", program.text)
    kernel = kernels.load_all(source, fp=program.fp)[name]
    constants = {each: int(program.scalars[each]) for each in kernel.constants}
    checked = kernel.program(constants)
    node = checked.kernel(name)
    if has_reductions(node) and not is_exact:
        kernel = kernels.load_all(source, fp=program.fp, reassociate=False)[name]
    called, refusal = False, None
    for turn, call in enumerate(calls_of(program, number)):
        arguments = arguments_of(call, node)
        it = engines.Session(call, source, node, checked, arguments)
        expected = engines.interpret(it)
        for side in SIDES if turn == 1 else SIDES[turn // 2 :][:1]:
            held = guard_all(copied(call, arguments), side)
            with guarded_workspaces(side):
                try:
                    got = engines.call_kernel(it, kernel, held)
                except UserError as error:  # what this kernel asks of its sizes
                    refusal = error
                    continue
            called = True
            if difference := differs(it, expected, got):
                sizes = ", ".join(f"{k}={v}" for k, v in call.sizes.items())
                return f"{name} at {sizes} ({side}, data {call.seed}): {difference}"
        ran.update({"interpreter": it.ran["interpreter"]})
        ran.update({"compiled on views" if program.views else "compiled": it.ran["CPU"]})
    if not called and refusal is not None:
        raise refusal
    return ""
