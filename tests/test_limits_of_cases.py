"""What is read of Nsight Compute's output for docs/performance.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from limits import LANES, SHARES, SUMS, WAITS, parse_launches, profile, summary, wait_metric  # noqa: E402
from make_performance import limits_section  # noqa: E402

NAMES = [*SHARES.values(), *SUMS.values(), *map(wait_metric, WAITS)]


def output(*launches: dict[str, str]) -> str:
    """As `ncu --csv --page raw` prints it: what it says, a head, units, a line a launch."""
    head = ["ID", "Kernel Name", *NAMES, "another metric"]
    lines = ["==PROF== Connected to process 7", ",".join(f'"{name}"' for name in head)]
    lines.append(",".join('""' if name in ("ID", "Kernel Name") else '"unit"' for name in head))
    for number, launch in enumerate(launches):
        cells = [str(number), launch["kernel"], *(launch.get(name, "0") for name in NAMES), "n/a"]
        lines.append(",".join(f'"{cell}"' for cell in cells))
    return "\n".join(lines) + "\n"


SHORT = {"kernel": "k_0", SUMS["nanoseconds"]: "100"}
LONG = {
    "kernel": "k_1",
    SUMS["nanoseconds"]: "2,000",
    SUMS["read"]: "600",
    SUMS["written"]: "500",
    SUMS["instructions"]: "50",
    SHARES["dram"]: "81.25",
    wait_metric("barrier"): "3.5",
    wait_metric("wait"): "0.5",
    wait_metric("long_scoreboard"): "4.5",
}
MEASURED = {
    "case": "k", "variant": "round", "title": "a case", "size": [32, 10], "bytes": 1000, "points": 640,
}  # fmt: skip


def test_the_longest_launch_is_told() -> None:
    launches = parse_launches(output(SHORT, LONG))
    assert [each["kernel"] for each in launches] == ["k_0", "k_1"]
    found = summary(launches, MEASURED)
    assert (found["kernel"], found["launches"], found["ms"]) == ("k_1", 2, 0.002)
    assert (found["dram"], found["moved"]) == (81.25, 1.1)
    assert found["instructions"] == 50 * LANES / (640 / 2)
    assert found["waits"] == {"long_scoreboard": 4.5, "barrier": 3.5, "wait": 0.5}


def test_what_is_no_number_is_none() -> None:
    (launch,) = parse_launches(output({**LONG, SHARES["l2"]: "n/a"}))
    assert launch[SHARES["l2"]] != launch[SHARES["l2"]]
    assert parse_launches("==ERROR== ERR_NVGPUCTRPERM\n") == []


def test_a_row_of_the_page() -> None:
    row = summary(parse_launches(output(LONG)), MEASURED)
    page = limits_section({"device": "a GPU", "date": "2026-11-22", "rows": [row]})
    assert page.splitlines()[-1].startswith("| a case | 32 x 10 | 1.10 | 81 % | 0 % | 0 % | 0 % | 0 | 2.5 |")


def test_without_ncu_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"^ncu \(Nsight Compute\) is not installed$"):
        profile(["k:round"], {"k:round": 1}, 1.0)
