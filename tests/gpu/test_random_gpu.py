"""Random programs on the GPU, fused and unfused, against the interpreter; a batch first.

`pytest -m gpu tests/gpu/test_random_gpu.py` runs a few, for `tests/loopfuse-fuzz --gpu` runs many.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.choices import RandomChoices
from fuzz.compare import compare
from fuzz.generate import generate
from fuzz.program import found_programs, read_program_file

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs_on_the_gpu(chunk: int) -> None:
    """25 programs each."""
    from fuzz.gpu import compare_on_gpu

    for number in range(25 * chunk, 25 * chunk + 25):
        program = generate(RandomChoices(f"gpu:{number}"))
        failure = compare(program, compare_on_gpu).failure
        assert failure is None or "gpu" not in failure.detail, f"{failure.detail}\n{program}"


@pytest.mark.parametrize("path", found_programs(), ids=lambda path: path.stem)
def test_what_was_found_on_the_gpu(path: Path) -> None:
    """What campaigns found, on the GPU too."""
    from fuzz.gpu import compare_on_gpu

    assert compare(read_program_file(path), compare_on_gpu).status == "ok"


def test_a_batch_on_the_gpu(tmp_path: Path) -> None:
    """Compiled first, then run in one go."""
    from fuzz import batch
    from fuzz.gpu import target

    assert batch.make(tmp_path, 20, 77, 1, target()) == 0
    assert batch.run(tmp_path, 2, tmp_path / "failures") == 0
