"""Which run a test belongs to, and in which order files run.

    python -m pytest                    every room, by tests that take no longer than LONG, and by KEPT
    python -m pytest -m whole           the rest of what must pass before a change lands
    python -m pytest -m slow            every combination, campaigns
    python -m pytest -m gpu -n 8        on a machine with a GPU

The tests of the first two take each kind of thing in the smallest program that shows it; what
multiplies kinds (every edge mode in every chain, every width of every type) is slow. Which tests are
long was measured: `tests/long_tests.txt`, made by
`python -m pytest -m 'not slow and not gpu' --write-times`. A test that is not in it is short, or the
shortest of its function or its file; one with ` slow` behind its name is one of the longest.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

LONG = 0.07
"""Seconds of processor time, its children's too, from which on a test is not for the default run."""

BEARABLE = 0.2
"""Of a function all of whose tests are long, the shortest stays if it takes no longer than this."""

BEARABLE_ONCE = 5.0
"""The same of a file: the default run comes into nearly every one."""

LONGEST = 1.5
"""The same from which on a test is not for what must pass before a change lands either (`slow`), where its
function has a shorter one."""

LONG_TESTS = Path(__file__).with_name("long_tests.txt")
STUCK = 420
"""Seconds after which a test ends its whole process, with every thread's place: `--timeout`, which is shorter, is heard by
Python alone, and what hangs in native code never comes back to it. A test with a longer timeout of its own has a fifth more."""

SLOW_MARK = " slow"
"""Behind the name of a test that is one of the longest."""

KEPT = (
    r"test_cases\.py.*agree\[(examples/(unsharp|harris|softmax)|sliding_blur|data_histogram)\]",
    r"test_cases\.py.*promised\[examples/(unsharp|heat3d)\]",
    r"test_benchmarks_ptx\.py.*\[(unsharp|blur)\]",
    r"test_sliding_planes\.py.*one_launch_of_planes\[(chain|box)\]",
    r"test_random_programs\.py.*programs_agree\[0\]",
    r"test_affine_files\.py.*upstream_agrees",
    r"test_second_process\.py.*a_hit_on_the_cpu",
    r"test_late_ptx\.py.*late\[wave\]",
    r"test_guard_pages\.py.*sample\[1\]",
    r"test_mutation_table\.py.*rejected\[\w*(ring|window)",
    r"test_random_functions\.py.*random_functions\[[0-3]\]",
    r"test_suites\.py.*(is_right|the_same)\[(polybench/trisolv|livermore/(11|15)_|algorithms/spmv)",
    r"test_cases\.py.*promised\[(polybench/trisolv|livermore/(11|15)_|algorithms/spmv)",
    r"test_polybench_page\.py.*current\[(polybench/cholesky|livermore/05_)",
    r"test_well_known_ptx\.py.*\[(polybench/trisolv|livermore/12_|algorithms/spmv)",
)
"""Long tests that the default run takes all the same: nothing shorter shows what they show."""

