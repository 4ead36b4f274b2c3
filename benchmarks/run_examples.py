"""Runs every example once on small PyTorch arrays on the GPU: food for compute-sanitizer.

    compute-sanitizer python3 benchmarks/run_examples.py [--part 0/6] [example ...]

`--part 0/6`: the first of every six examples, the second with 1/6, ...; for several processes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import engines  # noqa: E402
import numpy as np  # noqa: E402
import references  # noqa: E402
from case_files import make_arguments, read_examples  # noqa: E402
from gpu_libraries import LIBRARIES  # noqa: E402

import loopfuse  # noqa: E402


def main() -> None:
    """Run the examples named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("examples", nargs="*")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    upload, _ = LIBRARIES["torch"]()
    count = 0
    for case in read_examples()[first::step]:
        if options.examples and case.name not in options.examples:
            continue
        for kernel in engines.read(case.source).kernels:
            for sizes in case.sizes:
                arguments = make_arguments(kernel, sizes, case.scalars, case.data)
                arguments = references.prepare(kernel.name, arguments)
                held = {
                    name: upload(v) if isinstance(v, np.ndarray) else v
                    for name, v in arguments.items()
                }
                for fuel in (None, 0):
                    compiled = engines.loaded(case.source, kernel.name, fuel, True)
                    compiled(**held, **engines.sizes_to_pass(kernel, sizes))
                    loopfuse.synchronize()
                    count += 1
    print(f"{count} runs")


if __name__ == "__main__":
    main()
