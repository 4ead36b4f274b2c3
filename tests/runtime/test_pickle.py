"""Kernels sent to other processes: .lf kernels with their text, Python kernels by name or whole."""

from __future__ import annotations

import copy
import functools
import importlib.util
import linecache
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import (
    Diagnostic,
    InternalError,
    LimitError,
    LoopfuseError,
    UserError,
)
from loopfuse.base.options import Tuning
from loopfuse.explain.explanation import Explanation
from loopfuse.kernels import sent as pykernel_sent
from loopfuse.kernels.sent import import_path, pack, unpack

ROOT = Path(__file__).resolve().parents[2]
TWO = """\
kernel more(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = x[i] + 1.0

kernel less(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = x[i] - 1.0
"""
X = np.arange(5, dtype=np.float32)

# A script, as `python script.py` runs it: its functions belong to `__main__`.
SCRIPT = '''\
import pickle, sys
import numpy as np
import loopfuse
from loopfuse import f32

SCALE = 2.5
TABLE = np.array([1.0, 2.0, 4.0], np.float32)
shape = open(__file__)  # cannot be sent, and is not what `x.shape` means

def lerp(a, b, t=0.25):
    return a + t * widen(b - a)

def widen(v):
    return v * np.float32(SCALE)

def factory(k):
    @loopfuse.kernel(fp="strict", target="cpu")
    def inner(x: "f32['N']"):
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            y[i] = k * x[i]
        return y
    return inner

@loopfuse.kernel
def blend(x: f32["N"], t: f32):
    """Blends."""
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = lerp(x[i], TABLE[1]) + t
    return y

@loopfuse.kernel
def wrong(x: f32["N"]):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = x[i + 1]
    return y

three = factory(3.0)
x = np.arange(5, dtype=np.float32)
everything = [blend, three, wrong, blend.specialise(), blend.reference(x, np.float32(1)), three(x)]
sys.stdout.buffer.write(pickle.dumps(everything))
'''


def run(script: Path, *, optimised: bool = False) -> bytes:
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, cwd=script.parent, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_lf_kernels_are_sent_with_their_text() -> None:
    kernels = loopfuse.loads(TWO, name="two.lf", fp="strict", reassociate=False, target="cpu")
    data = pickle.dumps(kernels)
    again = pickle.loads(data)
    assert list(again) == ["more", "less"] and isinstance(again, loopfuse.Kernels)
    assert again.less(X).tolist() == (X - 1).tolist()
    assert again.less is pickle.loads(data).less, "what arrives twice is one kernel"
    assert again.more.explain(N=9).to_dict() == kernels.more.explain(N=9).to_dict()
    other = kernels.more.with_options(fp="fast", fuel=0, tuning=Tuning(), tune=True, tune_budget=3)
    sent = pickle.loads(pickle.dumps(other))
    assert sent is not again.more
    assert (sent._fp, sent._fuel, sent._tune, sent._budget) == ("fast", 0, True, 3)
    assert copy.deepcopy(other) is other and copy.copy(other) is other


def test_a_kernel_of_a_module_is_sent_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sent_by_name.py").write_text(SCRIPT.rpartition("three =")[0])
    monkeypatch.syspath_prepend(tmp_path)
    module: Any = importlib.import_module("sent_by_name")
    module.shape.close()
    assert import_path(module.blend.function) == ("sent_by_name", "blend")
    data = pickle.dumps(module.blend)
    assert len(data) < 500 and pickle.loads(data) is module.blend
    strict = pickle.loads(pickle.dumps(module.blend.with_options(fp="strict")))
    assert strict.function is module.blend.function and strict.options["fp"] == "strict"
    assert pickle.loads(pickle.dumps(strict)) is strict
    wrapped = loopfuse.kernel(module.lerp)
    assert pickle.loads(pickle.dumps(wrapped)).function is module.lerp
    # Only what is inside a function, or in no module that can be imported, is sent whole.
    assert import_path(module.factory(2.0).function) is None
    special = module.blend.specialise()
    assert pickle.loads(pickle.dumps(special)).types == special.types
    assert copy.deepcopy(module.blend) is module.blend