_SLOW = (
    ("test_mutation_table.py", r"computes_something_wrong|there_are_many|page_is_current"),
    # Those are run again, in every way, by test_random_programs.py.
    ("test_cases.py", r"(agree\w*|promised)\[fuzz_(?!only|outputs?_|makes|stencil)"),
    ("test_cases.py", r"unfused_ways_agree\[(?!examples/)"),
    # D2Q9 with walls takes ten times as long to prove as anything else of the suites.
    *((f"test_{name}.py", r"\[algorithms/lattice") for name in ("cases", "suites", "polybench_page", "well_known", "well_known_ptx", "random_python")),
    # Time loops and windows: seconds to prove, or to run on the machine of PTX; test_suites.py has them compiled.
    ("test_cases.py", r"(agree|numbers)\[polybench/(jacobi-2d|heat-3d|fdtd-2d|adi|3mm|deriche)\]"),
    ("test_well_known_ptx.py", r"\[(polybench/(jacobi-1d|jacobi-2d|heat-3d|fdtd-2d)|livermore/18_hydro_2d)\]"),
    ("test_suites.py", r"the_same\[polybench/jacobi-2d-f32\]"),
    # Every example is the same program in Python and in text; some are run by CPython.
    ("test_pyfunc_examples.py", r"computes_the_same\[(?!alibi|csr|depthwise|dropout|gauss|histogram|"
     r"kmeans|layernorm_b|multigrid_p|quant|reversed|scatter|selective|smith|strided|unsharp)"),
    ("test_types_ptx.py", r"mlir_verifies\[mixed_"),
    # The longest of those that show what a shorter one shows too.
    ("test_verify_unknown.py", r"three limits"),
    ("test_together.py", r"makes_its_exponentials_once_also"),
    ("test_narrow_rows_ptx.py", r"other_narrow_types|only_the_same_way"),
    ("test_planes_ptx.py", r"test_a_swap_in_blocks"),
    ("test_verify_speed.py", r"share_of_the_checker"),
    ("test_verify_tiles.py", r"first_way_is_seen\[jacobi"),
    ("test_verify_mutants.py", r"computes_the_right_thing\[sums with other writes between-gpu"),
    ("test_c_launcher.py", r"\[jacobi\]"),
    ("test_line_info.py", r"same_without\[sm_90-jacobi\]"),
    # Time loops in blocks of 8 steps take seconds to prove and to compile, changed ones too.
    ("test_metamorphic.py", r"time_"),
    ("test_cases.py", r"test_reordered_reductions_agree_on_whole_numbers\[time_"),
    # Their kinds are in test_time_blocks.py, which is faster with each.
    ("test_cases.py", r"\[(time_(borders|levels|three_levels|mixed_dtypes)|planes_smooth)\]"),
    # A face in each step is in test_sliding_planes.py, six between stencils in planes_borders.
    ("test_cases.py", r"\[time_planes_(borders|copied)\]"),
    ("test_metamorphic.py", r"changed_cases\[\w+_borders"),
    ("test_cases.py", r"agree\w*\[window_borders_read"),  # test_random_borders.py has its kinds
    ("test_testing_equivalent.py", r"random_data\[jacobi\]"),
    ("test_pyfunc_examples.py", r"computes_the_same\[(jacobi|lattice_boltzmann|bilateral)\]"),
    ("test_line_info.py", r"same_without\[sm_80"),
    ("test_cases.py", r"\[(game_of_life|planes_torus|lines_(heat|ring)|time_(constant_steps|planes_zero|with_point\w+)|"
     r"examples/(jacobi|bilateral|lattice_boltzmann|heat3d))\]"),
    ("test_cases.py", r"whole_numbers\[examples/fdtd_2d\]"),
    ("test_types_table.py", r"test_compiled\[reduce_\w+_(few|all)-"),
    # Every mode is tried with one time loop, every time loop with one mode; chains likewise.
    ("test_window_edges.py", r"with_edges\[(levels|one sided|read later|bordered)-(refl|symm)"),
    ("test_window_edges.py", r"are_exact\[(three|shifted)-(reflect|symmetric|wrap)"),
    ("test_window_edges.py", r"spill_nothing\[((loaded|columns)-[rsw]|computed-[cs])"),
    # Every chain of planes in one shape, some in another.
    ("test_sliding_planes.py", r"time_steps_in_blocks\[(temporary|swap)"),  # test_cases.py has heat
    ("test_sliding_planes.py", r"planes\[other-(mirrored|batches|in place|asymm|zero|weights|two)"),
    # Batches of random programs: another seed is another program.
    ("test_random_programs.py", r"programs_agree\[([4-9]|1\d)\]|a_campaign"),
    ("test_random_python.py", r"programs_in_python\[3\]"),
    ("test_metamorphic.py", r"changed_random_programs\[[1-3]\]"),
    ("test_upstream.py", r"random_programs_have_our_bits"),
    # Planes in shared memory: the widest halo, and kinds that test_sliding_planes.py has too.
    ("test_late_ptx.py", r"come_late\[(in place|box|zero|from below|star)"),
    ("test_planes_ptx.py", r"no_warp_holds\[(radius 3|from above)|test_chains\[in place|larger_than_code"),
    # One type of each width and kind, a narrow, a usual and a wide strip.
    ("test_straddled_ptx.py", r"any_start\[(i8|u16|i16|i32|i64|bf16)\]"),
    ("test_straddled_ptx.py", r"widths_of_strips\[(f32-8|u8-4|f16-4|f16-16|u8-2)\]"),
    ("test_straddled_ptx.py", r"other_chains\[mixed-(i64|f16)\]|test_time_steps\[f64\]"),
    ("test_types_ptx.py", r"test_ptx_assembles\[sm_80"),
    ("test_planes_ptx.py", r"\[(box|two stencils|reflected|from below)"),
    # 80 random programs of 320, and 10 of 30.
    ("test_deps_random.py", r"what_happens\[(\d\d|[4-9])\]|guards_are_covered\[[12]\d\]"),
    # jacobi and jacobi-swap, fdtd and heat stay: one of each kind.
    ("test_benchmarks.py", r"becomes_ptx"),  # test_benchmarks_ptx.py looks at it too
    ("test_benchmarks.py", r"its_formula\[(jacobi-pair|jacobi-f64|star|box)\]"),
)
"""(file, what a test's name holds): tests that only run with `-m slow`."""

