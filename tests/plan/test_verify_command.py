"""`loopfuse verify` notices a planted miscompile and says where it shows first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopfuse.kernels.verify as verify_module
from loopfuse import load, loads, pipeline
from loopfuse.base.options import Tuning
from loopfuse.commands.bisect import find_guilty
from loopfuse.kernels.verify import verify_kernel
from loopfuse.proof.check import Verdict
from loopfuse.tree.looptree import LoopTree
from loopfuse.tree.printer import print_tree
from tests.plan.mutate_edit import rewrite
from tests.plan.mutate_table import RECOMPUTED
from tests.plan.mutate_windows import reading

EXAMPLES = Path(__file__).parents[2] / "examples"


def _kernel(name: str) -> Any:
    found = load(EXAMPLES / f"{name}.lf")
    return found if hasattr(found, "signature") else getattr(found, name)


def test_what_was_tried_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    found = verify_kernel(_kernel("blur"), target="cpu")
    assert found and found.cases == len(found.tried) == 12
    text = str(found)
    assert "fused, unfused and interpreted agree on 12 cases" in text
    assert all(f"{n}={v}" in text for case in found.tried for n, v in case)


PLANTED = {  # by tuning: a stale row recomputed, and a row of the line buffer read a row too early
    "recomputed": (RECOMPUTED, rewrite("rows_3[] =", "min(y + 1, H - 1)", "y"), "rows_3"),
    "lines": (Tuning(), reading(r"^S2\[", r"^rows_line\[t, ", 0, -1), "rows_line"),
}


@pytest.mark.parametrize("way", PLANTED)
def test_a_planted_miscompile_is_found(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner's tree is spoiled, and the checker is made to prove anything; `LOOPFUSE_FUEL`
    tells the fusion."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    tuning, spoil, fused_only = PLANTED[way]
    build = pipeline.build_tree
    spoiled: list[LoopTree] = []

    def wrong(*arguments: Any) -> Any:
        made = build(*arguments)
        if fused_only not in print_tree(made.tree):
            return made
        spoiled.append(made.tree)
        return replace(made, tree=spoil(made.tree))

    monkeypatch.setattr(pipeline, "build_tree", wrong)
    monkeypatch.setattr(pipeline, "verify", lambda *a: Verdict("proved"))
    kernel = _kernel("blur").with_options(tuning=tuning)
    found = verify_kernel(kernel, target="cpu")
    assert spoiled, f"no {fused_only}: blur is planned otherwise, plant another mistake"
    assert not found and {each.forms[1] for each in found.mismatches} == {"unfused", "interpreted"}
    first = found.mismatches[0]
    assert first.array == "smooth" and first.values[0] != first.values[1]
    assert len(first.element) == 2 and dict(first.sizes)["H"] > 1
    text = str(found)
    assert "DIFFERS  smooth[" in text and "expected" in text and "H=" in text
    guilty = find_guilty(kernel, {}, target="cpu")
    assert guilty.fuel == 1 and "LOOPFUSE_FUEL=0 agrees, LOOPFUSE_FUEL=1 does not" in str(guilty)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_narrow_result_may_round_to_its_neighbour(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum is made in f32 and lies between two narrow numbers: in program order at the middle,
    where what is small is lost bit by bit; gathered first, it tips the scales."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    kernel = loads(
        f"kernel total(x: {dtype}[N], out s: {dtype}[1]):\n"
        f"    s[0] = {dtype}(sum(i in 0..N: x[i]))\n",
        target="cpu",
    )
    held = np.dtype("float16" if dtype == "f16" else ml_dtypes.bfloat16)
    x = np.full(64, 2.0**-24, held)
    x[:2] = 1.0, 2.0**-11 if dtype == "f16" else 2.0**-8

    def chosen(*arguments: Any) -> dict[str, Any]:
        return {"x": x.copy(), "s": np.zeros(1, held)}

    monkeypatch.setattr(verify_module, "random_arguments", chosen)
    found = verify_kernel(kernel, {"N": 64}, target="cpu")
    assert found.reassociated and found, found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rounding_is_a_few_last_places(dtype: str) -> None:
    """Neighbours pass where sums were reordered; what is off by a hundredth of an f16's or a tenth of a
    bf16's size does not, and nothing but equal bits does otherwise."""
    held = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    near, far = (0.01, 0.1) if dtype == "bfloat16" else (0.001, 0.01)
    one = np.array([3.0, -1.0], held)
    close, distant = one.copy(), one.copy()
    close[1] -= held.type(near if held.itemsize == 2 else 1e-12)
    distant[1] -= held.type(far)
    differ = verify_module._first_difference
    assert differ(one, close, True) is None and differ(one, distant, True) == (1,)
    assert held.itemsize == 4 or differ(one, close, False) == (1,)
    assert differ(one, np.array([3.0, np.nan], held), True) == (1,)
