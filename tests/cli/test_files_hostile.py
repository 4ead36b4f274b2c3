"""Commands execute nothing of their input and write only where they are told; inputs that are no
programs or no arrays are refused, whatever they are instead."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.base import files
from loopfuse.cli import _run
from loopfuse.kernels import sources

# What Pillow says of damaged files.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

ROOT = Path(__file__).resolve().parents[2]
AUDIT = Path(__file__).with_name("file_audit.py")
EXAMPLES = sorted((ROOT / "examples").glob("*.lf"))
SAXPY = """\
kernel saxpy(x: f32[N], inout y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i] + y[i]
"""
PYTHON = """\
import os
open("PWNED", "w").write("import")
os.system("touch PWNED")
import loopfuse

@loopfuse.kernel
def k(x, y, default=open("PWNED", "w")):
    for i in range(x.shape[0]):
        y[i] = x[i]
k([1], [2])
"""
HOSTILE = {
    "python.py": PYTHON,
    "python.lf": PYTHON,
    "python.mlir": PYTHON,
    "format.lf": SAXPY.replace("saxpy", "{0.__class__.__mro__}"),
    "dunder.lf": SAXPY.replace("a * x[i]", "__import__('os').system('touch PWNED')"),
    "dunder2.lf": SAXPY.replace("f32[N]", "f32[__import__('os').system('touch PWNED')]"),
    "comment.lf": "# coding: rot13\n# -*- import os -*-\n" + SAXPY,
    "quote.lf": SAXPY.replace("a * x[i]", '"""; touch PWNED; $(touch PWNED)"""'),
    "const.lf": "const K = exec\n" + SAXPY,
    "pickle.lf": "cos\nsystem\n(S'touch PWNED'\ntR.",
    "pyc.lf": "\x6f\x0d\x0d\x0a\0\0\0\0",
    "module.mlir": 'module { llvm.inline_asm "call system" : () -> () }',
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "saxpy.lf").write_text(SAXPY)
    return tmp_path


@pytest.fixture
def loopfuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = _run(list(arguments))
        return code, capsys.readouterr().err

    return call


# ---------------------------------------------------------------------- nothing is executed


def audited(commands: list[list[str]], tmp_path: Path) -> list[dict[str, Any]]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(AUDIT)], input=json.dumps(commands), env=environment,
        capture_output=True, text=True, timeout=290, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_behaviour(commands: list[list[str]], tmp_path: Path) -> list[dict[str, Any]]:
    inputs = {path.name for path in tmp_path.iterdir() if path.is_file()}
    allowed = [str(tmp_path / "out"), str(tmp_path / "cache"), str(tmp_path / "tmp"), os.devnull]
    found = audited(commands, tmp_path)
    for command, did in zip(commands, found):
        assert did["code"] in (0, 1, 2), (command, did["err"])
        for path in did["written"]:
            assert any(path == one or path.startswith(one + "/") for one in allowed), (command, path)
        if command[0] not in ("compile", "run", "verify"):
            assert not any(p.startswith(str(tmp_path / "out")) for p in did["written"]), command
        for process in did["processes"]:  # ldconfig and its like: ctypes.util.find_library
            assert Path(process).name in ("ptxas", "ldconfig", "gcc", "cc", "ld"), (command, process)
        assert did["network"] == [], command
        for name in did["executed"]:
            assert Path(name).name not in inputs, (command, name)
        for name in did["imported"]:
            assert f"{name}.py" not in inputs or name == "loopfuse", (command, name)
    assert not (tmp_path / "PWNED").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == inputs
    return found


def test_hostile_programs_are_not_executed(tmp_path: Path) -> None:
    for name, text in HOSTILE.items():
        Path(name).write_text(text, encoding="latin-1")
    commands = [
        [*command, name]
        for name in HOSTILE
        for command in (
            ["compile", "--target", "cpu", "-o", "out"], ["compile", "--target", "sm_80", "-o", "out"],
            ["explain", "--target", "cpu"], ["deps"], ["check"], ["fmt", "--stdout"],
            ["verify", "--target", "cpu"],
        )
    ]  # fmt: skip
    found = check_behaviour(commands, tmp_path)
    for command, did in zip(commands, found):
        if command[-1] != "comment.lf" and command[0] != "fmt":  # which only parses
            assert did["code"] == 1 and "Traceback" not in did["err"], (command, did["err"])


def test_commands_write_only_where_they_are_told(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "unsharp.lf", tmp_path)
    commands = [
        ["compile", "unsharp.lf", "--target", "sm_90", "--emit", "ptx,cubin,llvm,mlir,report", "-o", "out"],
        ["compile", "unsharp.lf", "--target", "cpu", "--emit", "object,c", "-o", "out/deep"],
        ["explain", "unsharp.lf"], ["deps", "unsharp.lf"], ["check", "unsharp.lf"],
        ["fmt", "--check", "saxpy.lf"],
        ["run", "saxpy.lf", "x=random:9", "y=random:9", "a=1", "--target", "cpu", "--save", "y=out/y.npy"],
    ]  # fmt: skip
    found = check_behaviour(commands, tmp_path)
    assert [did["code"] for did in found] == [0] * len(commands), [did["err"] for did in found]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_every_example_writes_only_where_it_is_told(part: int, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    for path in EXAMPLES[part::6]:
        shutil.copy(path, tmp_path)
        name = path.name
        commands += [
            ["compile", name, "--target", "cpu", "-o", "out"],
            ["compile", name, "--target", "sm_90", "--emit", "ptx,mlir,llvm", "-o", "out"],
            ["explain", name], ["deps", name], ["check", name], ["fmt", "--check", name],
        ]  # fmt: skip
    check_behaviour(commands, tmp_path)


# ----------------------------------------------------------------------------- odd names


ODD = (
    "a b.lf", "é ü 漢字.lf", "-x.lf", "quote'\".lf", "new\nline.lf", "back\\slash.lf", "$(touch X).lf",
    ".lf", "..lf", "1.lf", "*/comment.lf".replace("/", "_"), "%s%n{0}.lf", "noend", "dots.in.name.lf",
    "a" * 240 + ".lf",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("target", ["cpu", "sm_80"])
def test_odd_names_stay_under_the_folder(name: str, target: str, folder: Path, loopfuse: Any) -> None:
    Path(name).write_text(SAXPY)
    code = "ptx" if target == "sm_80" else "object"
    done, err = loopfuse("compile", "--target", target, "--emit", f"{code},c,mlir", "-o", "out", "--", name)
    assert done in (0, 1) and "Traceback" not in err, err
    if done == 1:
        if set(name) & set("\"\\\n"):
            assert "bad-emit" in err, err
        else:
            assert "cannot-write" in err and "name too long" in err, err
        assert not Path("out").exists()
    outside = {p.name for p in folder.iterdir()} - {"cache", "out"}
    assert outside == {name, "saxpy.lf"} and Path(name).read_text() == SAXPY
    if done == 0:
        assert all(p.is_file() for p in Path("out").iterdir()) and len(list(Path("out").iterdir())) == 7


def test_names_that_are_no_text_print() -> None:
    Path("\udcff.lf").write_text(SAXPY)
    script = "from loopfuse.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "compile", "--target", "cpu", "-o", "out", "\udcff.lf"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"\\udcff.o" in done.stdout


@pytest.mark.parametrize("name", ["../x", "../../x", "a/b", "..", "x" * 300])
def test_kernels_named_like_paths(name: str, loopfuse: Any, folder: Path) -> None:
    text = SAXPY.replace("saxpy", name) + "\n" + SAXPY
    Path("two.lf").write_text(text)
    code, err = loopfuse("compile", "two.lf", "--target", "cpu", "-o", "out/deep")
    assert code == 1 and "Traceback" not in err
    assert {p.name for p in folder.iterdir()} <= {"two.lf", "saxpy.lf", "cache"}


def test_the_program_is_never_overwritten(loopfuse: Any) -> None:
    for name in ("k.json", "k.o", "k.ll", "k.h"):
        Path(name).write_text(SAXPY)
        os.symlink(name, "link.lf")
        emit = ("--emit", "object,c,llvm")
        for given in (name, f"../{Path.cwd().name}/{name}"):
            code, err = loopfuse("compile", given, "--target", "cpu", *emit)
            assert code == 1 and "it is the program being compiled" in err, err
        assert Path(name).read_text() == SAXPY
        code, err = loopfuse("compile", name, "--target", "cpu", *emit, "-o", "out")
        assert code == 0, err
        os.unlink("link.lf")
        os.unlink(name)


def test_places_that_cannot_be_written(loopfuse: Any, folder: Path) -> None:
    Path("file").write_text("kept")
    os.symlink("/nowhere/at/all", "dangling")
    os.symlink("loop", "loop")
    os.makedirs("taken/saxpy.o")
    before = {str(p) for p in folder.rglob("*") if "cache" not in p.parts}
    for place in ("file", "file/below", "dangling", "loop", "taken", "/proc/x", "x" * 300, "a\0b"):
        code, err = loopfuse("compile", "saxpy.lf", "--target", "cpu", "-o", place)
        assert code == 1 and err.count("error[") == 1 and "Traceback" not in err, (place, err)
    after = {str(p) for p in folder.rglob("*") if not str(p).startswith(str(folder / "cache"))}
    assert after == before and Path("file").read_text() == "kept"


def test_links_are_replaced_not_followed(loopfuse: Any) -> None:
    Path("victim").write_text("kept")
    os.makedirs("out")
    os.symlink("../victim", "out/saxpy.json")
    assert loopfuse("compile", "saxpy.lf", "--target", "cpu", "-o", "out")[0] == 0
    assert Path("victim").read_text() == "kept" and not Path("out/saxpy.json").is_symlink()


def test_formatting_keeps_links_and_permissions(loopfuse: Any) -> None:
    Path("real.lf").write_text(SAXPY.replace("a * x", "a  *  x"))
    os.chmod("real.lf", 0o600)
    os.symlink("real.lf", "link.lf")
    assert loopfuse("fmt", "link.lf")[0] == 0
    assert Path("link.lf").is_symlink() and Path("real.lf").read_text() == SAXPY
    assert os.stat("real.lf").st_mode & 0o777 == 0o600


# ---------------------------------------------------------------------- programs that are none


def test_what_is_no_file_of_text(loopfuse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("pipe.lf")
    os.mkdir("folder.lf")
    os.symlink("self.lf", "self.lf")
    with open("huge.lf", "wb") as file:
        file.truncate(1 << 40)  # a terabyte, of which nothing is stored
    Path("binary.lf").write_bytes(bytes(range(256)))
    Path("empty.lf").write_bytes(b"")
    Path("zeros.lf").write_bytes(bytes(1000))
    expected = {
        "pipe.lf": "nobody writes", "folder.lf": "Is a directory", "self.lf": "symbolic links",
        "/dev/zero": "file-too-large", "huge.lf": "file-too-large", "binary.lf": "not-utf8",
        "empty.lf": "error[", "zeros.lf": "error[", "/dev/null": "error[",
        "": "cannot-read",
    }  # fmt: skip
    for name, words in expected.items():
        for command in ("check", "compile", "explain", "deps"):
            code, err = loopfuse(command, name)
            assert code == 1 and words in err and "Traceback" not in err, (name, command, err)
    assert sources.LARGEST_SOURCE <= 16 << 20


def test_a_pipe_is_read_but_not_waited_for(loopfuse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = SAXPY.encode()
    reading, writing = os.pipe()
    os.write(writing, program)
    os.close(writing)
    assert loopfuse("check", f"/dev/fd/{reading}")[0] == 0
    os.close(reading)
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    reading, writing = os.pipe()
    os.write(writing, program)  # and never closed
    code, err = loopfuse("check", f"/dev/fd/{reading}")
    assert code == 1 and "nothing arrives from it" in err
    os.close(reading)
    os.close(writing)


# ------------------------------------------------------------------------- arrays that are none


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(name: str, data: bytes, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        archive.writestr(name, data)
    return out.getvalue()


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


class Bomb:
    """Unpickling it makes a file."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("PWNED",))