_EVERY = (
    ("test_mutation_table.py", r"mutant_is_rejected|before_the_change", 8),
    ("test_verify_mutants.py", r"mutants_of_the_table|computes_the_right", 4),
    ("test_metamorphic.py", r"changed_cases", 6),
    ("test_types_table.py", r"test_compiled", 6),
    ("test_types_table.py", r"test_interpreter", 2),
    ("test_types_ptx.py", r"verifies\[(ops|reduce)", 4),
    ("test_types_ptx.py", r"ptx_assembles", 3),
    ("test_straddled_ptx.py", r"\[", 4),
    ("test_window_edges.py", r"are_exact", 4),
    ("test_window_edges.py", r"with_edges|spill_nothing", 4),
    ("test_sliding_planes.py", r"one_launch_of_planes", 6),
    ("test_line_buffers.py", r"time_steps_in_blocks", 4),
    ("test_line_buffers.py", r"one_launch_of", 2),
    ("test_lower.py", r"stencil_on_the_cpu|integer_division", 2),
    ("test_sliding_lines.py", r"\[", 2),
    ("test_sliding.py", r"time_steps_in_blocks", 2),
    ("test_time_blocks.py", r"\[", 3),
    ("test_inner_windows.py", r"sums_are_windows", 2),
    ("test_lines_ptx.py", r"\[", 4),
    ("test_affine_files.py", r"upstream_agrees", 4),
    ("test_affine_files.py", r"engines_agree", 2),
    ("test_random_python.py", r"programs_in_python|python_form", 3),
    ("test_random_programs.py", r"what_was_found", 4),
    ("test_deps_random.py", r"what_happens|guards_are_covered", 4),
    ("test_cases.py", r"unfused_ways_agree|reordered_reductions", 2),
    ("test_benchmarks.py", r"its_formula", 2),
    ("test_limits.py", r"test_bomb", 3),
    ("test_verify_time.py", r"longest_examples", 2),
    ("test_verify_settled.py", r"may_be_missing", 2),
    ("test_played_gpu.py", r"", 2),
    ("test_c_launcher.py", r"\[", 2),
    ("test_line_info.py", r"\[", 2),
    ("test_example_traffic.py", r"\[", 2),
    ("test_testing_equivalent.py", r"\[", 2),
    ("test_data_dependent.py", r"wild_subscripts", 2),
    ("test_cases.py", r"as_promised\[(?!examples|polybench|livermore|algorithms)", 2),
    ("test_window_registers.py", r"is_enough\[", 2),
)
"""(file, what a test's name holds, n): of these, which are alike, every n-th runs by default."""

_FIRST = (
    "test_cases.py", "test_turns.py", "test_mutation_table.py", "test_random_functions.py", "test_random_programs.py",
    "test_suites.py", "test_mlir_roundtrip.py", "test_rows.py", "test_scan.py", "test_affine.py", "test_gpu_clearing.py",
    "test_contract.py", "test_guard_pages.py", "test_together.py", "test_python_kernels.py", "test_benchmarks_ptx.py",
    "test_linear.py", "test_strips.py", "test_mathfns.py", "test_histogram.py", "test_fuse.py", "test_interior.py",
    "test_upstream.py", "test_determinism.py", "test_types_table.py", "test_testing_equivalent.py",
    "test_random_python.py", "test_metamorphic.py", "test_benchmarks.py", "test_window_edges.py",
    "test_well_known_ptx.py", "test_polybench_page.py", "test_native_ptx.py", "test_columns_ptx.py",
    "test_straddled_ptx.py", "test_planes_ptx.py", "test_types_ptx.py", "test_deps_random.py", "test_verify_speed.py",
    "test_verify_mutants.py", "test_verify_unknown.py", "test_sliding_planes.py", "test_time_blocks.py",
    "test_sliding.py", "test_line_buffers.py", "test_lines_ptx.py", "test_played_gpu.py", "test_rings.py",
    "test_recurrences.py", "test_rows_ptx.py", "test_fixes.py", "test_python_locals.py", "test_data_dependent.py",
    "test_lower.py", "test_docs.py", "test_pyfunc_examples.py", "test_line_info.py",
    "test_window_registers.py", "test_arguments.py", "test_limits.py", "test_text.py",
    "test_c_launcher.py", "test_affine_files.py", "test_remember.py", "test_second_process.py",
)  # fmt: skip
"""The files that take longest: a worker takes a file whole (`--dist loadfile`: plans and outcomes
that tests of one file share are made once), and none may begin with the longest at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-times`: what this run's tests took is noted in tests/long_tests.txt."""
    parser.addoption("--write-times", action="store_true", help="write tests/long_tests.txt")


