"""`loopfuse verify` notices a planted miscompile and says where it shows first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopfuse import load, pipeline
from loopfuse.commands.verify import verify_kernel
from loopfuse.plan.tree_walk import walk_nodes
from loopfuse.plan.verify import Verdict
from tests.plan.mutate_edit import rewrite

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


def test_a_planted_miscompile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's tree gets a stale recompute, and the checker is made to prove anything."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    spoil = rewrite("rows_3[] =", "min(y + 1, H - 1)", "y")
    build = pipeline.build_tree

    def wrong(*arguments: Any) -> Any:
        made = build(*arguments)
        nodes = [n for launch in made.tree.launches for n in walk_nodes(launch.body)]
        if any("rows_3" in str(node) for node in nodes):  # only the fused tree recomputes
            return replace(made, tree=spoil(made.tree))
        return made

    monkeypatch.setattr(pipeline, "build_tree", wrong)
    monkeypatch.setattr(pipeline, "verify", lambda *a: Verdict("proved"))
    found = verify_kernel(_kernel("blur"), target="cpu")
    assert not found and {each.forms[1] for each in found.mismatches} == {"unfused", "interpreted"}
    first = found.mismatches[0]
    assert first.array == "smooth" and first.values[0] != first.values[1]
    assert len(first.element) == 2 and dict(first.sizes)["H"] > 1
    text = str(found)
    assert "DIFFERS  smooth[" in text and "expected" in text and "H=" in text
