"""One program, every way: the outcome as data.

`cpu` and `sm_80` trees, unfused and fused, threads in several orders; compiled, unfused and fused; and
with reductions free to change order, compiled against the tree it was made from, and against the
interpreter where the data is whole numbers and every sum is exact. What the checker could not prove
is run all the same, which tells false alarms from mistakes.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from case_files import same_bits
from engines import is_wide

from fuzz import engines
from fuzz.arguments import arguments_of
from fuzz.engines import Ran, Session, Verdict
from fuzz.program import Program
from loopfuse.base.diagnostics import LimitError, LoopfuseError, UserError
from loopfuse.lang import nodes
from loopfuse.lang.walk import walk_stmts
from loopfuse.tree.walk import mentions_aligned

STEPS = 50
"""Time steps of the checker's examples that are tried: two blocks of 24 and what is left."""


@dataclass(frozen=True)
class Failure:
    """Something wrong. `kind` is equal for failures that look like one bug."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Outcome:
    """`status` is ok, refused (by `code`, before it ran) or failed. `fused`: some loops share a
    kernel in the GPU plan. `verdicts` counts the checker's answers, `ran` the runs of each
    engine."""

    status: str
    code: str = ""
    failure: Failure | None = None
    fused: bool = False
    verdicts: tuple[tuple[str, int], ...] = ()
    ran: tuple[tuple[str, int], ...] = ()


class Refused(Exception):
    """The program was not accepted, by the diagnostic `code`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


Way = tuple[str, Callable[[Session], Ran]]


def _tree(
    target: str, fuel: int | None, order: str, aligned: bool = True
) -> Callable[[Session], Ran]:
    return lambda it: engines.run_planned(it, engines.plan(it, target, fuel).tree, order, aligned)


def _compiled(fuel: int | None) -> Callable[[Session], Ran]:
    return lambda it: engines.run_compiled(it, fuel)


WAYS: tuple[Way, ...] = (
    ("cpu tree unfused", _tree("cpu", 0, "forward")),
    ("cpu tree fused", _tree("cpu", None, "reverse")),
    ("gpu tree unfused", _tree("sm_80", 0, "reverse")),
    ("gpu tree fused", _tree("sm_80", None, "shuffled")),
    ("gpu tree fused, unaligned", _tree("sm_80", None, "forward", aligned=False)),
    ("compiled unfused", _compiled(0)),
    ("compiled fused", _compiled(None)),
)


Extra = Callable[[Session, Ran], Failure | None]


def compare(program: Program, extra: Extra | None = None) -> Outcome:
    """Run each kernel of `program` in every way; `extra` is one more (a GPU), given the expected
    result. The first failure counts."""
    names = re.findall(r"^kernel (\w+)\(", program.text, re.MULTILINE)
    outcomes: list[Outcome] = []
    for name in names or [""]:
        outcomes.append(_compare_kernel(program, name, extra))
        if outcomes[-1].failure is not None:
            break
    worst = min(outcomes, key=lambda one: ("failed", "ok", "refused").index(one.status))
    verdicts, ran = Counter[str](), Counter[str]()
    for one in outcomes:
        verdicts.update(dict(one.verdicts))
        ran.update(dict(one.ran))
    fused = any(one.fused for one in outcomes)
    return replace(worst, fused=fused, verdicts=tuple(verdicts.items()), ran=tuple(ran.items()))


def _compare_kernel(program: Program, name: str, extra: Extra | None) -> Outcome:
    verdicts: list[Verdict] = []
    ran: Counter[str] = Counter()
    fused = False

    def outcome(status: str, code: str = "", failure: Failure | None = None) -> Outcome:
        return Outcome(status, code, failure, fused, _counted(verdicts), tuple(ran.items()))

    try:
        with engines.session(program, name) as it:
            verdicts, ran = it.verdicts, it.ran
            expected = _guarded("interpreter", lambda: engines.interpret(it))
            failure = _compare_ways(it, expected)
            fused = _is_fused(it)
            failure = failure or _compare_reordered(it, expected) or _check_alarms(it, expected)
            if failure is None and program.together:
                wrong = _guarded("overlapping arguments", lambda: engines.misses_overlap(it))
                failure = Failure("overlap: not refused as it should be", wrong) if wrong else None
            if failure is None and extra is not None:
                failure = extra(it, expected)
    except Refused as refused:
        return outcome("refused", refused.code)
    except Broken as broken:
        return outcome("failed", "", broken.failure)
    except (UserError, LimitError) as error:  # while reading
        return outcome("refused", error.diagnostics[0].code)
    except Exception as error:
        return outcome("failed", "", described("reading", error))
    return outcome("failed" if failure else "ok", "", failure)