def refused(loopfuse: Any, value: str) -> None:
    code, err = loopfuse("run", "pic.lf", f"x={value}", "--target", "cpu", "--save", "y=y.npy")
    assert code == 1 and err.count("error[") == 1 and "Traceback" not in err, (value, err)
    assert not Path("PWNED").exists() and not Path("y.npy").exists()


@pytest.fixture
def picture() -> None:
    Path("pic.lf").write_text(
        "kernel pic(x: f32[H, W], out y: f32[H, W]):\n"
        "    for i in 0..H, j in 0..W:\n        y[i, j] = x[i, j]\n"
    )


def test_arrays_that_are_broken(picture: None, loopfuse: Any) -> None:
    claim = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
    pickled = np.array([[Bomb()]], dtype=object)
    np.save("pickled.npy", pickled, allow_pickle=True)
    np.savez("pickled.npz", x=pickled)
    out = io.BytesIO()
    np.savez(out, x=np.ones((4, 4), np.float32))
    whole = out.getvalue()
    broken: dict[str, bytes] = {
        "empty.npy": b"", "magic.npy": b"\x93NUMPY", "version.npy": b"\x93NUMPY\x09\x00",
        "large.npy": npy(claim % "1 << 40, 1"), "large2.npy": npy(claim % f"{1 << 40}, 4"),
        "negative.npy": npy(claim % "-4, 4", bytes(64)), "overflow.npy": npy(claim % f"{1 << 62}, {1 << 62}"),
        "code.npy": npy("{'descr': __import__('os').mkdir('PWNED'), }"),
        "deep.npy": npy("(" * 5000), "short.npy": npy(claim % "4, 4", bytes(60)),
        "object.npy": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }", b"cos\nmkdir\n(S'PWNED'\ntR."),
        "text.npy": npy("{'descr': '<U9', 'fortran_order': False, 'shape': (1, 1), }", bytes(36)),
        "record.npy": npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1), }", bytes(4)),
        "empty.npz": b"", "nothing.npz": zipped("y.npy", b""), "hollow.npz": zipped("x.npy", b""),
        "claims.npz": zipped("x.npy", npy(claim % f"{1 << 40}, 1", bytes(64))),
        "raw.npz": zipped("x", b"rubbish"), "lzma.npz": zipped("x.npy", npy(claim % "2, 2"), zipfile.ZIP_LZMA),
        "bomb.png": png(60000, 60000), "wide.png": png((1 << 31) - 1, 1), "none.png": png(0, 0),
        "short.png": png(400, 400), "rubbish.png": b"\x89PNG\r\n\x1a\nrubbish",
        "script.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(PWNED) (w) file\nshowpage\n",
        "name.jpg": b"\xff\xd8\xff\xe0", "tiff.tif": b"II*\0\xff\xff\xff\xff", "bmp.bmp": b"BM" + bytes(60),
    }  # fmt: skip
    for name, data in broken.items():
        Path(name).write_bytes(data)
    for cut in range(0, len(whole) - 1, 23):
        broken[f"cut{cut}.npz"] = whole[:cut]
        Path(f"cut{cut}.npz").write_bytes(whole[:cut])
    for name in [*broken, "pickled.npy", "pickled.npz"]:
        refused(loopfuse, f"{name}:x" if name.endswith(".npz") else name)


