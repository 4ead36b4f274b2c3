"""Values as typed on the command line, and saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays.arguments import Parameter
from loopfuse.runtime.arrays.samples import describe_array, random_array, read_value, save_array

GREY = Parameter("img", DType.F32, "in", ("H", "W"))
COLOUR = Parameter("rgb", DType.F32, "in", ("H", "W", "3"))
BYTES = Parameter("raw", DType.I32, "in", ("H", "W"))
SCALAR = Parameter("s", DType.F32)


def code_of(text: str, parameter: Parameter) -> str:
    with pytest.raises(UserError) as caught:
        read_value(text, parameter)
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("-0x10", -16), ("1_000", 1000), ("2.5", 2.5), ("1e-3", 1e-3), ("true", True)],
)
def test_numbers(text: str, expected: Any) -> None:
    got = read_value(text, SCALAR)
    assert got == expected and type(got) is type(expected)


def test_what_is_no_value() -> None:
    assert code_of("three", SCALAR) == "bad-value"
    assert code_of("three", GREY) == "bad-value"
    assert code_of("random:", GREY) == "bad-value"
    assert code_of("random:3,-4", GREY) == "bad-value"
    assert code_of("none.npy", GREY) == "cannot-read"
    assert code_of("none.png", GREY) == "cannot-read"
    assert code_of("sample:nobody", GREY) == "unknown-sample"
    assert code_of("random:9999999,9999999", GREY) == "out-of-memory"


def test_numpy_files_are_passed_as_they_are(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", left=x, right=-x)
    np.testing.assert_array_equal(read_value(str(tmp_path / "x.npy"), GREY), x)
    np.testing.assert_array_equal(read_value(f"{tmp_path / 'x.npz'}:right", GREY), -x)
    assert code_of(f"{tmp_path / 'x.npz'}:middle", GREY) == "bad-value"
    assert code_of(str(tmp_path / "x.npz"), GREY) == "bad-value"
    (tmp_path / "bad.npy").write_bytes(b"not numpy")
    assert code_of(str(tmp_path / "bad.npy"), GREY) == "cannot-read"
    (tmp_path / "bad.npz").write_bytes(b"not numpy")
    assert code_of(f"{tmp_path / 'bad.npz'}:x", GREY) == "cannot-read"


def test_pickles_are_not_run(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert code_of(str(tmp_path / "x.npy"), GREY) == "cannot-read"


def test_images_convert() -> None:
    pytest.importorskip("skimage")
    from skimage import data

    camera = read_value("sample:camera", GREY)
    assert camera.dtype == np.float32 and camera.shape == (512, 512)
    np.testing.assert_array_equal(camera, (data.camera() / 255.0).astype(np.float32))
    colour = read_value("sample:astronaut", COLOUR)
    assert colour.shape == (512, 512, 3) and colour.max() <= 1
    grey = read_value("sample:astronaut", GREY)
    np.testing.assert_allclose(grey, colour @ np.array([0.2125, 0.7154, 0.0721]), atol=1e-6)
    raw = read_value("sample:camera", BYTES)
    assert raw.dtype == np.int32 and raw.max() == data.camera().max()


def test_sixteen_bit_and_transparent_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    deep = np.array([[0, 65535], [13107, 26214]], np.uint16)
    image.fromarray(deep).save(tmp_path / "deep.png")
    np.testing.assert_allclose(
        read_value(str(tmp_path / "deep.png"), GREY), [[0, 1], [0.2, 0.4]], atol=1e-6
    )
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[..., 0] = 255
    image.fromarray(clear).save(tmp_path / "clear.png")
    np.testing.assert_allclose(read_value(str(tmp_path / "clear.png"), GREY), 0.2125, atol=1e-6)
    (tmp_path / "fake.png").write_bytes(b"nothing")
    assert code_of(str(tmp_path / "fake.png"), GREY) == "cannot-read"


def test_random_data_depends_on_name_and_seed_only() -> None:
    one = read_value("random:4,5", GREY, 3)
    assert one.dtype == np.float32 and one.shape == (4, 5) and 0 <= one.min() <= one.max() < 1
    np.testing.assert_array_equal(one, random_array((4, 5), DType.F32, "img", 3))
    assert (one != random_array((4, 5), DType.F32, "img", 4)).any()
    assert (one != random_array((4, 5), DType.F32, "other", 3)).any()
    assert random_array((99,), DType.BOOL, "b", 0).dtype == np.bool_
    assert random_array((99,), DType.I32, "b", 0).min() < 0
    assert read_value("zeros:2,3", BYTES).tolist() == [[0] * 3] * 2


def test_saving(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    x = np.array([[-1, 0.5, np.nan], [1, 2, 0.25]], np.float32)
    save_array(str(tmp_path / "x.png"), "x", x)
    assert np.asarray(image.open(tmp_path / "x.png")).tolist() == [[0, 128, 0], [255, 255, 64]]
    save_array(str(tmp_path / "x.npy"), "x", x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    save_array(str(tmp_path / "x.npz"), "x", x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["x"], x)
    for path, array in (("x.doc", x), ("y.png", x[0]), ("no/such/x.npy", x)):
        with pytest.raises(UserError):
            save_array(str(tmp_path / path), "x", array)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "x.npz", "x.png"]


def test_descriptions() -> None:
    x = np.array([1.0, np.nan, 3.0], np.float32)
    assert describe_array(x) == "f32[3]  min 1  mean 2  max 3  (1 not finite)"
    assert describe_array(np.array([True, False])) == "bool[2]  true 1 of 2"
    assert describe_array(np.zeros((0, 2), np.int64)) == "i64[0, 2]"