def _seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes what a test took, set-up included; none takes for ever."""
    before = _seconds()
    own = item.get_closest_marker("timeout")
    seconds = max(STUCK, 1.2 * float(own.args[0])) if own and own.args else STUCK
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    yield
    faulthandler.cancel_dump_traceback_later()
    item.config.stash[_TOOK][item.nodeid] = _seconds() - before


_TOOK = pytest.StashKey[dict[str, float]]()


def pytest_configure(config: pytest.Config) -> None:
    """Room for what tests take; and a disk cache of the run's own, which all its processes share: nothing that
    a test has made with other limits is what a kernel then finds."""
    config.stash[_TOOK] = {}
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        folder = tempfile.TemporaryDirectory(prefix="loopfuse-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["LOOPFUSE_CACHE_DIR"] = folder.name


def pytest_testnodedown(node: Any) -> None:
    """What a worker's tests took, brought to the process that started it."""
    output = getattr(node, "workeroutput", {})  # a worker that crashed hands nothing over
    node.config.stash[_TOOK].update(output.get("took", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands over what tests took, or writes it; and what is over ends."""
    faulthandler.dump_traceback_later(STUCK, exit=True, file=sys.__stderr__ or sys.stderr)
    took = session.config.stash[_TOOK]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["took"] = took
    elif session.config.getoption("--write-times"):
        unseen = {name: math.inf for name in listed() if name not in took}
        long = sorted(long_of({**unseen, **took}))
        slow = longest_of(took) | {name for name, is_slow in listed().items() if is_slow and name not in took}
        LONG_TESTS.write_text("".join(f"{name}{SLOW_MARK if name in slow else ''}\n" for name in long))


def listed() -> dict[str, bool]:
    """The tests that are long, and whether each is one of the longest."""
    lines = LONG_TESTS.read_text().splitlines()
    return {line.removesuffix(SLOW_MARK): line.endswith(SLOW_MARK) for line in lines}


def longest_of(took: Mapping[str, float]) -> set[str]:
    """The tests that take longest, but for the shortest of each function."""
    least: dict[str, str] = {}
    for name in sorted(took, key=lambda name: took[name]):
        least.setdefault(name.partition("[")[0], name)
    return {name for name, seconds in took.items() if seconds > LONGEST and name not in least.values()}


def long_of(took: Mapping[str, float]) -> set[str]:
    """The tests that are long, by what each of them took; not those that stay for their function or their file."""
    short = {name for name, seconds in took.items() if seconds <= LONG or _is_kept(name)}
    stay: set[str] = set()
    for part, limit in (("[", BEARABLE), ("::", BEARABLE_ONCE)):
        shown = {name.partition(part)[0] for name in short | stay}
        for name in sorted(took, key=lambda name: took[name]):
            group = name.partition(part)[0]
            if group not in shown and took[name] <= limit:
                shown.add(group)
                stay.add(name)
    return {name for name, seconds in took.items() if seconds > LONG and name not in stay}


def _is_kept(name: str) -> bool:
    return any(re.search(part, name) for part in KEPT)


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the collector need not look at it again and again
    (a sixth of the time)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them before tests are chosen, and puts the longest files first."""
    for item in items:
        if any(item.path.name == file and re.search(part, item.name) for file, part in _SLOW):
            item.add_marker(pytest.mark.slow)
    for file, part, every in _EVERY:
        alike = (one for one in items if one.path.name == file and re.search(part, one.name))
        usual = [one for one in alike if not any(one.iter_markers("slow"))]
        for number, item in enumerate(usual):
            if number % every:
                item.add_marker(pytest.mark.slow)
    long = listed()  # after that: which are n-th does not depend on how long they took
    for item in items:
        if item.nodeid in long and not _is_kept(item.nodeid):
            item.add_marker(pytest.mark.slow if long[item.nodeid] else pytest.mark.whole)
    place = {name: number for number, name in enumerate(_FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(_FIRST)))


@pytest.fixture
def launches_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches that are one with arrays exchanged stay two: what each of them does is looked at. (What
    they are together, `tests/plan/test_turns.py` and every case.)"""
    monkeypatch.setattr("loopfuse.plan.schedule.merge", lambda tree, fresh: tree)
