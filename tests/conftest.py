"""Which tests of the default run are slow for some cases only."""

from __future__ import annotations

import pytest

_SLOW = (
    ("test_mutation_table.py", "computes_something_wrong"),
    # Time loops in blocks of 8 steps take seconds to prove and to compile, changed ones too.
    ("test_metamorphic.py", "time_"),
    ("test_cases.py", "test_reordered_reductions_agree_on_whole_numbers[time_"),
)
"""(file, part of a test's name): tests that only run with `-m slow`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them before tests are chosen."""
    for item in items:
        if any(item.path.name == file and part in item.name for file, part in _SLOW):
            item.add_marker(pytest.mark.slow)