def test_a_script_is_sent_whole(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    data = run(script)
    for step in ("there", "changed", "gone"):
        pykernel_sent._received.clear()
        linecache.clearcache()
        if step == "changed":
            script.write_text("# another\n" * 80)
        if step == "gone":
            script.unlink()
        blend, three, wrong, special, expected, tripled = pickle.loads(data)
        assert blend.__doc__ == "Blends." and repr(blend) == "<loopfuse kernel blend(x, t) in Python>"
        assert blend(X, 1.0).tolist() == expected.tolist() == special(X, 1.0).tolist()
        assert blend.reference(X, np.float32(1)).tolist() == expected.tolist()
        assert three(X).tolist() == tripled.tolist() and three.options["fp"] == "strict"
        assert blend.verify(), "it can be read"
        assert all(a is b for a, b in zip((blend, three), pickle.loads(data)))
        with pytest.raises(UserError) as caught:
            wrong.compile(target="cpu")
        place = caught.value.diagnostics[0]
        assert place.source is not None and "y[i] = x[i + 1]" in str(caught.value)
        name = "<script.py " if step == "changed" else str(script)
        assert place.source.name.startswith(name) and f":{place.span.line}:" in str(caught.value)
        line = SCRIPT.splitlines().index("        y[i] = x[i + 1]") + 1
        assert place.span.line == line
        # and sent on
        assert pickle.loads(pickle.dumps(blend))(X, 1.0).tolist() == expected.tolist()


def test_a_notebook_cell_is_sent_whole() -> None:
    """A cell is no file: its lines stand in `linecache` alone, and helpers in other cells."""
    space: dict[str, Any] = {"__name__": "__main__", "np": np, "loopfuse": loopfuse}
    for number, cell in enumerate(
        (
            "def helper(v):\n    return v * 2\n",
            "@loopfuse.kernel\ndef cell(x):\n    y = np.empty_like(x)\n"
            "    for i in range(len(x)):\n        y[i] = helper(x[i])\n    return y\n",
        )
    ):
        name = f"/tmp/ipykernel_0/{number}.py"
        lines = cell.splitlines(keepends=True)
        linecache.cache[name] = (len(cell), None, lines, name)
        exec(compile(cell, name, "exec"), space)
    data = pickle.dumps(space["cell"])
    for number in range(2):
        del linecache.cache[f"/tmp/ipykernel_0/{number}.py"]
    sent = pickle.loads(data)
    assert sent is not space["cell"] and sent(X).tolist() == (2 * X).tolist()
    # The cell of the helper runs again: another kernel is sent from now on.
    name, cell = "/tmp/ipykernel_0/2.py", "def helper(v):\n    return v * 3\n"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    exec(compile(cell, name, "exec"), space)
    linecache.cache["/tmp/ipykernel_0/1.py"] = linecache.cache[sent.function.__code__.co_filename]
    assert pickle.loads(pickle.dumps(space["cell"]))(X).tolist() == (3 * X).tolist()
    assert sent(X).tolist() == (2 * X).tolist()


def test_functions_that_call_each_other_and_empty_cells() -> None:
    later: Any
    def even(n: int) -> Any:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> Any:
        return n != 0 and even(n - 1)

    def unset() -> Any:
        return later

    again = unpack(pack(even))  # type: ignore[arg-type]
    assert isinstance(again, FunctionType) and again(10) is True and again(7) is False
    assert pack(again) is not None
    with pytest.raises(NameError):
        unpack(pack(unset))()  # type: ignore[arg-type]
    later = 1


def test_partial_functions_are_sent_with_what_they_hold() -> None:
    """They are no helpers, and are refused as such on both sides."""

    def add(a: Any, b: Any) -> Any:
        return a + b

    more = functools.partial(add, b=2)

    def plain(x: Any) -> Any:
        return more(x[0])

    there = unpack(pack(plain))  # type: ignore[arg-type]
    assert there(X) == plain(X)
    for function in (plain, there):
        with pytest.raises(UserError, match="`more` is not a function that a kernel can call"):
            loopfuse.kernel(function)(X)


def test_another_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(x: Any) -> Any:
        return x

    data = pack(plain)  # type: ignore[arg-type]
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", b"\0\0\0\0")
    with pytest.raises(UserError, match="another version of Python") as caught:
        unpack(data)
    assert caught.value.diagnostics[0].code == "other-python"


@pytest.mark.parametrize("kind", [UserError, LimitError, InternalError, LoopfuseError])
def test_errors_come_home(kind: type[LoopfuseError]) -> None:
    error = kind(Diagnostic("a", "first"), Diagnostic("b", "second", fix="do"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and again.diagnostics == error.diagnostics
    assert str(again) == str(error)


def test_what_kernels_say_is_sent_too() -> None:
    kernel = loopfuse.loads(TWO).more
    report: Explanation = kernel.explain(N=8)
    for said in (report, kernel.verify(), kernel.compile("cpu"), kernel.tune(X)):
        assert str(pickle.loads(pickle.dumps(said))) == str(said)


@pytest.mark.whole
def test_pools(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    script = tmp_path / "pools.py"
    body = SCRIPT.rpartition("x = np.arange")[0] + textwrap.dedent("""
        import joblib, multiprocessing

        def call(kernel):
            return kernel(np.arange(5, dtype=np.float32)).tolist()

        def bad(kernel):
            return kernel(3)

        if __name__ == "__main__":
            lf = loopfuse.loads(TEXT)
            expected = [call(three), call(lf.more), call(lf.less)]
            kernels = [three, lf.more, lf.less]
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    assert pool.map(call, kernels) == expected, method
                    try:
                        pool.map(bad, kernels[1:])
                    except loopfuse.UserError as error:
                        assert error.diagnostics[0].code == "not-an-array"
                    else:
                        raise AssertionError
            assert joblib.Parallel(2)(joblib.delayed(call)(k) for k in kernels) == expected
            print("fine")
    """)
    script.write_text(body.replace("TEXT", repr(TWO)))
    assert run(script).strip().endswith(b"fine")


OUTSIDE = '''\
import enum, functools, math as m, pickle, sys, types
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
import loopfuse

class P:
    w = 3.0
    unused = open(__file__)

@dataclass
class Q:
    w: float = 4.0

class N(NamedTuple):
    w: float = 5.0

class E(enum.IntEnum):
    A = 6

q, n, ns = Q(), N(), types.SimpleNamespace(w=7.0)
double = lambda v: v * 2

def twice(f):
    @functools.wraps(f)
    def g(v):
        return f(f(v))
    return g

@twice
def inc(v):
    return v + 1.0

def default(v, s=2.5, *, t=0.5):
    return v * s + t

@loopfuse.kernel(target="cpu")
def kernel(x, f=0.5):
    for i in range(len(x)):
        x[i] = P.w * x[i]
        x[i] = x[i] + q.w * n.w
        x[i] = double(x[i]) * ns.w
        x[i] = inc(x[i]) + E.A
        x[i] = default(m.sqrt(x[i])) * f

x = np.arange(4.0)
kernel(x)
sys.stdout.buffer.write(pickle.dumps((kernel, x)))
'''


def test_what_a_kernel_names_goes_with_it(tmp_path: Path) -> None:
    """Classes, objects, enumerations, wrappers, lambdas and defaults of a script that is gone."""
    script = tmp_path / "outside.py"
    script.write_text(OUTSIDE)
    data = run(script)
    script.unlink()
    kernel, expected = pickle.loads(data)
    for way in (kernel, kernel.reference, pickle.loads(pickle.dumps(kernel))):
        x = np.arange(4.0)
        way(x)
        assert x.tolist() == expected.tolist()


def test_what_a_decorator_wraps_is_not_sent_by_the_name_of_the_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sent_wrapped.py").write_text(OUTSIDE.partition("@loopfuse")[0])
    monkeypatch.syspath_prepend(tmp_path)
    module: Any = importlib.import_module("sent_wrapped")
    module.P.unused.close()
    assert unpack(pack(module.inc))(1.0) == 3.0 == module.inc(1.0)
    assert unpack(pack(module.inc.__wrapped__))(1.0) == 2.0