class Broken(Exception):
    """An engine raised what it must not."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.kind)
        self.failure = failure


def _guarded(who: str, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (UserError, LimitError) as error:
        raise Refused(error.diagnostics[0].code) from None
    except Exception as error:
        raise Broken(described(who, error)) from None


def described(who: str, error: Exception) -> Failure:
    """An unexpected exception: its kind is its type, code and place in loopfuse."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f for f in frames if "/loopfuse/" in f.filename and "/tests/" not in f.filename
    ] or frames
    place = f"{ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].name}" if ours else "?"
    code = f"[{error.diagnostics[0].code}]" if isinstance(error, LoopfuseError) else ""
    kind = f"{type(error).__name__}{code} at {place}"
    return Failure(
        kind, f"{who}: {kind}: {error}\n{''.join(traceback.format_exception(error))[-3000:]}"
    )


def _compare_ways(it: Session, expected: Ran) -> Failure | None:
    """All ways in program order; which of them differ is the failure's kind."""
    wrong: list[str] = []
    details: list[str] = []
    refusals: list[Refused] = []
    first: Ran | None = None
    for name, way in WAYS:
        if _is_skipped(it, name):
            continue
        try:
            got = _guarded(name, lambda way=way: way(it))
        except Refused as refused:
            refusals.append(refused)
            if name.startswith("compiled") or name == WAYS[0][0]:
                break
            continue
        first = first or got
        if difference := differs(it, expected, got) or misses_offenders(first, got):
            wrong.append(name)
            details.append(f"{name}: {difference}")
    if wrong:
        return Failure("differ: " + ", ".join(wrong), "\n".join(details))
    if refusals:
        raise refusals[0]
    return None


def differs(it: Session, expected: Ran, got: Ran) -> str:
    """The first difference in words, or ''."""
    for param in it.kernel.arrays:
        left, right = expected.arrays[param.name], got.arrays[param.name]
        if not same_bits(left, right):
            return first_difference(param.name, left, right)
    if got.offences and len(next(iter(got.offences))) == 1:  # an error: the place of one of them
        if not {(o[-1],) for o in expected.offences} >= got.offences:
            return f"the error points to {sorted(got.offences)}, not to {sorted(expected.offences)}"
    elif not got.offences <= expected.offences:
        return f"offenders {sorted(got.offences)}, not {sorted(expected.offences)}"
    return ""


def misses_offenders(first: Ran, got: Ran) -> str:
    """Where one way finds subscripts outside that another does not. (All may miss those in code
    whose results nobody reads, which is not run.)"""
    is_error = bool(got.offences) and len(next(iter(got.offences))) == 1
    same = (
        bool(got.offences) == bool(first.offences)
        if is_error or not got.offences
        else got.offences == first.offences
    )
    return "" if same else f"offenders {sorted(got.offences)}, but unfused {sorted(first.offences)}"


