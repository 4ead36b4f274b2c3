"""Values as typed on the command line: numbers, files, photographs, random data; and saving.

Images, and only images, convert: to a float type as value / maximum in 0..1, colour to grey where
a matrix is wanted. Arrays from `.npy` and `.npz` are passed as they are, and checked like any.
"""

from __future__ import annotations

import errno
import io
import math
import os
import stat
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import UserError
from loopfuse.base.dtypes import DType
from loopfuse.base.examples import find_example
from loopfuse.base.files import write_together
from loopfuse.runtime.arrays.arguments import Parameter, refuse
from loopfuse.runtime.binding import numpy_dtype

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
# ITU-R BT.709 luma, the weights scikit-image uses.
_GREY = np.array([0.2125, 0.7154, 0.0721])
# A packed array may unpack to this many bytes, or to so many times its packed size.
MOST_UNPACKED, MOST_RATIO = 1 << 30, 100
_WORDS = {"true": True, "false": False, "True": True, "False": False}


def read_value(text: str, parameter: Parameter, seed: int = 0) -> Any:
    """What `NAME=text` means for `parameter`: a NumPy array, or a Python number for a scalar.

    UserError[bad-value], [cannot-read], [missing-package], [unknown-example] or [unknown-sample].
    """
    if not parameter.is_array:
        return read_number(text, parameter.name)
    head, colon, rest = text.partition(":")
    if colon and head in ("random", "zeros"):
        shape = _shape(rest, text)
        if head == "zeros":
            return np.zeros(shape, numpy_dtype(parameter.dtype))
        return random_array(shape, parameter.dtype, parameter.name, seed)
    if colon and head == "sample":
        return _from_image(_sample(rest), parameter)
    if (example := find_example(text, programs=False)) is not None:
        text = str(example)
    path, _, key = text.partition(".npz:")
    if key:
        return _read_npz(path + ".npz", key)
    suffix = Path(text).suffix.lower()
    if suffix == ".npy":
        return _load_numpy(text)
    if suffix == ".npz":
        raise refuse("bad-value", f"`{text}` holds several arrays", f"name one: `{text}:KEY`")
    if suffix in IMAGE_SUFFIXES:
        return _from_image(_read_image(text), parameter)
    if not parameter.extents:
        number = read_number(text, parameter.name)
        return np.asarray(number, numpy_dtype(parameter.dtype))
    raise refuse(
        "bad-value",
        f"`{parameter.name}={text}` is no value for {parameter}",
        "give a .npy, a .npz:KEY, an image, sample:camera, example:chart, random:SHAPE or "
        "zeros:SHAPE",
    )


def read_number(text: str, name: str) -> bool | int | float:
    """A number or `true`/`false`; UserError[bad-value] for anything else."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise refuse("bad-value", f"`{name}={text}` is not a number") from None


def _shape(text: str, whole: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.replace("x", ",").split(",")]
    if not all(part.isdecimal() for part in parts):
        raise refuse("bad-value", f"`{whole}` has no shape", "write it as `random:480,640`")
    return tuple(int(part) for part in parts)


def random_array(shape: tuple[int, ...], dtype: DType, name: str, seed: int) -> Any:
    """Random data, the same for a seed and a parameter's name whatever else is asked for: floats
    in 0..1, integers from 0 (signed: -8) to 8, bools."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    try:
        if dtype.is_float:
            kind = np.float32 if dtype is not DType.F64 else np.float64
            return generator.random(shape, kind).astype(numpy_dtype(dtype), copy=False)
        if dtype is DType.BOOL:
            return generator.random(shape) < 0.5
        return generator.integers(-8 if dtype.is_signed else 0, 9, shape).astype(dtype.numpy_name)
    except (MemoryError, ValueError) as error:
        raise refuse("out-of-memory", f"cannot allocate `{name}` of shape {shape}") from error


# --------------------------------------------------------------------------------------- files


