"""Random whole programs: every way of running them gives the same bits.

200 in a default run, in chunks so that workers share them. `LOOPFUSE_RANDOM_PROGRAMS=5000` runs more,
`LOOPFUSE_RANDOM_SEED=7` others. A failure prints the program, ready to be saved as a case; since each
try takes a compile, it is made small only under `LOOPFUSE_RANDOM_SHRINK=1`.
"""

from __future__ import annotations

import os

import engines
import pytest
from case_files import assert_same, make_arguments
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_programs import RandomProgram, programs

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU

CHUNKS = 8
COUNT = int(os.environ.get("LOOPFUSE_RANDOM_PROGRAMS", "200"))
SEED = int(os.environ.get("LOOPFUSE_RANDOM_SEED", "0"))
PHASES = (
    (Phase.generate, Phase.shrink)
    if os.environ.get("LOOPFUSE_RANDOM_SHRINK")
    else (Phase.generate,)
)


def compare(program: RandomProgram, data_seed: int) -> None:
    """Interpreter = unfused = fused = LoopTree interpreter = CPU, bit for bit."""
    source = Source("random.lf", program.text)
    kernel = engines.read(source).kernels[0]
    arguments = make_arguments(kernel, program.sizes, program.scalars, "random", data_seed)
    expected = engines.interpret(kernel, arguments, program.sizes)
    common = (source, kernel, arguments, program.sizes)
    for target, fuel, order in (
        (CPU, 0, "forward"),
        (CPU, None, "reverse"),
        (engines.GPU, 0, "reverse"),
        (engines.GPU, None, "shuffled"),
    ):
        got = engines.run_plan(*common, target=target, fuel=fuel, order=order)
        assert_same(kernel, expected, got, f"{target.name} tree, fuel={fuel}, {order}")
    for fuel in (0, None):
        got = engines.run_compiled(*common, fuel=fuel)
        assert_same(kernel, expected, got, f"compiled, fuel={fuel}")


@pytest.mark.filterwarnings("ignore")  # unused arrays, promotions
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_agree(chunk: int) -> None:
    """One chunk of random programs."""

    @seed(1000 * SEED + chunk)
    @settings(
        max_examples=max(1, COUNT // CHUNKS),
        deadline=None,
        database=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), st.integers(0, 3))
    def run(program: RandomProgram, data_seed: int) -> None:
        compare(program, data_seed)

    run()
