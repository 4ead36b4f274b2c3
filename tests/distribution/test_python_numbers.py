"""Python kernels that return numbers, by every door: called, explained, verified, tuned, as C, as PTX,
as operators of PyTorch."""

from __future__ import annotations

import ctypes
import pickle
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
import loopfuse.testing
from loopfuse.base.diagnostics import UserError
from loopfuse.distribution.c_launcher import c_files

X = np.arange(1, 6, dtype=np.float32)


def least_and_sum(x):
    least, s = x[0], 0.0
    y = np.empty_like(x)
    for i in range(len(x)):
        least = min(least, x[i])
        s += x[i]
        y[i] = 2 * x[i]
    return y, least, s, len(x), s > 1


def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


def count(x):
    for i in range(len(x)):
        x[i] = 0
    return 3


KERNELS = (least_and_sum, total, count)


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return type(a) is type(b) and np.array_equal(a, b)


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_every_door_of_python(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    kernel = loopfuse.kernel(function, target="cpu")
    expected = function(X.copy())
    assert alike(expected, kernel(X.copy()))
    assert alike(expected, pickle.loads(pickle.dumps(kernel))(X.copy()))
    assert alike(expected, kernel.reference(X.copy()))
    assert kernel.verify() and function.__name__ in str(kernel.explain(X))
    assert isinstance(kernel.dependences()["dependences"], list)
    loopfuse.testing.assert_equivalent(kernel, target="cpu", args=(X.copy(),))
    assert loopfuse.kernel(function, target="cpu", tune_budget=1).tune(X.copy()) is not None
    ptx = kernel.compile("sm_90", x=X)
    assert ".entry" in ptx.ptx or function is count
    header = c_files(ptx.manifest, "k")["k.h"]
    assert all(one in header for one in re.findall(r"out (\w+_returned)", str(kernel.specialise(X))))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_numbers_are_arrays_of_one_element_in_c(tmp_path: Path) -> None:
    kernel = loopfuse.kernel(least_and_sum, target="cpu", reassociate=False)
    made = kernel.compile("cpu", x=X)
    for name, text in c_files(made.manifest, "k").items():
        (tmp_path / name).write_text(text, "ascii")
    (tmp_path / "k.o").write_bytes(made.object)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "k.so", "k.c", "k.o", "-lm"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "k.so"))
    expected = kernel(X)
    out = [np.zeros_like(expected[0]), *(np.zeros(1, np.asarray(one).dtype) for one in expected[1:])]
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in (X, *out)]
    assert library.least_and_sum(*pointers, ctypes.c_int64(len(X))) == 0
    assert all(np.array_equal(a, b) for a, b in zip(out, (expected[0], *([one] for one in expected[1:]))))


def total_as_array(x):
    r = np.empty(1, np.float32)
    r[0] = 0.0
    for i in range(len(x)):
        r[0] += x[i]
    return r


def test_an_operator_returns_no_number_and_says_which_array() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X.copy())
    for function in KERNELS:
        with pytest.raises(UserError, match="torch-op-result") as caught:
            loopfuse.kernel(function, target="cpu").as_torch_op(f"numbers::{function.__name__}", x)
        assert ("np.float32" if function is not count else "np.int64") in caught.value.diagnostics[0].fix
    operator = loopfuse.kernel(total_as_array, target="cpu").as_torch_op("numbers::total_as_array", x)
    assert operator(x)[0] == total(X)


def test_a_python_file_is_asked_from_python(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("def k(x):\n    return len(x)\n", "ascii")
    with pytest.raises(UserError, match=r"is a Python file[\s\S]*kernel\.compile\(\.\.\.\)"):
        loopfuse.load(path)
