"""Blocks of time steps: their lengths, what they do for any number of iterations, and why a loop has
none."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.plan.strategies.sliding.strategy import windows_of
from loopfuse.proof.check import Verdict
from loopfuse.tree.looptree import HostLoop, Launch
from tests.plan.test_sliding import TIMES, planned, run

pytestmark = pytest.mark.usefixtures("launches_apart")

SWAP = TIMES["swap"]


def strategies(found: pipeline.Planned) -> list[str]:
    return [launch.strategy for launch in found.tree.launches]


def small(steps: int) -> Tuning:
    return Tuning(columns=1, rows=6, warps=1, steps=steps)


def proved(text: str, steps: int) -> pipeline.Planned:
    """The plan with blocks of `steps`; nothing may have to be planned again."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = planned(text, small(steps))
    assert found.verdict.answer == "proved"
    return found


def blocks(found: pipeline.Planned) -> list[HostLoop]:
    """The loops over blocks: pairs of windowed launches."""
    return [
        node
        for node in found.tree.body
        if isinstance(node, HostLoop)
        and [n.strategy for n in node.body if isinstance(n, Launch)] == ["sliding"] * 2
    ]


def test_a_swap_is_blocked_without_being_told() -> None:
    """One iteration reads nothing that it makes: only two and more are a block."""
    found = planned(SWAP, Tuning())
    assert found.verdict.answer == "proved"
    assert strategies(found) == ["sliding"] * 4 + ["generic"]


PERIODIC = """
    kernel f(inout a: f32[H, W], n: i64):
        temp b: f32[H, W]
        for t in 0..n:
            for y in 0..H, x in 0..W:
                b[y, x] = a[y, x] + a.wrap[y, x-1] + a.wrap[y, x+1] + a.wrap[y+1, x] + a.wrap[y-1, x]
            for y in 0..H, x in 0..W:
                a[y, x] = 0.2 * b[y, x]
    """


def test_a_torus_has_blocks_that_are_proved_at_once() -> None:
    """Both dimensions wrap: of more than two steps isl gives up."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = planned(PERIODIC, Tuning())
    assert found.verdict.answer == "proved"
    assert lengths(found) == [2, 2, 1, 1] and len(blocks(found)) == 2


def lengths(found: pipeline.Planned) -> list[int]:
    """The steps of each launch with windows."""
    times = [windowed.group.time for windowed in windows_of(found.scheduled.fits.values())]
    return [time.steps for time in times if time is not None]


@pytest.mark.parametrize(
    ("answers", "words", "steps"),
    [
        (["proved"], [], [8, 8, 2, 2]),
        (["unknown", "proved"], ["blocks of 2 time steps are used"], [2, 2]),
        (["unknown", "unknown", "proved"], ["the time loop runs step by step"], []),
        (
            ["unknown", "unknown", "unknown", "proved"],
            ["recomputation is used instead of windows"],
            [],
        ),
    ],
)
def test_what_is_not_proved_is_tried_in_shorter_blocks(
    answers: list[str], words: list[str], steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First shorter blocks, then none, then no windows; one warning says what is used."""
    verdicts = iter([Verdict(answer, ("too hard",), 0) for answer in answers])
    monkeypatch.setattr(pipeline, "verify", lambda *_: next(verdicts))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = planned(SWAP, Tuning())
    assert [str(one.message) for one in caught] == [
        f"the fused schedule of `f` could not be proved (too hard); {each}." for each in words
    ]
    assert lengths(found) == steps and next(verdicts, None) is None
    assert found.used == "".join(words)
    assert all(f"was not proved: {each}" in found.report.checked for each in words)


@pytest.mark.parametrize("steps", [2, 3, 4, 5])
def test_blocks_of_a_swap_may_have_an_odd_length(steps: int) -> None:
    """The second launch of a pair then starts with the roles exchanged."""
    found = proved(SWAP, steps)
    assert len(blocks(found)) == (2 if steps == 4 else 1)  # what is left of others is odd
    for count in (0, 1, steps, 2 * steps - 1, 2 * steps, 4 * steps + 1):
        run(found, {"H": 9, "W": 7}, {"n": count})
    run(found, {"H": 14, "W": 36}, {"n": 2 * steps})