@pytest.mark.slow
def test_a_packed_bomb_is_refused(picture: None, loopfuse: Any) -> None:
    """More than a gigabyte of zeros in a megabyte: refused before they are unpacked."""
    head = npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({20 << 7}, {1 << 17}), }}")
    with (
        zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(head)
        for _ in range(20):
            member.write(bytes(1 << 26))
    refused(loopfuse, "bomb.npz:x")


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 9))])
def test_flipped_bits_in_archives_and_images(seed: int, picture: None, loopfuse: Any) -> None:
    """A damaged file may still read (a flipped value); it never ends in a traceback."""
    image = pytest.importorskip("PIL.Image")
    picks = np.random.default_rng(seed)
    np.savez_compressed("x.npz", x=picks.random((9, 9)).astype(np.float32))
    np.save("x.npy", picks.random((9, 9)).astype(np.float32))
    grey = (picks.random((9, 9)) * 255).astype(np.uint8)
    names = ["x.npz", "x.npy", "x.png", "x.jpg", "x.tif", "x.bmp"]
    for name in names[2:]:
        image.fromarray(grey).save(name)
    for name in names:
        whole = Path(name).read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            for at in picks.integers(0, len(data), 3):
                data[at] ^= 1 << int(picks.integers(8))
            Path(name).write_bytes(data[: len(data) - int(picks.integers(0, 2) * picks.integers(0, 60))])
            value = f"{name}:x" if name == "x.npz" else name
            code, err = loopfuse("run", "pic.lf", f"x={value}", "--target", "cpu")
            assert code in (0, 1) and "Traceback" not in err, (name, bytes(data), err)


