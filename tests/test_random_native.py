"""Random programs under `fp="native"`: the plans for a GPU, fused and unfused, have the bits of the program with its
approximations; on a CPU those of `fast`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from case_files import same_bits
from engines import is_wide, our_math
from fuzz import engines
from fuzz.choices import RandomChoices
from fuzz.engines import Ran, Session
from fuzz.generate import generate

from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.lang import native
from loopfuse.lang.interp import interpret

EACH = 12


def meant(it: Session) -> Ran:
    written = interpret(
        native.approximated(it.kernel), it.arguments, it.program.sizes, math=our_math(), offences=[]
    )
    return Ran(it.arrays_of({**it.arguments, **written}))


@pytest.mark.parametrize("chunk", range(4))
def test_fused_and_unfused_plans_have_the_approximations(chunk: int) -> None:
    approximated = compared = 0
    for number in range(EACH * chunk, EACH * chunk + EACH):
        program = replace(generate(RandomChoices(f"native:{number}"), "math,divisions,storage_floats"), fp="native")
        try:
            with engines.session(program) as it, np.errstate(all="ignore"):
                wanted = meant(it)
                for target, fuel in (("sm_90", None), ("sm_90", 0)):
                    planned = engines.plan(it, target, fuel)
                    if is_wide(planned):
                        continue
                    found = engines.run_planned(it, planned.tree)
                    compared += 1
                    approximated += bool(planned.approximations)
                    for name, value in wanted.arrays.items():
                        assert same_bits(found.arrays[name], value), f"{name}, fuel={fuel}\n{program}"
        except LoopfuseError:
            continue  # refused, as it is at the other levels
    assert compared >= EACH and approximated >= 6