def _check_regular(path: str) -> None:
    """A pipe or a device may never end; UserError[cannot-read] for whatever is no regular file."""
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise refuse("cannot-read", f"cannot read `{path}`: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the name
        raise refuse("cannot-read", f"cannot read `{path!r}`: {error}") from error
    if not is_regular:
        raise refuse("cannot-read", f"cannot read `{path}`: it is not a regular file")


def _load_numpy(path: str) -> Any:
    _check_regular(path)
    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise refuse("cannot-read", f"cannot read `{path}`: {error.strerror or error}") from error
    except MemoryError as error:
        raise refuse("out-of-memory", f"`{path}` does not fit in memory") from error
    except Exception as error:  # numpy and zipfile raise a dozen kinds for broken files
        raise refuse("cannot-read", f"`{path}` is not a NumPy file: {error}") from error


def _check_member(archive: Any, path: str, key: str) -> None:
    """A few kilobytes of an archive may claim terabytes; UserError[cannot-read]."""
    found = next(one for one in archive.zip.infolist() if one.filename in (key, f"{key}.npy"))
    if found.file_size > max(MOST_UNPACKED, found.compress_size * MOST_RATIO):
        raise refuse(
            "cannot-read",
            f"`{path}:{key}` claims {found.file_size} bytes packed into {found.compress_size}",
            "unpack it yourself, if you trust it",
        )
    with archive.zip.open(found) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if math.prod(shape) * dtype.itemsize > found.file_size:
        raise refuse("cannot-read", f"`{path}:{key}` is cut off: its shape is {shape}")


def _read_npz(path: str, key: str) -> Any:
    archive = _load_numpy(path)
    if not hasattr(archive, "files"):
        raise refuse("cannot-read", f"`{path}` is not a .npz archive")
    with archive:
        if key not in archive.files:
            raise refuse(
                "bad-value", f"`{path}` holds no `{key}`", f"it holds {', '.join(archive.files)}"
            )
        try:
            _check_member(archive, path, key)
            return archive[key]
        except UserError:
            raise
        except MemoryError as error:
            raise refuse("out-of-memory", f"`{path}:{key}` does not fit in memory") from error
        except Exception as error:  # as above
            raise refuse("cannot-read", f"`{path}:{key}` does not read: {error}") from error


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise refuse(
            "missing-package", "images need Pillow", "pip install 'loopfuse[examples]'"
        ) from None
    return Image


def _read_image(path: str) -> Any:
    image = _pillow()
    _check_regular(path)
    try:
        # Only these: Pillow would start Ghostscript for a PostScript file, whatever its name.
        with image.open(path, formats=("PNG", "JPEG", "TIFF", "BMP")) as opened:
            if opened.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV", "PA", "La"):
                opened = opened.convert("RGB")
            return np.asarray(opened)
    except MemoryError as error:
        raise refuse("out-of-memory", f"`{path}` does not fit in memory") from error
    except Exception as error:  # Pillow raises many kinds for broken files, bombs among them
        text = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise refuse("cannot-read", f"cannot read `{path}`: {text}") from error


def _sample(name: str) -> Any:
    """A photograph (or other picture) of scikit-image's, those that lie in its wheel."""
    try:
        from skimage import data
    except ImportError:
        raise refuse(
            "missing-package",
            "sample pictures need scikit-image",
            "pip install 'loopfuse[examples]'",
        ) from None
    known = ("camera", "astronaut", "coffee", "cat", "coins", "moon", "page", "rocket", "text")
    if name not in known:
        raise refuse(
            "unknown-sample", f"there is no sample `{name}`", f"there are {', '.join(known)}"
        )
    try:
        return np.asarray(getattr(data, name)())
    except Exception as error:  # not in the wheel: skimage tries to download, in many ways
        raise refuse("unknown-sample", f"the sample `{name}` is not here: {error}") from error


def _from_image(picture: Any, parameter: Parameter) -> Any:
    """A picture as the array that `parameter` asks for.

    before: u8[H, W, 3], for f32[H, W]
    after: f32[H, W], luma / 255
    """
    assert parameter.extents is not None
    rank = len(parameter.extents)
    # Pillow reads 16-bit grey as u16 or i32; floats and bools are in 0..1 already.
    maximum = {"u1": 255, "u2": 65535, "i4": 65535}.get(picture.dtype.str[1:], 1)
    if picture.ndim == 3 and picture.shape[2] in (2, 4):  # transparency says nothing here
        picture = picture[:, :, :-1]
    if picture.ndim == 3 and rank == 2:
        exact = picture.astype(np.float64)
        picture_grey = exact @ _GREY if picture.shape[2] == 3 else exact[:, :, 0]
        if not parameter.dtype.is_float:
            picture_grey = np.rint(picture_grey)
        picture = picture_grey
    if parameter.dtype.is_float:
        picture = picture.astype(np.float64) / maximum
    return np.ascontiguousarray(picture.astype(numpy_dtype(parameter.dtype)))


# -------------------------------------------------------------------------------------- saving


def check_saving(path: str, name: str, rank: int) -> None:
    """Refuse, before anything runs, a place where array `name` of this rank cannot be saved.

    UserError[bad-value] or [cannot-write].
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".npy", ".npz", *IMAGE_SUFFIXES):
        raise refuse(
            "bad-value", f"cannot save `{name}` as `{path}`", "end the name in .npy, .npz or .png"
        )
    if suffix in IMAGE_SUFFIXES:
        _pillow()
        if rank not in (2, 3):
            raise refuse(
                "bad-value", f"`{name}` of {rank} dimensions is no picture", "save it as .npy"
            )
    if os.path.isdir(path):
        raise refuse("cannot-write", f"cannot write `{path}`: {os.strerror(errno.EISDIR)}")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise refuse("cannot-write", f"cannot write `{path}`: its folder does not exist")


def save_array(path: str, name: str, array: Any) -> None:
    """Write `array` to `path` as `encode_array` has it, whole or not at all."""
    check_saving(path, name, array.ndim)
    data = encode_array(path, name, array)
    try:
        write_together({Path(path): data})
    except OSError as error:
        raise refuse(
            "cannot-write", f"cannot write `{path}`: {error.strerror or error}"
        ) from error


def encode_array(path: str, name: str, array: Any) -> bytes:
    """`array` as `path`'s suffix says: `.npy`, `.npz` (under its name) or an image. Float images
    are clipped to 0..1 and written as u8."""
    suffix = Path(path).suffix.lower()
    out = io.BytesIO()
    if suffix == ".npy":
        np.save(out, _plain(array))
    elif suffix == ".npz":
        np.savez(out, **{name: _plain(array)})
    else:
        picture = _to_image(name, array)
        formats = {".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF"}
        _pillow().fromarray(picture).save(out, formats.get(suffix, suffix[1:].upper()))
    return out.getvalue()


def _plain(array: Any) -> Any:
    """bf16 is no NumPy type that a file can name: it is saved as the f32 of the same value."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _to_image(name: str, array: Any) -> Any:
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or 0 in array.shape:
        raise refuse(
            "bad-value", f"`{name}` of shape {list(array.shape)} is no picture", "save it as .npy"
        )
    if array.dtype in (np.uint8, np.bool_):
        return array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        return np.clip(array, 0, 255).astype(np.uint8)
    exact = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(exact, 0.0, 1.0) * 255).astype(np.uint8)


def describe_array(array: Any) -> str:
    """`f32[512, 512]  min 0.01  mean 0.46  max 1`: what `run` says of a result."""
    kind = {"float": "f", "int": "i", "uint": "u"}
    stem = array.dtype.name.rstrip("0123456789")
    name = array.dtype.name.replace(stem, kind.get(stem, stem), 1)
    shown = f"{name}[{', '.join(map(str, array.shape))}]"
    if array.dtype == np.bool_:
        return f"{shown}  true {int(array.sum())} of {array.size}"
    if array.size == 0:
        return shown
    exact = array.astype(np.float64)
    finite = exact[np.isfinite(exact)]
    text = shown
    if finite.size:
        text += f"  min {finite.min():.6g}  mean {finite.mean():.6g}  max {finite.max():.6g}"
    odd = array.size - finite.size
    return f"{text}  ({odd} not finite)" if odd else text