def test_blocks_of_one_iteration_of_a_swap_say_why_not() -> None:
    found = proved(SWAP, 1)
    assert strategies(found) == ["generic"]
    (decision,) = found.report.decisions
    assert not decision.fused
    assert decision.reason == (
        "the iterations of `t` run one by one: blocks of 1 iteration of `t` do not fit: "
        "every other block of 1 leaves `b` as it is"
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [(12, "its windows take more registers than a thread has"),
     (40, "its halo is as wide as a strip")],
)  # fmt: skip
def test_blocks_too_long_say_so(steps: int, why: str) -> None:
    found = planned(TIMES["two arrays"], Tuning(steps=steps))
    assert found.verdict.answer == "proved"
    reason = f"blocks of {steps} iterations of `t` do not fit: {why}"
    assert found.report.decisions[-1].reason == f"the iterations of `t` run one by one: {reason}"


PLANES = {
    "two levels": """
        kernel f(inout u: f32[2, H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    u[(t + 1) % 2, y, x] = 0.25 * (u[t % 2, y, x-1] + u[t % 2, y, x+1] + u[t % 2, y+1, x] - u[t % 2, y-1, x])
        """,
    "a temporary's levels": """
        kernel f(a: f32[H, W], out c: f32[H, W], n: i64):
            temp u: f32[2, H, W]
            for y in 0..H, x in 0..W:
                u[0, y, x] = a[y, x]
                u[1, y, x] = a[y, x]
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    u[(t + 1) % 2, y, x] = 0.5 * (u[t % 2, y, x-1] + u[t % 2, y+1, x+1])
            for y in 0..H, x in 0..W:
                c[y, x] = u[n % 2, y, x]
        """,
    "starts at one": """
        kernel f(inout u: f64[H, 2, W], k: f64[H, W], n: i64):
            for t in 1..n:
                for y in 2..H-1, x in 0..W-2:
                    u[y, t % 2, x] = k[y, x] * u[y, (t - 1) % 2, x+2] - u[y-2, (t + 1) % 2, x]
        """,
    "three levels": """
        kernel f(inout u: i32[3, H, W], n: i64):
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    u[(t + 2) % 3, y, x] = 2 * u[(t + 1) % 3, y, x] - u[t % 3, y, x] + u[(t + 1) % 3, y-1, x] - u[(t + 1) % 3, y, x+1]
        """,
    "two fields in planes": """
        kernel f(inout u: f32[2, 2, H, W], n: i64):
            for t in 0..n:
                for y in 1..H, x in 1..W:
                    u[0, (t + 1) % 2, y, x] = u[0, t % 2, y, x] + 0.5 * (u[1, t % 2, y, x] - u[1, t % 2, y-1, x])
                    u[1, (t + 1) % 2, y, x] = u[1, t % 2, y, x] + 0.5 * (u[0, t % 2, y, x] - u[0, t % 2, y, x-1])
        """,
}


@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, 3 if name == "three levels" else steps) for name in PLANES for steps in (2, 3)],
)
def test_levels_of_one_array_are_blocked(name: str, steps: int) -> None:
    found = proved(PLANES[name], steps)
    assert len(blocks(found)) == 1
    sizes = [(0, 0), (3, 3), (9, 5), (4, 6), (14, 33)]
    for (height, width), count in zip(sizes, (3, 0, 1, 4 * steps + 1, 2 * steps), strict=True):
        run(found, {"H": height, "W": width}, {"n": count})


