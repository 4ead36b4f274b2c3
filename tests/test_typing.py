"""What type checkers say of programs that use loopfuse: README's, the documented annotations, and
calls that are wrong."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import loopfuse
from loopfuse import f32

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/python.md", "docs/testing.md")
RIGHT = '''\
import pickle
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

import loopfuse
import loopfuse as lf
from loopfuse import Out, f32
from loopfuse.testing import assert_fuses


@loopfuse.kernel
def soften(img: f32["H", "W"], amount: loopfuse.f32) -> f32["H", "W"]:
    """Soft."""
    rows = np.empty_like(img)
    H, W = img.shape
    for y in loopfuse.prange(H):
        for x in range(1, W - 1):
            total = 0.0
            total += img[y, x - 1]
            rows[y, x] = amount * (total + img[y, x]) if x < len(img) else 0.0
    return rows


@loopfuse.kernel(fp="strict", target="cpu")
def scale(x: lf.i32["N"], y: lf.Out[lf.f64["N", 3]], z: Out[f32["N-2"]], factor: lf.f64) -> None:
    for i in range(len(x)):
        y[i, 0] += factor * x[i]


@loopfuse.kernel
def plain(x: npt.NDArray[np.float32], y: Annotated[npt.NDArray[np.float32], f32["N"]], n: int) -> None:
    with loopfuse.fuse():
        for i in range(n):
            x[i] = y[i]


class Holder:
    @loopfuse.kernel
    def inside(x: f32["N"]) -> f32["N"]:
        return x


x = np.zeros((3, 4), np.float32)
soften(x, 0.5)
soften(x, amount=np.float32(0.5))
soften(amount=2, img=x)
soften.reference(x, 0.5)
soften.with_options(fp="strict")(x, 0.5)
scale(x, x, x, 2.0)
scale(x, z=x, factor=2.0)
plain(x, x, 3)
made: loopfuse.PythonKernel[..., Any] = pickle.loads(pickle.dumps(soften))
report = soften.explain(H=4, W=4)
text: str = str(report) + str(soften.verify()) + str(soften.dependences()["kernel"])
program = loopfuse.load("example:saxpy", fp="strict", check="sync")
program(x, x, 2.0)
one: loopfuse.Kernel = program.saxpy
several = loopfuse.loads("kernel k(out y: f32[1]): ...")
names = [name + kernel.name for name, kernel in several.items()] + list(several)
several["k"].explain(N=3).report
strict: loopfuse.PythonKernel[..., Any] = loopfuse.kernel(soften.reference, target="cpu", fp="strict")
for kernel in (soften, program, several["k"]):
    assert_fuses(kernel, "rows", target="cpu")
'''
WRONG = '''\
soften(x, "oops", 3, 4)
soften(x, "oops")
soften("oops", 0.5)
soften(x)
soften(x, None)
soften(x, amunt=0.5)
scale(x, 3.0, x, 2.0)
plain(x, x, "three")
plain([1, 2], x, 3)
loopfuse.kernel(3)
loopfuse.kernel(soften.reference, fp=3)
soften.explain().nothing
loopfuse.kernel(fp="sloppy")
loopfuse.kernel(soften.reference, check="no")
loopfuse.load("example:saxpy", fp="sloppy")
loopfuse.loads("", check=True)
soften.with_options(fp="sloppy")
program.with_options(fp="sloppy")
program.explain().nothing
assert_fuses(x, "rows")
'''


def blocks() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for page in PAGES:
        texts = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        # In docs/python.md, those that show annotations: the others show that none is needed.
        found += [(page, one) for one in texts if page != "docs/python.md" or "Out[" in one]
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    for number, (page, block) in enumerate(blocks()):
        (folder / f"{Path(page).stem.lower()}_{number}.py").write_text(block)
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(RIGHT + WRONG)
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"})
    )
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nplugins = {ROOT}/loopfuse/mypy_plugin.py\nmypy_path = {ROOT}\n"
        "[mypy-loopfuse.*]\nfollow_imports = silent\n"
    )
    return folder


def run_pyright(folder: Path) -> dict[str, list[tuple[int, str]]]:
    pytest.importorskip("pyright")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(folder)],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    found: dict[str, list[tuple[int, str]]] = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            place = one["range"]["start"]["line"] + 1, one["message"]
            found.setdefault(Path(one["file"]).name, []).append(place)
    return found


def run_mypy(folder: Path) -> dict[str, list[tuple[int, str]]]:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *sorted(p.name for p in folder.glob("*.py"))],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    found: dict[str, list[tuple[int, str]]] = {}
    for line in done.stdout.splitlines():
        parts = re.fullmatch(r"([^:]+):(\d+): error: (.*)", line)
        if parts is not None:
            found.setdefault(parts[1], []).append((int(parts[2]), parts[3]))
    return found


@pytest.mark.whole
@pytest.mark.parametrize("checker", [run_pyright, run_mypy], ids=["pyright", "mypy"])
def test_type_checkers(programs: Path, checker: Any) -> None:
    """What is right passes the strictest mode; each line that is wrong is an error."""
    found = checker(programs)
    wrong = found.pop("wrong.py")
    assert not found, found
    first = RIGHT.count("\n") + 1
    assert {line for line, _ in wrong} == set(range(first, first + WRONG.count("\n"))), wrong


def test_there_are_programs_to_check() -> None:
    assert [page for page, _ in blocks()].count("README.md") == 2
    assert [page for page, _ in blocks()].count("docs/testing.md") >= 5
    assert any("Out[" in block for _, block in blocks())


@pytest.mark.parametrize("function", [loopfuse.kernel, loopfuse.load, loopfuse.loads])
def test_help_shows_the_options(function: Any) -> None:
    """All of them by name, with their defaults; their types are no secret at run time."""
    shown = inspect.signature(function, eval_str=True).parameters
    assert {"target", "fp", "reassociate", "check", "tune", "tune_budget"} <= set(shown)
    assert shown["fp"].default == "fast" and shown["check"].default == "lazy"
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in shown.values())


def test_what_load_gives_is_in_its_type() -> None:
    result = typing.get_type_hints(loopfuse.load)["return"]
    assert isinstance(loopfuse.load("example:saxpy"), result)


def test_annotated_says_both_things() -> None:
    @loopfuse.kernel(target="cpu")
    def double(x: Annotated[np.ndarray, f32["N"]], k: Annotated[float, f32, "a factor"]) -> Any:
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = k * x[i]
        return y

    @loopfuse.kernel(target="cpu")
    def weak(x, k: Annotated[int, "a count"]):
        for i in range(len(x)):
            x[i] = k

    assert double.explain(N=4).report.sizes == (("N", 4),)
    assert double(np.ones(2, np.float32), 0.1).dtype == np.float32
    x = np.zeros(2, np.int8)
    weak(x, 3)
    assert x.tolist() == [3, 3]
