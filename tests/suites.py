"""The suites: well-known programs, each written three times. A folder of them holds

    NAME.lf          the program as text, with what is expected of it in its head
    kernels.py       the same as plain Python functions under @loopfuse.kernel
    references.py    what they compute, in NumPy, by other means where there are any; fit arguments

A kernel has one name in all three. `tests/test_suites.py` runs them.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from case_files import SUITES, Case, make_arguments

import loopfuse
from loopfuse.lang import nodes

_HERE = SUITES[0].parent


@cache
def part(suite: str, name: str) -> ModuleType:
    """`kernels` or `references` of a suite: every suite has files of these names."""
    full = f"{suite}_{name}"
    spec = importlib.util.spec_from_file_location(full, _HERE / suite / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module


def function_of(case: Case, kernel: str) -> Any:
    """The decorated Python function of a kernel."""
    return getattr(part(case.path.parent.name, "kernels"), kernel)


def reference_of(case: Case, kernel: str) -> Any:
    """The kernel's reference."""
    return part(case.path.parent.name, "references").REFERENCES[kernel]


def fit(kernel: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` made fit for a suite's kernel where plain random numbers are not; of other kernels as they are."""
    for suite in SUITES:
        found = part(suite.name, "references").PREPARE.get(kernel)
        if found is not None and _needed_by(found) <= arguments.keys():  # another kernel may have the name
            with np.errstate(all="ignore"):
                return {**arguments, **found(**arguments)}
    return arguments


def _needed_by(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD}


def arguments_of(case: Case, kernel: nodes.Kernel, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments for one run, by name."""
    return fit(kernel.name, make_arguments(kernel, sizes, case.scalars, case.data))


def right_results(case: Case, kernel: nodes.Kernel, arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    """What the reference makes of them: floats in float64."""
    wide = {
        name: np.asarray(value, np.float64) if np.asarray(value).dtype.kind == "f" else value
        for name, value in arguments.items()
    }
    with np.errstate(all="ignore"):
        return reference_of(case, kernel.name)(**wide)


def refusal_of_number_16() -> str:
    """What Livermore's number 16 gets, which no loop with a range can say."""
    d, plan = np.ones(40), np.ones(30)
    zone = np.full(100, 3, np.int64)
    kernel = loopfuse.kernel(part("livermore", "number_16").search)
    try:
        kernel(d, plan, zone, 5, 0.1, 0.2, 0.3, np.zeros(2, np.int64))
    except loopfuse.UserError as error:
        return re.sub(r"--> .*/(tests/)", r"--> \1", str(error))
    raise AssertionError("number 16 is not refused")