def test_what_is_no_regular_file_is_no_array(picture: None, loopfuse: Any) -> None:
    for suffix in (".npy", ".npz", ".png"):
        os.mkfifo(f"pipe{suffix}")
        os.mkdir(f"folder{suffix}")
        os.symlink("/dev/zero", f"zero{suffix}")
        for stem in ("pipe", "folder", "zero", "none", "nul\0"):
            refused(loopfuse, f"{stem}{suffix}" + (":x" if suffix == ".npz" else ""))


def test_saving_is_refused_before_the_run(
    picture: None, loopfuse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("loopfuse.commands.run.run_kernel", never)
    os.mkdir("folder.npy")
    for path in ("y.doc", "y", "pic.lf", "no/such/y.npy", "folder.npy", "y.npy/"):
        code, err = loopfuse("run", "pic.lf", "x=random:3,4", "--target", "cpu", "--save", f"y={path}")
        assert code == 1 and ("bad-value" in err or "cannot-write" in err), (path, err)
    code, err = loopfuse(
        "run", "pic.lf", "x=random:3,4", "--save", "y=a.npy", "--save", "x=./a.npy"
    )
    assert code == 2 and "two `--save`" in err
    code, err = loopfuse("run", "saxpy.lf", "x=random:3", "y=random:3", "a=1", "--save", "y=y.png")
    assert code == 1 and "no picture" in err


def test_saving_onto_an_input(loopfuse: Any) -> None:
    x = np.arange(5, dtype=np.float32)
    np.save("y.npy", x)
    code, err = loopfuse(
        "run", "saxpy.lf", "x=y.npy", "y=y.npy", "a=2", "--target", "cpu", "--save", "y=y.npy"
    )
    assert code == 0, err
    np.testing.assert_array_equal(np.load("y.npy"), 3 * x)
