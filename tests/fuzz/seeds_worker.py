"""One process of a campaign by seed: checks some numbers, tells in JSON lines.

    python -m fuzz.seeds_worker '{"generator": "lf", "numbers": [0, 1, 2]}'

A line `{"start": number}` before each and `{"done": number, ...}` after it, so that whoever listens
knows at which number the process died.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from dataclasses import asdict

from fuzz.campaigns import module_of


def main() -> None:
    """See the module."""
    faulthandler.enable()
    job = json.loads(sys.argv[1])
    tell = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    sys.set_int_max_str_digits(0)
    module = module_of(job["generator"])
    for number in job["numbers"]:
        tell.write(json.dumps({"start": number}) + "\n")
        start = time.monotonic()
        checked = module.check(number)
        told = {"done": number, "seconds": round(time.monotonic() - start, 3), **asdict(checked)}
        tell.write(json.dumps(told, default=str) + "\n")


if __name__ == "__main__":
    main()
