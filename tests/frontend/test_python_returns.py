"""Exchanges of arrays and what `return` gives, beside CPython: values, types, and whose arrays."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
import loopfuse.testing
from loopfuse.base.diagnostics import LoopfuseError, UserError
from loopfuse.kernels import cpython

X = np.arange(8.0)


def copies(arguments: tuple[Any, ...]) -> list[Any]:
    return [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]


def owners(values: tuple[Any, ...], arguments: list[Any]) -> list[int | None]:
    """Which argument each value is; None for what is new."""
    return [next((k for k, one in enumerate(arguments) if one is value), None)
            if isinstance(value, np.ndarray) else None for value in values]  # fmt: skip


def same(function: Callable[..., Any], *arguments: Any, kernel: Any = None) -> Any:
    """CPython and the compiled kernel return and leave the same; gives what is returned."""
    compiled = kernel or loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
    mine, theirs = copies(arguments), copies(arguments)
    got, wanted = compiled(*mine), function(*theirs)
    assert isinstance(got, tuple) == isinstance(wanted, tuple)
    left = got if isinstance(got, tuple) else (got,)
    right = wanted if isinstance(wanted, tuple) else (wanted,)
    assert [type(one) for one in left] == [type(one) for one in right]
    for one, other in zip((*left, *mine), (*right, *theirs), strict=True):
        np.testing.assert_array_equal(one, other)
    assert owners(left, mine) == owners(right, theirs)
    return got


def exchanged(x):
    a = np.zeros_like(x)
    b = np.ones_like(x)
    a, b = b, a
    return a, b


def with_parameter(x):
    a = np.ones_like(x)
    a, x = x, a
    a[0] = x[1]
    return a


def written_after(x):
    a = np.ones_like(x)
    a, x = x, a
    for i in range(len(a)):
        a[i] = 2.0 * x[i]
    return x, a


def rotated(x):
    a = np.zeros_like(x)
    b = np.ones_like(x)
    c = np.full_like(x, 3.0)
    a, b, c = b, c, a
    a[0] = 7.0
    b[1] = c[0]
    return a, b, c


def rotated_back(x, y, z):
    x, y, z = z, x, y
    x, y = y, x
    x[0] = y[1] + z[2]
    return y, x


def itself(x):
    return x


def twice(x):
    return x, x


@pytest.mark.parametrize(
    "function", [exchanged, with_parameter, written_after, rotated, itself, twice]
)
def test_exchange_outside_loops(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a result is a use
        same(function, X)


def test_exchange_of_parameters() -> None:
    same(rotated_back, X, X + 10.0, X + 20.0)


def jacobi(x, steps):
    a = np.copy(x)
    b = np.empty_like(x)
    for t in range(steps):
        b[0] = a[0]
        b[len(x) - 1] = a[len(x) - 1]
        for i in range(1, len(x) - 1):
            b[i] = 0.5 * (a[i - 1] + a[i + 1])
        a, b = b, a
    return a


def jacobi_copy(x, steps):
    a = x.copy()
    b = x.copy()
    for t in range(steps):
        for i in range(1, len(x) - 1):
            b[i] = 0.5 * (a[i - 1] + a[i + 1])
        a, b = b, a
    return b, a


def into_parameter(x, steps):
    a = np.zeros_like(x)
    for t in range(steps):
        for i in range(1, len(x) - 1):
            a[i] = x[i - 1] + x[i + 1]
        a, x = x, a
    return a


def returns_nothing(x, steps):
    other = np.zeros_like(x)
    for t in range(steps):
        for i in range(1, len(x) - 1):
            other[i] = x[i - 1] + x[i + 1]
        x, other = other, x


def of_parameters(x, steps):
    y = np.zeros_like(x)
    z = np.ones_like(x)
    y, z = z, y
    for t in range(2 * steps + 1):
        for i in range(1, len(x) - 1):
            y[i] = z[i - 1] + x[i + 1]
        z, y = y, z
    x, y = y, x
    return y, z, x


@pytest.mark.parametrize("steps", [-1, 0, 1, 2, 3])
def test_exchange_in_loops(steps: int) -> None:
    for function in (jacobi, jacobi_copy, into_parameter, returns_nothing, of_parameters):
        compiled = KERNELS.setdefault(
            function.__name__, loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
        )
        same(function, X, steps, kernel=compiled)
        same(function, X, steps, kernel=compiled)  # and by the short way of a warm call
        mine = X.copy()
        named = compiled(x=mine, steps=steps)
        first = named[0] if isinstance(named, tuple) else named
        assert first is None or isinstance(first, np.ndarray)


KERNELS: dict[str, Any] = {}


def wave(x, steps):
    p = np.copy(x)
    u = np.copy(x)
    n = np.zeros_like(x)
    for t in range(steps):
        for i in range(1, len(x) - 1):
            n[i] = 2.0 * u[i] - p[i] + 0.25 * (u[i - 1] - 2.0 * u[i] + u[i + 1]) + t
        p, u, n = u, n, p
    return u, p


def wave_of_parameters(p, u, n, steps):
    for t in range(2, steps):
        for i in range(1, len(u) - 1):
            s = u[i - 1] + u[i + 1]
            n[i] = 2.0 * u[i] - p[i] + 0.25 * s + t
        p, u, n = u, n, p
    return n, u


def pair_by_pair(p, u, n, steps):
    q = 1.0
    for t in range(steps):
        for i in range(len(u)):
            n[i] = 2.0 * u[i] - p[i]
        q += n[1]
        p, u = u, p
        n[0] = u[0]
        u, n = n, u
    p, n = n, p
    return p, n


@pytest.mark.parametrize("steps", [-2, 0, 1, 2, 3, 4, 5, 6])
def test_three_change_places_in_a_loop(steps: int) -> None:
    for function in (wave, wave_of_parameters):
        compiled = KERNELS.setdefault(
            function.__name__, loopfuse.kernel(function, target="cpu", fp="strict", reassociate=False)
        )
        given = (X,) if function is wave else (X, X + 1.0, 2.0 * X)
        same(function, *given, steps, kernel=compiled)
    assert steps != 5 or compiled.verify()


def test_an_array_that_changed_places_can_only_be_returned() -> None:
    def later(x, y, z, steps):
        for t in range(steps):
            for i in range(len(x)):
                z[i] = x[i] + y[i]
            x, y, z = y, z, x
        x[0] = 1.0

    for wrong, given in ((later, (X, X, X, 3)), (pair_by_pair, (X, X, X, 3))):
        with pytest.raises(UserError, match="exchange-rotation"):
            loopfuse.kernel(wrong)(*given)


def two_partners(x, y, steps):
    a = np.copy(x)
    for t in range(steps):
        a[0] = 1.0
        a, y = y, a
    for t in range(steps):
        a[0] = 2.0
        a, x = x, a
    return a


def of_triangle(x, y, steps):
    for t in range(steps):
        for s in range(t):
            x[0] += y[0]
            x, y = y, x
    return x


@pytest.mark.parametrize(("function", "code"), [(two_partners, "swap-rotation"), (of_triangle, "swap-too-deep")])
def test_limits_are_said_in_python(function: Callable[..., Any], code: str) -> None:
    with pytest.raises(LoopfuseError, match=code) as caught:
        loopfuse.kernel(function)(X, X.copy(), 3)
    assert "exchange" in caught.value.diagnostics[0].fix


def under_condition(x, y):
    if x[0] > 0.0:
        x, y = y, x
    return x


def of_other_shapes(x: loopfuse.f64["N"], y: loopfuse.f64["M"]):
    x, y = y, x
    return x


def test_exchanges_that_are_refused() -> None:
    with pytest.raises(UserError, match="exchange-condition"):
        loopfuse.kernel(under_condition)(X, X)
    with pytest.raises(UserError, match="exchange-mismatch"):
        loopfuse.kernel(of_other_shapes)(X, X)


# ------------------------------------------------------------------------------------ numbers


def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


def several(x):
    y = np.empty_like(x)
    s = 0.0
    n = 0
    for i in range(len(x)):
        y[i] = x[i] + x[i]
        s += x[i]
        if x[i] > 2:
            n += 1
    return s / len(x), y, n, len(x), x[0], n > 2, True, 2.5, x[1] > x[0]


def greatest(x):
    best = x[0]
    place = 0
    for i in range(1, len(x)):
        if x[i] > best:
            best = x[i]
            place = i
    return best, place


def alone(x):
    return (x[len(x) - 1],)


def of_numbers(x, a: float, n: int):
    return (
        a, n, a * n, n // 2, n / 2, math.sqrt(x[1]), np.float32(x[1]), abs(x[2]), int(x[2]),
        float(x[3]), not n, x.shape[0], x[0] if n > 3 else x[1],
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "f2"])
def test_numbers_have_cpythons_values_and_types(dtype: str) -> None:
    x = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype)
    for function in (several, greatest, alone) if dtype == "f2" else (total, several, greatest, alone):
        if dtype != "f2" or function is not several:
            same(function, x)
    same(of_numbers, x, 2.5, 7)


def test_a_number_and_the_arrays_of_a_time_loop() -> None:
    def kernel(x, steps):
        a = np.copy(x)
        b = np.empty_like(x)
        for t in range(steps):
            for i in range(len(x)):
                b[i] = 2.0 * a[i]
            a, b = b, a
        s = 0.0
        for i in range(len(x)):
            s += a[i]
        return s, a, steps

    for steps in (2, 3):
        same(kernel, X, steps)


def test_every_way_of_calling() -> None:
    kernel = loopfuse.kernel(several, target="cpu")
    result = kernel(X)
    assert kernel.verify() and kernel.verify().with_cpython
    assert result[0] == 3.5 and type(result[2]) is int
    loopfuse.testing.assert_equivalent(kernel, target="cpu", args=(X,))
    assert kernel(x=X)[3] == 8
    specialised = kernel.specialise(X)
    assert specialised.reference(x=X)[0][0] == 3.5
    assert "s_returned" in loopfuse.kernel(total, target="cpu").specialise(X).signature.parameters[1].name


def test_verify_sees_a_number_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    specialised = loopfuse.kernel(total, target="cpu").specialise(X)
    monkeypatch.setattr(cpython, "_with_zeros", lambda function: itself_plus_one)
    found = specialised.verify()
    assert not found and "s_returned" in str(found) and "CPython" in str(found)


def itself_plus_one(x):
    return x[0] + 1000.0 if len(x) else 1000.0


def test_numbers_from_torch() -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.kernel(several)
    mean, twice_, count, *_ = kernel(torch.arange(8.0))
    assert type(mean) is np.float32 and mean == 3.5 and count == 5
    assert isinstance(twice_, torch.Tensor)
    half = loopfuse.kernel(alone)(torch.arange(8.0).to(torch.bfloat16))
    assert half[0] == 7.0 and half[0].dtype == "bfloat16"


def test_torch_operators() -> None:
    torch = pytest.importorskip("torch")
    operator = loopfuse.kernel(jacobi, target="cpu").as_torch_op(
        "pyreturn::jacobi", x=torch.zeros(8, dtype=torch.float64), steps=3
    )
    for steps in (2, 3):
        found = operator(torch.from_numpy(X), steps)
        np.testing.assert_allclose(found.numpy(), jacobi(X, steps))
    with pytest.raises(UserError, match="torch-op-result"):
        loopfuse.kernel(several).as_torch_op("pyreturn::several", torch.zeros(8))


def test_what_is_not_returned() -> None:
    def loose(x):
        t = 0.1
        for i in range(len(x)):
            if x[i] > 2.0:
                t = x[i]
        return t

    with pytest.raises(UserError, match="weak-mix"):
        loopfuse.kernel(loose)(X.astype("f4"))


# ----------------------------------------------------------------------- fixes that are applied


def applied(function: Callable[..., Any], tmp_path: Any, *arguments: Any) -> Any:
    """What the function gives with its `return` replaced by the lines that the message proposes."""
    with pytest.raises(UserError) as caught:
        loopfuse.kernel(function)(*arguments)
    fix = caught.value.diagnostics[0].fix
    head = f"def k({', '.join(inspect.signature(function).parameters)}):"
    lines, depth = [head], 1
    for line in re.findall(r"`([^`]*)`", fix):
        depth = 1 if line.startswith("return") else depth
        lines.append("    " * depth + line)
        depth += line.endswith(":")
    path = tmp_path / "applied.py"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    scope: dict[str, Any] = {"np": np}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loopfuse.kernel(scope["k"], target="cpu")(*arguments)


def scaled(a, b, s):
    return s * a + b


def in_rows(a, b):
    return np.sqrt(a) * b / 3, a


def compared(a, b):
    return a > b + 1


def halved(a, b):
    return (a + b) / 2


def test_a_result_on_whole_arrays_proposes_its_loop(tmp_path: Any) -> None:
    a, b = X.astype("f4"), X[::-1].astype("f4")
    np.testing.assert_allclose(applied(scaled, tmp_path, a, b, 2.0), scaled(a, b, 2.0))
    first, second = applied(in_rows, tmp_path, a.reshape(2, 4), b.reshape(2, 4))
    np.testing.assert_allclose(first, in_rows(a, b)[0].reshape(2, 4), rtol=1e-6)
    np.testing.assert_array_equal(second, a.reshape(2, 4))
    np.testing.assert_array_equal(applied(compared, tmp_path, a, b), compared(a, b))
    whole = X.astype("i4")
    got = applied(halved, tmp_path, whole, whole + 1)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, halved(whole, whole + 1))


def test_a_local_on_whole_arrays_proposes_its_loop() -> None:
    def kernel(x):
        y = x * 2
        return y

    with pytest.raises(UserError, match=r"`y = np.empty_like\(x\)`, `for i in range\(len\(x\)\):`"):
        loopfuse.kernel(kernel)(X)


def test_copies_and_ndarray() -> None:
    def copied(x):
        t = np.array(x)
        t[0] = 5.0
        return t

    same(copied, X)

    def made(x):
        t = np.ndarray((3, 3), np.float32)
        t[0, 0] = x[0]
        return t

    with pytest.raises(UserError, match=r"write `np.empty\(\(3, 3\), np.float32\)`"):
        loopfuse.kernel(made)(X)

    def annotated(x: np.ndarray):
        return x[0]

    same(annotated, X)


# --------------------------------------------------------------------------------------- bools


def either_of(v):
    return v or False


def given_bool(x, flag):
    return bool(x[0]), flag, not flag


def default_bool(x, flag=False):
    return flag, flag == True, flag & True, flag | (len(x) > 2), flag ^ flag  # noqa: E712


def annotated_bool(x, flag: bool, n: int):
    return flag, flag and n > 2, flag * n, int(flag), either_of(flag), flag if n > 1 else False


def bools_of_numpy(x, flag: bool):
    return flag & (x[0] > 0), x[0] > 0, np.bool_(flag), either_of(x[0] > 0), (x[0] > 0) == (x[1] > 0)


def gathered_bool(x, flag: bool):
    every = True
    for i in range(len(x)):
        every = every and bool(x[i] > 0)
    return every, every and flag


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.filterwarnings("ignore:.*never-used")
def test_bools(flag: bool) -> None:
    same(given_bool, X, flag)
    same(given_bool, X, np.bool_(flag))
    same(default_bool, X)
    same(default_bool, X, flag)
    same(annotated_bool, X, flag, 3)
    same(bools_of_numpy, X + 1, flag)
    same(gathered_bool, X, flag)