def test_levels_come_round_with_their_blocks() -> None:
    found = planned(PLANES["three levels"], Tuning())
    assert found.verdict.answer == "proved"
    (decision,) = found.report.decisions
    assert decision.fused
    found = planned(PLANES["three levels"], Tuning(steps=2))
    assert found.report.decisions[0].reason.endswith(
        "do not fit: the planes of `u` come round every 3 iterations of `t`"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            """
            kernel f(inout u: f32[N, H, W], first: i64, n: i64):
                assume N == 2
                for t in 0..n:
                    for y in 1..H-1, x in 1..W-1:
                        u[(t + 1) % 2, y, x] = u[t % 2, y-1, x-1] - u[t % 2, y, x+1]
            """,
            "`u` has planes, and no constant number of them",
        ),
        (
            """
            kernel f(inout u: f32[2, H, W], first: i64, n: i64):
                for t in first..n:
                    for y in 1..H-1, x in 1..W-1:
                        u[(t + 1) % 2, y, x] = u[t % 2, y-1, x-1] - u[t % 2, y, x+1]
            """,
            "the first iteration of `t` is not known, and so which plane of `u` it reads",
        ),
        (
            """
            kernel f(inout u: f32[10, H, W]):
                for t in 0..9:
                    for y in 1..H-1, x in 1..W-1:
                        u[t + 1, y, x] = u[t, y-1, x-1] - u[t, y, x+1]
            """,
            "`u` keeps what each iteration of `t` makes",
        ),
        (
            """
            kernel f(inout u: f32[H, W, 2], n: i64):
                for t in 0..n:
                    for y in 1..H-1, x in 1..W-1:
                        u[y, x, (t + 1) % 2] = u[y-1, x-1, t % 2] - u[y, x+1, t % 2]
            """,
            "neighbouring columns of `u` are not neighbours in memory",
        ),
    ],
)  # fmt: skip
def test_levels_that_are_no_planes_say_why(text: str, why: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = planned(text, Tuning())
    assert strategies(found) == ["generic"]
    (decision,) = found.report.decisions
    assert decision.reason == f"the iterations of `t` run one by one: {why}"


def test_the_report_counts_the_planes() -> None:
    found = planned(PLANES["two levels"], Tuning(steps=2))
    # A pair of launches reads a plane twice; the first writes one (its copy), the second both.
    for part in ("8*(n//4)*H*W", "12*(n//4)*(H - 2)*(W - 2)"):
        assert part in found.report.traffic_after.text
    assert found.report.launches_after == "2*(n//4) + n % 4"


def test_a_known_number_of_iterations_is_worth_it() -> None:
    """No pair of blocks that never runs: seven iterations are one pair of three, and one."""
    text = SWAP.replace("0..n", "0..7").replace(", n: i64", "")
    found = planned(text, Tuning())
    assert [launch.strategy for launch in found.tree.launches] == ["sliding"] * 2 + ["generic"]
    assert found.report.launches_after == 3
    assert found.report.decisions[0].reason.startswith("3 iterations of `t` run in one pass")
    found = planned(SWAP.replace("0..n", "0..3").replace(", n: i64", ""), Tuning())
    assert strategies(found) == ["generic"]


CASES = Path(__file__).parents[1] / "cases"


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("time_residual", "S2 is a reduction, which needs a whole sweep"),
        ("time_constant_steps:backwards", "`t` does not count up by one"),
    ],
)
def test_loops_that_are_not_blocked_say_why(case: str, why: str) -> None:
    file, _, name = case.partition(":")
    text = (CASES / f"{file}.lf").read_text()
    program = pipeline.read_program(Source("t.lf", text))
    found = pipeline.plan_kernel(program, name or file, Options(target=Target("sm_90")))
    assert found.verdict.answer == "proved" and not blocks(found)
    assert found.report.decisions[-1].reason == f"the iterations of `t` run one by one: {why}"


