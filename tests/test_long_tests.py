"""Which tests are long (`conftest.long_of`): what the default run takes of each function and file."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

RULES: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
"""What the file defines: as a module its name is that of others too."""
LONG, BEARABLE, long_of = RULES["LONG"], RULES["BEARABLE"], RULES["long_of"]


def test_the_shortest_of_a_function_stays() -> None:
    took = {"tests/a.py::one[x]": 2 * LONG, "tests/a.py::one[y]": 3 * LONG, "tests/a.py::two": LONG / 2}
    assert long_of(took) == {"tests/a.py::one[y]"}
    took["tests/a.py::one[z]"] = LONG / 2
    assert long_of(took) == {"tests/a.py::one[x]", "tests/a.py::one[y]"}


def test_the_shortest_of_a_file_stays() -> None:
    """Where it is bearable; a function may be gone from the default run."""
    took = {"tests/a.py::one": 2 * BEARABLE, "tests/a.py::two[x]": 3 * BEARABLE, "tests/b.py::three": 0.0}
    assert long_of(took) == {"tests/a.py::two[x]"}
    took["tests/a.py::four"] = 0.0
    assert long_of(took) == {"tests/a.py::one", "tests/a.py::two[x]"}
    took = {"tests/c.py::five": 2 * RULES["BEARABLE_ONCE"]}
    assert long_of(took) == set(took)


def test_what_was_not_seen_stays_listed() -> None:
    """`--write-times` of some tests: the others were long before."""
    took = {"tests/a.py::one[x]": float("inf"), "tests/a.py::one[y]": 2 * LONG}
    assert long_of(took) == {"tests/a.py::one[x]"}
    assert long_of({"tests/a.py::one[x]": float("inf")}) == set(took) - {"tests/a.py::one[y]"}


def test_the_longest_are_slow_but_for_the_shortest_of_a_function() -> None:
    longest = RULES["LONGEST"]
    took = {"tests/a.py::one[x]": 3 * longest, "tests/a.py::one[y]": 2 * longest, "tests/a.py::two": 2 * longest}
    assert RULES["longest_of"](took) == {"tests/a.py::one[x]"}
    took["tests/a.py::one[z]"] = longest / 2
    assert RULES["longest_of"](took) == {"tests/a.py::one[x]", "tests/a.py::one[y]"}


def test_the_list_is_sorted_and_of_files_that_are_there() -> None:
    names = [*RULES["listed"]()]
    assert names == sorted(set(names))
    root = Path(__file__).resolve().parent.parent
    assert [name for name in names if not (root / name.partition("::")[0]).is_file()] == []
