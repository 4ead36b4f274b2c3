"""Sets of instances stay in few pieces: every question of the proof is asked piece by piece, of pairs of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.proof.events import Events
from loopfuse.tree.rewrite import specialise, turns
from loopfuse.tree.walk import open_tiles, without_written_out

SUITE = Path(__file__).resolve().parents[1] / "polybench"


@pytest.mark.parametrize("name", ["cholesky", "lu"])
def test_bounds_and_conditions_leave_few_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of panels and of tiles cut the loops inside, where what is cut off is often put together again."""
    proved = pipeline.Verdict("proved")
    monkeypatch.setattr(pipeline, "verify", lambda *_: proved)
    source = Source(f"{name}.lf", (SUITE / f"{name}.lf").read_text("utf-8"))
    program = pipeline.read_program(source)
    planned = pipeline.plan_kernel(program, program.kernels[0].name, Options(target=CPU))
    tree = open_tiles(without_written_out(specialise.erase(turns.erase(planned.tree))))
    pieces = [leaf.points.n_basic_set() for leaf in Events(planned.program, tree).leaves]
    assert len(pieces) > 8, "no tiles: another program is needed"
    assert sum(pieces) <= 2 * len(pieces), pieces
