"""The assertions of `loopfuse.testing`, whose docstring says what they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from loopfuse.base.diagnostics import UserError
from loopfuse.kernels.kernel import Kernel, Kernels
from loopfuse.kernels.python import PythonKernel

KernelLike = Kernel | PythonKernel[..., Any] | Kernels
Example = Sequence[Any] | Mapping[str, Any]

__all__ = [
    "ANY",
    "assert_dependence",
    "assert_equivalent",
    "assert_fuses",
    "assert_home",
    "assert_launches",
    "assert_no_dependence",
    "assert_not_fused",
    "assert_parallel",
    "assert_traffic",
]


class _Any(Enum):
    ANY = "any"

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any.ANY
"""In a filter of `assert_dependence`: whatever it is (where None means something)."""


# ------------------------------------------------------------------------------------- fusion


def assert_fuses(
    kernel: KernelLike,
    *loops: str | int,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """One launched kernel runs all of `loops`; with none named, all loops of the kernel.

    A loop is named by its id (`"L1"`, `"L1.2"`), its line (`12`, `"line 12"`), what it writes
    (`"rows"`) or its iterator, where one loop alone fits. A loop that was split fuses if all its
    parts do.

    AssertionError with the table of loops and the decisions, reason, witness and remedy, as
    `explain` prints them. UserError[unknown-loop] or [ambiguous-loop] listing the loops.

    >>> import loopfuse
    >>> blur = loopfuse.load("examples/blur.lf")
    >>> assert_fuses(blur, "L1", "L2")
    >>> assert_fuses(blur, "rows", "smooth", target="cpu")
    """
    __tracebackhide__ = True
    from loopfuse.testing import facts as facts
    from loopfuse.testing.names import find_loop, loops_of
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    if loops:
        ids = list(dict.fromkeys(find_loop(subject, one) for one in loops))
    else:
        ids = [one.id for one in loops_of(subject) if "." not in one.id]
    if facts.run_together(subject, ids):
        return
    count = sum(
        any(facts.runs_in(subject, id, one, wholly=False) for id in ids)
        for one in facts.launched_groups(subject)
    )
    said = "does not fuse" if len(ids) == 1 else "do not fuse"
    who = "its parts" if len(ids) == 1 else "they"
    raise facts.fail(
        f"{' + '.join(ids)} of `{subject.name}` {said} for {subject.target.name}: {who} run in "
        f"{count} kernels",
        *facts.fusion_text(subject, facts.decisions_about(subject, ids, fused=False)),
    )


def assert_not_fused(
    kernel: KernelLike,
    first: str | int,
    second: str | int,
    *,
    because: str = "",
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """No launched kernel runs any part of both loops; `because` is a piece of the reason, the
    witness or the remedy that the report then gives (upper and lower case are one).

    Loops are named as in `assert_fuses`. AssertionError with the decision.

    >>> import loopfuse
    >>> heat = loopfuse.load("examples/heat3d.lf", target="cpu")
    >>> assert_not_fused(heat, "L1.1", "L1.2", because="does not write")
    """
    __tracebackhide__ = True
    from loopfuse.explain.text import render_decisions
    from loopfuse.testing import facts as facts
    from loopfuse.testing.names import find_loop
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    ids = [find_loop(subject, first), find_loop(subject, second)]
    pair = f"{' + '.join(ids)} of `{subject.name}`"
    if facts.run_together(subject, ids, wholly=False):
        raise facts.fail(
            f"{pair} fuse for {subject.target.name}",
            *facts.fusion_text(subject, facts.decisions_about(subject, ids, fused=True)),
        )
    decisions = facts.decisions_about(subject, ids, fused=False)
    said = " ".join(render_decisions(decisions).split()).casefold()
    if " ".join(because.split()).casefold() not in said:
        raise facts.fail(
            f"{pair} do not fuse for {subject.target.name}, but not because of {because!r}",
            render_decisions(decisions),
        )


def assert_launches(
    kernel: KernelLike,
    count: int | str,
    *,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """A call launches `count` GPU kernels (parallel regions on the CPU): a number, or a formula
    such as `"2*steps"` where the host loops; with `sizes`, the number at those.

    AssertionError with the table of loops and why any run apart. UserError[bad-formula].

    >>> import loopfuse
    >>> assert_launches(loopfuse.load("examples/blur.lf"), 1)
    >>> heat = loopfuse.load("examples/heat3d.lf", target="cpu")
    >>> assert_launches(heat, "2*steps")
    >>> assert_launches(heat, 20, sizes={"steps": 10})
    """
    __tracebackhide__ = True
    from loopfuse.testing import facts as facts
    from loopfuse.testing.formulas import is_equal, read_formula
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    wanted = read_formula(count, subject.size_names, "count")
    report = subject.report
    actual = str(report.launches_after)
    found = is_equal(actual, wanted, subject.sizes, subject.conditions)
    if found.holds:
        return
    shown = actual if found.how != "computed" or actual.isdecimal() else f"{actual} = {found.left}"
    apart = tuple(one for one in report.decisions if not one.fused)
    raise facts.fail(
        f"`{subject.name}` launches {shown} for {subject.target.name}, not {count}",
        *facts.fusion_text(subject, apart),
    )


# -------------------------------------------------------------------------------- dependences


def assert_parallel(
    kernel: KernelLike,
    iterator: str,
    *,
    loop: str | int | None = None,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """No loop over `iterator` carries a dependence, so that its iterations may run in any order:
    exact, for all sizes. `loop` picks one where several have the iterator. A reduction's own order
    is free unless the kernel was made with `reassociate=False`; the order of integer sums, of
    `min` and `max` always is. Temporaries that every iteration writes anew do not count.

    AssertionError with the dependences carried, as `deps` prints them, and an instance of each.
    UserError[unknown-iterator] listing the iterators.

    >>> import loopfuse
    >>> assert_parallel(loopfuse.load("examples/blur.lf"), "y")
    >>> jacobi = loopfuse.load("examples/jacobi.lf")
    >>> assert_parallel(jacobi, "i")
    """
    __tracebackhide__ = True
    from loopfuse.testing import facts as facts
    from loopfuse.testing.names import find_iterator
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    loops = find_iterator(subject, iterator, loop)
    dependences = subject.planned.dependences
    places = sorted({(s.loops[depth].label, s.loops[depth].line) for s, depth in loops})
    where = ", ".join(f"{label} line {line}" for label, line in places)
    if not dependences.complete:
        raise facts.fail(
            f"whether `{iterator}` ({where}) is parallel is unknown: {dependences.why}"
        )
    found = facts.carried_by(subject, loops, subject.options.reassociate)
    if not found:
        return
    note = ""
    if not subject.options.reassociate and not facts.carried_by(subject, loops, relax=True):
        note = facts.paragraph(
            "That is the order of a reduction, which `reassociate=False` keeps: by default the "
            "loop is parallel."
        )
    raise facts.fail(
        f"the loop over `{iterator}` of `{subject.name}` ({where}) is not parallel: it carries "
        + ("a dependence" if len(found) == 1 else f"{len(found)} dependences"),
        *facts.carried_text(subject, found, iterator),
        note,
    )


def assert_dependence(
    kernel: KernelLike,
    *,
    kind: str | None = None,
    array: str | None = None,
    distance: Sequence[int | None] | None = None,
    direction: Sequence[str] | None = None,
    source: str | int | None = None,
    sink: str | int | None = None,
    carried_by: str | _Any | None = ANY,
    reduction: bool | None = None,
    exact: bool | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """Some dependence of the program, as `loopfuse deps` lists them, is like this; what is not
    given is not asked.

    `kind`: flow, anti or output. `distance`: iterations of the loops around both ends, outermost
    first, None where it varies. `direction`: one of `< = > *` each, as `("=", "<")` or `"=<"`.
    `source`, `sink`: a statement (`"S2"`) or a line. `carried_by`: an iterator; None: no loop.
    `reduction`: both ends update one reduction; `exact` False: it may be, depending on data.

    AssertionError with the dependences of that array. UserError[unknown-array],
    [unknown-statement], [unknown-iterator] or [bad-filter] for what no dependence can have.

    >>> import loopfuse
    >>> jacobi = loopfuse.load("examples/jacobi.lf")
    >>> assert_dependence(jacobi, kind="output", array="a", distance=(1, 0, 0), carried_by="t")
    """
    __tracebackhide__ = True
    from loopfuse.testing.dependences import Filter, near_text, select
    from loopfuse.testing.facts import fail
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, None, sizes, args)
    wanted = Filter(
        kind, array, distance, direction, source, sink,
        () if isinstance(carried_by, _Any) else (carried_by,), reduction, exact,
    )  # fmt: skip
    if not select(subject, wanted):
        raise fail(f"`{subject.name}` has no {wanted}", near_text(subject, wanted))


def assert_no_dependence(
    kernel: KernelLike,
    *,
    kind: str | None = None,
    array: str | None = None,
    distance: Sequence[int | None] | None = None,
    direction: Sequence[str] | None = None,
    source: str | int | None = None,
    sink: str | int | None = None,
    carried_by: str | _Any | None = ANY,
    reduction: bool | None = None,
    exact: bool | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """No dependence of the program is like this. The filters are those of `assert_dependence`.

    AssertionError with the dependences that are.

    >>> import loopfuse
    >>> blur = loopfuse.load("examples/blur.lf")
    >>> assert_no_dependence(blur, kind="anti")
    >>> assert_no_dependence(blur, carried_by="x")
    """
    __tracebackhide__ = True
    from loopfuse.testing.dependences import Filter, select
    from loopfuse.testing.facts import fail, table_of
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, None, sizes, args)
    wanted = Filter(
        kind, array, distance, direction, source, sink,
        () if isinstance(carried_by, _Any) else (carried_by,), reduction, exact,
    )  # fmt: skip
    found = select(subject, wanted)
    if found:
        text = wanted.singular if len(found) == 1 else f"{len(found)} {wanted.plural}"
        raise fail(f"`{subject.name}` has {text}", table_of(subject.name, found))


# --------------------------------------------------------------------------- memory and homes


def assert_traffic(
    kernel: KernelLike,
    *,
    at_most: str | int,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> str:
    """A call moves no more bytes than `at_most`, a formula in the sizes or a number: per launched
    kernel and array the box around what it touches, once, as `explain` counts.

    Compared for all large sizes (from 64, where the report's formulas hold), or, with every
    size in `sizes`, at those. Returns how: `"proved"` for all, `"computed"` at the sizes given, or
    `"sampled"` at 400 choices of sizes where the formulas cannot be compared term by term.

    AssertionError with sizes where it is more, and the bytes before and after, of each array.
    UserError[bad-formula] or [unknown-size].

    >>> import loopfuse
    >>> blur = loopfuse.load("examples/blur.lf")
    >>> assert_traffic(blur, at_most="8*H*W")
    'proved'
    >>> assert_traffic(blur, at_most=1_000_000, sizes={"H": 300, "W": 400})
    'computed'
    """
    __tracebackhide__ = True
    from loopfuse.testing import facts as facts
    from loopfuse.testing.formulas import is_at_most, read_formula
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    limit = read_formula(at_most, subject.size_names, "at_most")
    after = subject.report.traffic_after
    actual = str(after.value) if after.value is not None else after.text
    found = is_at_most(actual, limit, subject.sizes, subject.conditions)
    if found.holds:
        return found.how
    at = " ".join(f"{name}={value}" for name, value in found.at)
    plain = str(found.left) == actual and str(found.right) == str(at_most)
    values = "" if plain else f" {found.left} bytes instead of {found.right}"
    raise facts.fail(
        f"`{subject.name}` moves {actual} bytes for {subject.target.name}, more than {at_most}"
        + (f": at {at}{',' if values else ''}" if at else ":" if values else "")
        + values,
        *facts.traffic_text(subject),
    )


def assert_home(
    kernel: KernelLike,
    array: str,
    home: str,
    *,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Example = (),
) -> None:
    """The temporary `array` lives in `home`: `register`, `window(5)`, `line(3)`, `lanes`, `shared`,
    `distributed` or `global` (memory, as written). Without a number `window` fits every window.

    AssertionError with the home of each temporary, and what keeps this one there.
    UserError[unknown-array] for what is no temporary, [unknown-home].

    >>> import loopfuse
    >>> assert_home(loopfuse.load("examples/blur.lf"), "rows", "window(3)")
    >>> assert_home(loopfuse.load("examples/softmax_loops.lf"), "e", "global")
    """
    __tracebackhide__ = True
    from loopfuse.explain.text import home_text
    from loopfuse.testing import facts as facts
    from loopfuse.testing.names import check_home, find_temporary
    from loopfuse.testing.subject import find_subject

    subject = find_subject(kernel, target, sizes, args)
    find_temporary(subject, array)
    check_home(home)
    found = facts.homes_of(subject, array)
    if not found:
        raise facts.fail(
            f"`{array}` of `{subject.name}` lives nowhere: what would read it was removed, as it "
            "changes no result",
            facts.render_loops(subject.report),
        )
    if all(one == home or one.partition("(")[0] == home for one in found):
        return
    where = " and ".join(f"{one} ({home_text(one)})" for one in found)
    raise facts.fail(
        f"`{array}` of `{subject.name}` lives in {where} for {subject.target.name}, not in {home}",
        *facts.home_reasons(subject, array),
    )


# ---------------------------------------------------------------------------------- equality


def assert_equivalent(
    kernel: KernelLike,
    *call_args: Any,
    against: Callable[..., Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    args: Example = (),
    **call_kwargs: Any,
) -> None:
    """Every form of the kernel computes the same bits (or NaN) on these arguments, which are not
    changed: interpreted, compiled for the CPU fused and unfused, and the plan for `target`
    interpreted step by step, so that a machine without a GPU checks the GPU's plan too. Where
    the kernel may reorder a sum, that form is compared too, to rounding (f32 within 1e-4,
    f64 1e-11, as `loopfuse verify` has it).

    A Python kernel is also compared with its function in CPython (`kernel.reference`), as it is read
    under `fp="strict"`: to the bit, or to rounding where it calls math functions.

    Without arguments: on random data of many sizes (`sizes` fixes some, `seed` picks the data).

    `against` is a Python function to compare with besides, called like the kernel: by what it
    returns, or by what it writes if it returns nothing; within `rtol` and `atol`, or to the bit.
    On random data it is called by parameter name; it may leave `out` arrays out and return them.

    AssertionError naming array, first differing element, both values, how many differ, and which
    form it is. UserError for arguments that the call itself would refuse.

    >>> import loopfuse, numpy as np
    >>> blur = loopfuse.load("examples/blur.lf")
    >>> assert_equivalent(blur)
    >>> assert_equivalent(blur, np.ones((3, 4), np.float32))
    >>> saxpy = loopfuse.load("examples/saxpy.lf")
    >>> assert_equivalent(saxpy, against=lambda a, x, y: a * x + y, rtol=1e-6, atol=1e-6)
    """
    __tracebackhide__ = True
    from loopfuse.kernels.sizes import choose_sizes
    from loopfuse.kernels.trial import random_arguments
    from loopfuse.testing import forms as forms
    from loopfuse.testing.facts import fail, paragraph
    from loopfuse.testing.subject import find_subject

    given = tuple(forms.on_host(one) for one in call_args)
    named = {name: forms.on_host(value) for name, value in call_kwargs.items()}
    subject = find_subject(kernel, target, None, args or given or named)
    one = subject.kernel
    entire: Any = kernel if isinstance(kernel, PythonKernel) else one
    if given or named:
        cases = [forms.complete(one, given, named)]
        shown = [""]
    else:
        chosen = choose_sizes(one, dict(sizes or {}), "cpu", seed)
        cases = [random_arguments(one, case, seed + k) for k, case in enumerate(chosen)]
        shown = [" ".join(f"{n}={v}" for n, v in case.items()) for case in chosen]
    ways = forms.forms_of(subject)
    for number, (arguments, at) in enumerate(zip(cases, shown)):
        place = paragraph(f"on random data at {at or 'the only size'} (seed={seed})")
        place = "" if given or named else place
        # Those that take seconds (many threads, whatever the sizes) run once.
        wrong = forms.compare_forms([w for w in ways if not (w.slow and number)], arguments)
        if wrong:
            raise fail(f"the forms of `{subject.name}` differ", wrong, place)
        if wrong := forms.compare_with_cpython(one, arguments):
            raise fail(f"`{subject.name}` differs from its function in CPython", wrong, place)
        if against is None:
            continue
        call = forms.Call(given, named)
        if not (given or named):
            call = forms.call_for(one, against, arguments)
        try:
            wrong = forms.compare_with(entire, one, against, call, rtol, atol)
        except UserError as error:
            if not forms.is_offender(error):
                raise
            wrong = ""
        if wrong:
            tolerance = f" by more than rtol={rtol:g}, atol={atol:g}" if rtol or atol else ""
            raise fail(f"`{subject.name}` differs from its reference{tolerance}", wrong, place)