def first_difference(name: str, left: np.ndarray, right: np.ndarray) -> str:
    """The first element in which two arrays differ."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{name} is {right.dtype}{right.shape}, not {left.dtype}{left.shape}"
    for index in np.ndindex(left.shape):
        if not same_bits(left[index].reshape(1), right[index].reshape(1)):
            return f"{name}{list(index)} is {right[index]!r}, not {left[index]!r}"
    return ""


# ------------------------------------------------------------------------ reductions reordered


def has_reductions(kernel: nodes.Kernel) -> bool:
    """Whether some statement may be a reduction whose order can change."""
    return any(
        isinstance(s, nodes.Reduce | nodes.Store) and _reduces(s) for s in walk_stmts(kernel.body)
    )


def _reduces(stmt: Any) -> bool:
    if isinstance(stmt, nodes.Reduce):
        return True
    loads = nodes.Load
    return any(
        isinstance(part, loads) and part.array == stmt.target.array
        for part in _operands(stmt.value)
    )


def _operands(value: Any) -> tuple[Any, ...]:
    match value:
        case nodes.Binary():
            return (value.left, value.right)
        case nodes.Fma():
            return (value.c,)
        case _:
            return ()


def _compare_reordered(it: Session, expected: Ran) -> Failure | None:
    """With reductions free: the compiled CPU code has the bits of its tree; and where data is
    small whole numbers, those of program order."""
    if not has_reductions(it.kernel):
        return None
    planned = _guarded("cpu plan, reordered", lambda: engines.plan(it, "cpu", None, True))
    if planned.tree == engines.plan(it, "cpu", None).tree:
        return None
    tree = _guarded("cpu tree, reordered", lambda: engines.run_planned(it, planned.tree, "reverse"))
    got = _guarded("compiled, reordered", lambda: engines.run_compiled(it, None, True))
    if difference := differs(it, tree, got):
        return Failure(
            "differ: compiled reordered", f"compiled, reordered, against its tree: {difference}"
        )
    return None


# ------------------------------------------------------------------------------------- checker


def _check_alarms(it: Session, expected: Ran) -> Failure | None:
    """Trees that the checker did not prove: a false alarm if they are right all the same."""
    for verdict in it.verdicts:
        if verdict.answer == "proved":
            continue
        what = (
            f"fuel={verdict.fuel} {verdict.target}: {verdict.answer}: {'; '.join(verdict.findings)}"
        )
        difference = wrong_somewhere(it, expected, verdict)
        if not difference and all(
            "too complex" in f or "operation limit" in f for f in verdict.findings
        ):
            continue  # an honest "unknown", which the counts show
        kind = "planned wrongly, noticed" if difference else f"false alarm ({verdict.answer})"
        kind += ": " + _anonymous(verdict.findings[0])
        return Failure(f"checker: {kind}", f"{what}\n{difference}")
    return None


def wrong_somewhere(it: Session, expected: Ran, verdict: Verdict) -> str:
    """How the tree of a verdict differs from the program: at the sizes of the call, or at those of
    the checker's own example and a little more; "" where it does not."""
    steps = {p.name: int(it.arguments[p.name]) for p in it.kernel.scalars if _counts(p)}
    own = (dict(it.program.sizes), steps)
    examples = [own]
    for finding in verdict.findings:
        found = {name: int(value) for name, value in re.findall(r"\b(\w+)=(\d+)\b", finding)}
        for more in (0, 2, 4):
            sizes = {n: found.get(n, v) + more for n, v in it.program.sizes.items()}
            counts = {n: found.get(n, v) for n, v in steps.items()}
            if found and max(sizes.values()) <= 20 and max(counts.values(), default=0) <= STEPS:
                examples.append((sizes, counts))
    for sizes, counts in examples:
        scalars = {**it.program.scalars, **counts}
        program = replace(it.program, sizes=sizes, scalars=scalars, views=(), together=())
        other, right = replace(it, program=program), expected
        try:
            if (sizes, counts) != own:
                other.arguments = arguments_of(other.program, it.kernel)
                right = engines.interpret(other)
            for order in ("forward", "reverse"):
                ran = engines.run_planned(other, verdict.tree, order)
                if difference := differs(other, right, ran):
                    return f"{difference} at {({**sizes, **counts})}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


def _counts(param: nodes.ScalarParam) -> bool:
    """Is it an integer that may differ from call to call (how many time steps)?"""
    return param.dtype.is_integer and not param.is_const


def _anonymous(finding: str) -> str:
    """A finding without names, numbers and examples, so that equal mistakes read the same."""
    text = re.sub(
        r"`[^`]*`|\[[^]]*\]|\b[a-z]{1,4}\d*(?:\.\w+)?\b(?= (?:is|misses|in|reads|finds)\b)",
        "_",
        finding,
    )
    text = re.sub(r"reading \S+ in \S+", "reading _", text)
    return re.sub(r"\d+", "", text.split(":")[0] if "->" in text else text)[:60].strip()


def _counted(verdicts: list[Verdict]) -> tuple[tuple[str, int], ...]:
    answers = [verdict.answer for verdict in verdicts]
    return tuple((answer, answers.count(answer)) for answer in sorted(set(answers)))


def _is_skipped(it: Session, name: str) -> bool:
    """Ways that would repeat another, and trees of 1024 blocks, which take seconds and which tiny
    machines stand for."""
    if not name.startswith("gpu"):
        return False
    try:
        planned = engines.plan(it, "sm_80", 0 if "unfused" in name else None)
    except Exception:
        return False  # the way itself will tell
    if "unaligned" in name and not mentions_aligned(planned.tree):
        return True
    return is_wide(planned)


def _is_fused(it: Session) -> bool:
    """Whether the fused GPU plan has fewer launches than the unfused one."""
    before = engines.plan(it, "sm_80", 0).tree.launches
    return len(engines.plan(it, "sm_80", None).tree.launches) < len(before)