def test_a_sweep_in_place_says_what_to_change() -> None:
    """And the change works: the sweep is parallel then, and blocked."""
    text = (CASES.parent / "polybench" / "seidel-2d.lf").read_text()
    program = pipeline.read_program(Source("t.lf", text))
    found = pipeline.plan_kernel(program, "seidel_2d", Options(target=Target("sm_90")))
    (decision,) = found.report.decisions
    assert decision.remedy == (
        "let it write a new array `A_new` instead of `A`, and `swap A, A_new` after each sweep (Jacobi's "
        "form): then all elements of a sweep are independent"
    )
    changed = text.replace("A[i, j] = (", "A_new[i, j] = (").replace(
        "inout A: f64[N, N]", "inout A: f64[N, N], inout A_new: f64[N, N]"
    )
    program = pipeline.read_program(Source("t.lf", changed + "        swap A, A_new\n"))
    found = pipeline.plan_kernel(program, "seidel_2d", Options(target=Target("sm_90")))
    assert found.verdict.answer == "proved" and blocks(found)


BORDERS = {
    "a driven row": """
        kernel f(inout ex: f32[H, W], inout ey: f32[H, W], inout hz: f32[H, W], s: f32[N], n: i64):
            assume n <= N
            for t in 0..n:
                for j in 0..W:
                    ey[0, j] = s[t]
                for i in 1..H, j in 0..W:
                    ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i-1, j])
                for i in 0..H, j in 1..W:
                    ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j-1])
                for i in 0..H-1, j in 0..W-1:
                    hz[i, j] = hz[i, j] - 0.7 * (ex[i, j+1] - ex[i, j] + ey[i+1, j] - ey[i, j])
        """,
    "an upper row": """
        kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
            for t in 0..n:
                for x in 0..W:
                    b[0, x] = 1.0
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x] + b[y-1, x]
        """,
    "copies of neighbours": """
        kernel f(inout a: f64[H, W], n: i64):
            assume H >= 3
            assume W >= 3
            temp b: f64[H, W]
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.5 * (a[y, x-1] + a[y+1, x])
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x]
                for x in 1..W-1:
                    a[H-1, x] = a[H-2, x]
                for y in 0..H:
                    a[y, 0] = a[y, 1]
        """,
}


@pytest.mark.parametrize("name", BORDERS)
def test_borders_are_set_in_blocks(name: str) -> None:
    found = proved(BORDERS[name], 2)
    assert blocks(found)
    for (height, width), count in zip([(3, 3), (9, 5), (14, 33), (4, 6)], (5, 9, 4, 1), strict=True):
        more = {"N": count} if name == "a driven row" else {}
        run(found, {"H": height, "W": width, **more}, {"n": count})


def test_a_border_that_is_no_row_says_so() -> None:
    """What is read of the other end is not beside the border."""
    text = """
        kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
            assume H >= 3
            for t in 0..n:
                for y in 1..H-1, x in 1..W-1:
                    b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
                for x in 0..W:
                    b[0, x] = b[H-2, x]
                for y in 1..H-1, x in 1..W-1:
                    a[y, x] = b[y, x] + b[y-1, x]
        """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = planned(text, small(2))
    assert found.verdict.answer == "proved" and not blocks(found)
    assert found.report.decisions[-1].reason.endswith(
        "do not fit: `b` is read along other dimensions than it is written"
    )


def test_blocks_in_three_dimensions_are_as_long_as_proofs_go() -> None:
    """Several live arrays take more operations than a compile may spend: such loops keep their windows
    in place of a warning."""
    example = (Path(__file__).parents[2] / "examples" / "heat3d.lf").read_text()
    program = pipeline.read_program(Source("heat3d.lf", example))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pipeline.plan_kernel(program, "heat3d", Options(target=Target("sm_90")))
    assert found.verdict.answer == "proved" and windows_of(found.scheduled.fits.values())
    times = [each.group.time for each in windows_of(found.scheduled.fits.values())]
    assert all(time is None or time.steps == 1 for time in times)


