"""Coverage-guided fuzzing of the parser, checker and planner. Needs atheris; not run by pytest.

    python tests/hostile/fuzz_text.py [CORPUS] -max_total_time=300 -timeout=30

The examples are the first corpus where none is given. What is found is written beside, as
`crash-...`: make it a case of test_text.py.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["loopfuse.frontend", "loopfuse.lang", "loopfuse.plan"]):
    from loopfuse.base.diagnostics import InternalError, LoopfuseError, Source
    from loopfuse.base.options import CPU, Options
    from loopfuse.pipeline import plan_kernel, read_program

ROOT = Path(__file__).parents[2]


def one_input(data: bytes) -> None:
    """A text is refused with diagnostics, or planned."""
    text = data.decode("utf-8", "replace")[:20_000]
    try:
        program = read_program(Source("fuzzed.lf", text))
        for kernel in program.kernels[:2]:
            plan_kernel(program, kernel.name, Options(CPU, operations=100_000))
    except InternalError:
        raise
    except LoopfuseError as error:
        str(error)


def main() -> None:
    """Fuzz until stopped."""
    warnings.simplefilter("ignore")
    if not any(not word.startswith("-") for word in sys.argv[1:]):
        corpus = Path(tempfile.mkdtemp(prefix="loopfuse-corpus-"))
        for file in [*(ROOT / "examples").glob("*.lf"), *(ROOT / "tests/cases").glob("*.lf")]:
            (corpus / file.name).write_bytes(file.read_bytes())
        sys.argv.insert(1, str(corpus))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
