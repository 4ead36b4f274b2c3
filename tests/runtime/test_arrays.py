"""Binding a call: what is accepted, what it means, and one clear error for everything else."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from manifests import array, manifest, scalar

import loopfuse
from loopfuse.base.diagnostics import LimitError, Source, UserError
from loopfuse.runtime.arrays.arrays import bind
from loopfuse.runtime.arrays.views import view


def f32(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


@pytest.fixture
def unsharp() -> Any:
    return manifest(
        "unsharp",
        [
            array("img", "f32", "in", "H", "W"),
            array("sharp", "f32", "out", "H", "W"),
            scalar("amount", "f32"),
        ],
        ["H", "W"],
        preconditions=[
            {"text": "H >= 3", "message": "`img[y + 2, x]` reads past the last row of `img`",
             "line": 2, "column": 5},
        ],
    )  # fmt: skip


def refuse(manifest: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        bind(manifest, args, kwargs)
    return caught.value.diagnostics[0].code, str(caught.value)


def test_omitted_outputs_are_allocated_wherever_they_stand(unsharp: Any) -> None:
    binding = bind(unsharp, (f32(4, 5), 1.5), {})
    assert binding.result.shape == (4, 5) and binding.result.dtype == np.float32
    assert binding.values == {"amount": 1.5, "H": 4, "W": 5}
    assert bind(unsharp, (f32(4, 5),), {"amount": 1}).result.shape == (4, 5)
    assert bind(unsharp, (f32(4, 5), None, 1.5), {}).result.shape == (4, 5)


def test_given_outputs_are_used_and_nothing_is_returned(unsharp: Any) -> None:
    out = f32(4, 5)
    for binding in (
        bind(unsharp, (f32(4, 5), out, 1.5), {}),
        bind(unsharp, (f32(4, 5), 1.5), {"sharp": out}),
    ):
        assert binding.result is None
        assert binding.views["sharp"].pointer == out.ctypes.data


def test_several_outputs_come_as_a_tuple() -> None:
    both = manifest(
        "both", [array("a", "f64", "out", "N"), array("b", "i32", "out", "2 * N - 1")], ["N"]
    )
    a, b = bind(both, (), {"N": 4}).result
    assert a.shape == (4,) and b.shape == (7,) and b.dtype == np.int32
    given = np.zeros(4)
    assert bind(both, (given,), {}).result.shape == (7,)


@pytest.mark.parametrize(
    ("args", "kwargs", "code", "text"),
    [
        ((np.zeros((4, 5)), 1.5), {}, "wrong-dtype", r"`unsharp` expects `img` as f32[H, W], but got f64[4, 5]"),
        ((f32(4, 5).astype(">f4"), 1.5), {}, "wrong-dtype", "other byte order"),
        ((f32(4, 5).astype(np.complex64), 1.5), {}, "wrong-dtype", "complex64"),
        ((f32(20), 1.5), {}, "wrong-rank", "of rank 2, but got rank 1: shape [20]"),
        ((f32(4, 5), f32(4, 6), 1.5), {}, "size-mismatch", "extent 1 must be W = 5, but it is 6"),
        ((f32(4, 5), 1.5), {"H": 7}, "size-mismatch", "extent 0 must be H = 7, but it is 4"),
        (([[1.0]], 1.5), {}, "not-an-array", "but got [[1.0]] (list)"),
        ((f32(4, 5),), {}, "missing-argument", "needs `amount: f32`"),
        ((), {}, "missing-argument", "needs `img: f32[H, W]`"),
        ((f32(4, 5), 1.5), {"amuont": 1}, "unknown-argument", "no parameter or size `amuont`"),
        ((f32(4, 5), f32(4, 5), 1.5, 3), {}, "too-many-arguments", "takes 3 arguments, but got 4"),
        ((f32(4, 5), f32(4, 5), 1.5), {"img": f32(4, 5)}, "doubled-argument", "both by position"),
        ((f32(4, 5), "loud"), {}, "scalar-type", "expects `amount` as f32, but got 'loud' (str)"),
        ((f32(4, 5), None, True), {}, "scalar-type", "got True (bool)"),
        ((f32(4, 5), None, 1j), {}, "scalar-type", "complex"),
        ((f32(4, 5), None, 10**400), {}, "scalar-range", "past its range"),
        ((f32(2, 5), 1.5), {}, "subscript-range", "reads past the last row"),
    ],
)  # fmt: skip
def test_refusals(unsharp: Any, args: Any, kwargs: Any, code: str, text: str) -> None:
    found, message = refuse(unsharp, *args, **kwargs)
    assert found == code
    assert text in message


def test_a_failed_precondition_points_into_the_source(unsharp: Any) -> None:
    source = Source("blur.lf", "for y in 0..H:\n    x = img[y + 2, x]\n")
    with pytest.raises(UserError) as caught:
        bind(unsharp, (f32(2, 5), 1.5), {}, source)
    text = str(caught.value)
    assert "--> blur.lf:2:5" in text
    assert "needs `H >= 3`, and was called with H=2" in text


def test_an_overlap_names_both_arguments(unsharp: Any) -> None:
    room = f32(9, 5)
    code, text = refuse(unsharp, room[:5], room[4:], 1.0)
    assert code == "overlap" and "`img` and `sharp` share memory" in text
    bind(unsharp, (room[:4], room[4:8], 1.0), {})  # side by side is fine


def test_reading_one_array_twice_is_fine() -> None:
    add = manifest(
        "add",
        [array("a", "f32", "in", "N"), array("b", "f32", "in", "N"), array("c", "f32", "out", "N")],
        ["N"],
    )
    x = f32(4)
    assert bind(add, (x, x), {}).result.shape == (4,)
    assert refuse(add, x, f32(4), x)[0] == "overlap"


def test_a_read_only_output(unsharp: Any) -> None:
    out = f32(4, 5)
    out.flags.writeable = False
    assert refuse(unsharp, f32(4, 5), out, 1.0)[0] == "read-only"
    bind(unsharp, (out, 1.0), {})  # reading it is fine


def test_sizes_by_name_and_extents_that_are_formulas() -> None:
    odd = manifest("odd", [array("x", "f64", "in", "2 * N + 1", "M // 2")], ["N", "M"])
    x = np.zeros((7, 3))
    assert bind(odd, (x,), {"N": 3, "M": 7}).values == {"N": 3, "M": 7}
    assert refuse(odd, x, N=3)[0] == "missing-size"
    code, text = refuse(odd, x, N=4, M=6)
    assert code == "size-mismatch" and "2 * N + 1 = 9" in text
    assert refuse(odd, x, N=-1, M=6)[0] == "size-mismatch"
    assert refuse(odd, x, N=3.5, M=6)[0] == "scalar-type"


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("f32", 0.1, float(np.float32(0.1))),
        ("f32", np.float64(0.1), float(np.float32(0.1))),
        ("f32", 1e300, math.inf),
        ("f64", 3, 3.0),
        ("f64", np.array(2.5), 2.5),
        ("i32", np.int64(-5), -5),
        ("i64", 2**62, 2**62),
        ("bool", np.True_, True),
        ("i32", 2**31, "scalar-range"),
        ("i32", 1.0, "scalar-type"),
        ("i32", True, "scalar-type"),
        ("bool", 1, "scalar-type"),
        ("u8", -1, "scalar-range"),
        ("f64", np.zeros(1), "scalar-type"),
    ],
)
def test_scalars(dtype: str, value: Any, expected: Any) -> None:
    one = manifest("one", [scalar("s", dtype)], [])
    if isinstance(expected, str):
        assert refuse(one, s=value)[0] == expected
    else:
        got = bind(one, (), {"s": value}).values["s"]
        assert got == expected and type(got) is type(expected)


def test_zero_dimensional_arrays_bind() -> None:
    cell = manifest("cell", [array("c", "f64", "inout")], [])
    total = np.zeros(())
    assert bind(cell, (total,), {}).views["c"].shape == ()


class Foreign:
    """An array of no known library, seen through one protocol."""

    def __init__(self, array: Any, protocol: str, **changes: Any) -> None:
        self.held = array
        interface = dict(array.__array_interface__) | changes
        if protocol == "cuda":
            self.__cuda_array_interface__ = interface | {"version": 3, "stream": 7}
        elif protocol == "array":
            self.__array_interface__ = interface


def test_protocols() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    seen = view(Foreign(x, "array"))
    assert seen is not None and seen.pointer == x.ctypes.data and seen.shape == (2, 3)
    on_gpu = view(Foreign(x, "cuda"))
    assert on_gpu is not None and str(on_gpu.device) == "cuda:0" and on_gpu.stream == 7
    assert on_gpu.contiguous and on_gpu.dtype is seen.dtype
    strided = view(Foreign(x, "cuda", strides=(4, 8)))
    assert strided is not None and not strided.contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool", "float16"])
def test_dlpack(dtype: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)

    class Only:
        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__(**options)

    seen = view(Only())
    assert seen is not None
    assert (seen.pointer, seen.shape, seen.dtype_name) == (x.ctypes.data, (3, 4), dtype)
    assert seen.contiguous and not seen.read_only and str(seen.device) == "cpu"
    x = x.T
    strided = view(Only())
    assert strided is not None and not strided.contiguous


def test_what_is_no_array() -> None:
    for thing in (3, "text", None, [1], np.float32(1), SimpleNamespace(shape=(3,))):
        assert view(thing) is None


def test_mixed_devices(unsharp: Any) -> None:
    code, text = refuse(unsharp, f32(4, 5), Foreign(f32(4, 5), "cuda"), 1.0)
    assert code == "mixed-devices"
    assert "`img` on cpu and `sharp` on cuda:0" in text


def test_a_foreign_library_cannot_allocate(unsharp: Any) -> None:
    assert refuse(unsharp, Foreign(f32(4, 5), "cuda"), 1.0)[0] == "cannot-allocate"


def test_a_size_that_no_memory_holds() -> None:
    wide = manifest("wide", [array("x", "i8", "in", "N", "M")], ["N", "M"])
    x = np.zeros((0, 5), np.int8)
    assert bind(wide, (x,), {}).values == {"N": 0, "M": 5}
    with pytest.raises(LimitError, match="the size `M` of `wide` is 281474976710656") as caught:
        bind(wide, (np.zeros((0, 1 << 48), np.int8),), {})
    assert caught.value.diagnostics[0].code == "size-too-large"


def test_a_rectangle_for_a_square_says_how_to_declare_it() -> None:
    text = "kernel k(a: f64[N, N], out b: f64[N, N]):\n    for i in 0..N, j in 0..N:\n        b[i, j] = a[i, j]\n"
    x = np.ones((3, 4))
    with pytest.raises(UserError) as caught:
        loopfuse.loads(text)(x)
    (said,) = caught.value.diagnostics
    assert "extent 1 must be N = 3, but it is 4 in shape [3, 4]" in said.message
    declared = re.findall(r"`(a: f64\[N, M\])`", said.fix)
    assert declared == ["a: f64[N, M]"]
    # What it says works.
    kernel = loopfuse.loads(text.replace("a: f64[N, N]", declared[0]))
    np.testing.assert_array_equal(kernel(x), x[:, :3])
    # An extent that another array gives has another.
    other = loopfuse.loads(text.replace("a: f64[N, N]", "a: f64[N]").replace("a[i, j]", "a[i]"))
    with pytest.raises(UserError) as caught:
        other(np.ones(3), np.ones((4, 3)))
    assert caught.value.diagnostics[0].fix == "pass an array of shape `(3, 3)`"