OVERWRITTEN = {
    "by what reads nothing made": """
        kernel f(a: i32[N, M], inout b: i32[N, M], n: i64):
            for t in 0..n:
                for i in 0..N-1, j in 1..M:
                    b[i, j] = 2 * a.reflect[i, j-2] - b[i, j]
                for i in 1..N-1, j in 2..M:
                    b[i, j] = a.clamp[i-1, j-4]
        """,
    "by what reads rows before": """
        kernel f(a: i32[N, M], inout b: i32[N, M], n: i64):
            temp c: i32[N, M]
            for t in 0..n:
                for i in 0..N, j in 1..M:
                    c[i, j] = a[i, j] + a[i, j-1]
                for i in 0..N, j in 1..M:
                    b[i, j] = 2 * a[i, j] - b[i, j]
                for i in 1..N, j in 2..M:
                    b[i, j] = c[i-1, j] - c[i-1, j-1]
        """,
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_what_a_loop_overwrites_lies_where_it_was_made(name: str) -> None:
    """Where rows do not stream, the window of a loop that ran a row apart lost what it left as it was:
    planned wrongly, and noticed (found by random programs)."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(OVERWRITTEN[name])))
    for steps in (0, 1, 2):
        options = Options(target=Target("sm_90"), tuning=Tuning(steps=steps))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = pipeline.plan_kernel(program, "f", options)
        assert found.verdict.answer == "proved"


def stepped(value: str) -> str:
    """The text of a kernel that makes `value` of a volume in each time step, everywhere."""
    return f"""
        kernel f(inout a: f32[D, H, W], n: i64):
            temp b: f32[D, H, W]
            for t in 0..n:
                for z in 0..D, y in 0..H, x in 0..W:
                    b[z, y, x] = {value}
                for z in 0..D, y in 0..H, x in 0..W:
                    a[z, y, x] = b[z, y, x]
        """


VOLUMES = {
    "swap": """
        kernel f(inout a: f32[D, H, W], inout b: f32[D, H, W], n: i64):
            for t in 0..n:
                for z in 1..D-1, y in 1..H-1, x in 1..W-1:
                    b[z, y, x] = a[z, y, x] + 0.5 * (a[z-1, y, x] - a[z+1, y, x] + a[z, y-1, x] - a[z, y, x+1])
                swap a, b
        """,
    "zeros": stepped(
        "a.zero[z-1, y, x] - a.zero[z+1, y, x] + a.zero[z, y-1, x] - a.zero[z, y, x+1]"
    ),
    "zeros further away": stepped(
        "a.zero[z-2, y, x] - a.zero[z+1, y, x] + a.zero[z, y-1, x] - a.zero[z, y, x+2]"
    ),
}


@pytest.mark.parametrize(("name", "steps"), [("swap", 3), ("zeros", 6), ("zeros further away", 4)])
def test_steps_in_three_dimensions(name: str, steps: int) -> None:
    """Proved, and without a warning: blocks as long as registers allow, but for several live arrays."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(VOLUMES[name])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pipeline.plan_kernel(program, "f", Options(target=Target("sm_90")))
    assert found.verdict.answer == "proved"
    time = next(iter(windows_of(found.scheduled.fits.values()))).group.time
    assert time is not None and time.steps == steps


def test_loads_run_ahead_unless_registers_are_scarce() -> None:
    """A block of the nine-point box needs many; of five points it does not. What is asked for is done."""
    points = [f"a[i{p:+}, j{q:+}]" for p in (-1, 0, 1) for q in (-1, 0, 1)]
    box = f"""
        kernel f(inout a: f32[N, M], n: i64):
            temp b: f32[N, M]
            for t in 0..n:
                for i in 1..N-1, j in 1..M-1:
                    b[i, j] = 0.25 * ({" + ".join(points)}) - 1.25 * a[i, j]
                for i in 1..N-1, j in 1..M-1:
                    a[i, j] = b[i, j]
    """
    star = box.replace(" + ".join(points), " + ".join(points[1::2]))
    for text, asked, ahead in ((box, None, 0), (star, None, None), (box, 1, 1)):
        found = planned(text, Tuning(ahead=asked, steps=8))
        (first, *_) = windows_of(found.scheduled.fits.values())
        assert first.group.time is not None and first.group.time.steps == 8
        assert first.ahead == ahead
