"""What the MLIR door answers to text it does not read: each code with its message, place and fix;
and damaged, random and very deep text, which gets an answer of ours and no other exception."""

from __future__ import annotations

import random
import re
import time
import warnings
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import LimitError, LoopfuseError, Source, UserError
from tests.machine import is_within

FOLDER = Path(__file__).resolve().parent.parent / "mlir"
HEAD = "func.func @f(%x: memref<?xf32>, %n: index) {\n  "
TAIL = "\n  return\n}\n"
LOOP = "affine.for %i = 0 to %n {\n    %v = affine.load %x[%i] : memref<?xf32>\n    "
END = "\n    affine.store %w, %x[%i] : memref<?xf32>\n  }"

CASES = [
    # code, text, kind, line, column, message, fix
    ("mlir-syntax", "func.func @f( {", UserError, 1, 15, "expected argument or type", ""),
    (
        "mlir-syntax", HEAD + 'affine.for %i = "0 to %n {' + TAIL, UserError, 2, 19,
        "end of file reached before closing string literal", "",
    ),
    (
        "mlir-operation", HEAD + "%t = tensor.empty() : tensor<4xf32>" + TAIL, UserError, 2, 8,
        "loopfuse does not read the operation `tensor.empty`", "mlir-opt --one-shot-bufferize",
    ),
    (
        "mlir-operation", HEAD + 'linalg.fill ins(%n : index)' + TAIL, UserError, 2, 3,
        "loopfuse does not read the operation `linalg.fill`", "--convert-linalg-to-affine-loops",
    ),
    (
        "mlir-operation", HEAD + '%t = "foo.bar"() : () -> f32' + TAIL, UserError, 2, 9,
        "loopfuse does not read the operation `foo.bar`", "it reads func, affine, memref",
    ),
    (
        "mlir-operation", HEAD + "%k = arith.constant 3 : i32\n" + LOOP + "%w = math.fpowi %v, %k : f32, i32" + END + TAIL,
        UserError, 5, 5, "loopfuse does not read the operation `math.fpowi`", "it reads func, affine, memref",
    ),
    (
        "mlir-operation", "%c = arith.constant 1 : index", UserError, 1, 1,
        "`arith.constant` stands outside every function", "",
    ),
    (
        "mlir-invalid", HEAD + "%v = affine.load %x[%n, %n] : memref<?xf32>" + TAIL, UserError, 2, 3,
        "not a valid operation: 2 subscripts for a memref of 1 dimensions", "",
    ),
    (
        "mlir-invalid", HEAD + "memref.store %c, %x[%n] : memref<?xf32>\n  "
        "%c = arith.constant 1.0 : f32" + TAIL, UserError, 2, 3,
        "not a valid operation: it uses a value before it is made", "",
    ),
    (
        "mlir-unread", HEAD + LOOP + "%w = math.round %v : f32" + END + TAIL, UserError, 4, 5,
        "`math.round` rounds halves away from zero; use `math.roundeven`", "",
    ),
    (
        "mlir-unread", "func.func @f(%x: memref<?xi128>) {\n  return\n}", UserError, 1, 1,
        "loopfuse has no type `i128`", "",
    ),
    (
        "mlir-unread", "func.func @f(%x: memref<?xf32, strided<[2]>>) {\n  return\n}", UserError, 1, 1,
        "a memref with a layout is not read", "use the plain memref type",
    ),
    (
        "mlir-step", HEAD + "%c = arith.constant 0 : index\n  scf.for %i = %c to %n step %n {\n"
        "    %v = memref.load %x[%i] : memref<?xf32>\n    memref.store %v, %x[%c] : memref<?xf32>\n  }"
        + TAIL, UserError, 3, 3, "the step of this loop is not a positive constant", "",
    ),
    (
        "mlir-function", "func.func @f(%b: i1) {\n  cf.cond_br %b, ^a, ^c\n^a:\n  return\n^c:\n"
        "  return\n}", UserError, 1, 1, "`f` has branches between blocks", "structured loops",
    ),
    (
        "mlir-function", "func.func @g(%x: f32) {\n  return\n}\nfunc.func @f(%x: f32) {\n"
        "  func.call @g(%x) : (f32) -> ()\n  return\n}", UserError, 1, 1,
        "`g` is called, but gives no one value", "",
    ),
    (
        "mlir-function", "func.func @g(%x: f32) -> f32 {\n  %t = memref.alloc() : memref<4xf32>\n"
        "  affine.store %x, %t[0] : memref<4xf32>\n  return %x : f32\n}\nfunc.func @f(%x: f32) {\n"
        "  %c = func.call @g(%x) : (f32) -> f32\n  return\n}", UserError, 1, 1,
        "`g` is called, and has loops or stores", "mlir-opt --inline",
    ),
    (
        "mlir-result", "func.func @f(%x: f32) -> f32 {\n  return %x : f32\n}", UserError, 2, 3,
        "a result is neither an argument nor a memref allocated here", "memref<1xf32>",
    ),
    (
        "mlir-attribute", 'func.func @f(%x: memref<?xf32> {loopfuse.extents = ["1 +"]}) {\n  return\n}',
        UserError, 1, 1, "`loopfuse.extents` holds strings", "",
    ),
    (
        "mlir-limit", "func.func @f(%x: memref<4xf32>) {\n  %c = arith.constant 0.0 : f32\n"
        '  %r = affine.parallel (%i) = (0) to (4) reduce ("minnumf") -> (f32) {\n'
        "    affine.yield %c : f32\n  }\n  affine.store %r, %x[0] : memref<4xf32>\n  return\n}",
        LimitError, 3, 3, "the reduction `minnumf` of `affine.parallel` is not read", "",
    ),
    (
        "mlir-limit", "func.func @f(%x: memref<4xf32>) {\n"
        "  %r = affine.for %i = 0 to 4 iter_args(%m = %x) -> (memref<4xf32>) {\n"
        "    affine.yield %m : memref<4xf32>\n  }\n  return\n}",
        LimitError, 2, 3, "a loop that carries a memref is not read", "use the memref itself",
    ),
    (
        "rank-too-large", f"func.func @f(%x: memref<{'1x' * 800}f32>) {{\n  return\n}}",
        LimitError, 1, 1, "`x` has 800 dimensions, and an array has at most 64", "leave out",
    ),
    (
        "nesting-too-deep", "module {" * 10_000 + "}" * 10_000, LimitError, 1, 1601,
        "operations nest more than 200 deep", "",
    ),
]  # fmt: skip


def read(text: str) -> object:
    """The checked program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.read_program(Source("x.mlir", text, "mlir"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[5][:20]}")
def test_diagnostic(case: tuple[str, str, type[LoopfuseError], int, int, str, str]) -> None:
    code, text, kind, line, column, message, fix = case
    with pytest.raises(kind) as caught:
        read(text)
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert message in first.message
    assert (first.span.line, first.span.column) == (line, column)
    assert fix in first.fix


DEEP = {
    "loops": "func.func @f(%n: index) {\n"
    + "".join(f"affine.for %i{k} = 0 to %n {{\n" for k in range(10_000)),
    "types": "func.func @f(%x: " + "memref<" * 10_000,
    "maps": "#a = affine_map<(d0) -> (" + "(" * 20_000 + "d0",
    "signs": "#a = affine_map<(d0) -> (" + "-" * 20_000 + "d0)>",
    "attributes": "#a = " + "[" * 20_000,
    "dense": "func.func @f() {\n  %v = arith.constant dense<" + "[" * 20_000,
    "digits": "func.func @f() {\n  affine.for %i = 0 to " + "9" * 5_000 + " {\n  }\n  return\n}",
    "extent": "func.func @f(%x: memref<99999999999999999999999xf32>) {\n  return\n}",
    "name": "func.func @" + "f" * 100_000 + "(%x: ",
    "string": '"' + "a" * 100_000,
    "nothing": "",
    "zero": "\x00",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_and_large_text_gets_an_answer(name: str) -> None:
    with pytest.raises((UserError, LimitError)):
        read(DEEP[name])


def test_long_chains_of_values_are_read() -> None:
    """5,000 operations, each of which doubles the one before: as one expression it would be 2**5000
    parts."""
    lines = ["func.func @f(%x: memref<1xi32>) {", "  %a = affine.load %x[0] : memref<1xi32>"]
    before = "%a"
    for k in range(5_000):
        lines.append(f"  %a{k} = arith.addi {before}, {before} : i32")
        before = f"%a{k}"
    lines += [f"  affine.store {before}, %x[0] : memref<1xi32>", "  return", "}"]
    start = time.process_time()
    read("\n".join(lines))
    assert is_within(time.process_time() - start, 10.0)


TOKEN = re.compile(r"[%@#!^]?[\w.]+|->|[^\s\w]")
ODD = '\x00\n"%<>(){}[]\\\x7fé😀/,:#=-'


def damaged(text: str, chance: random.Random) -> str:
    """A prefix, or a token or line deleted, doubled, swapped or replaced, or an odd letter."""
    tokens = [(found.start(), found.end()) for found in TOKEN.finditer(text)]
    (a, b), (c, d) = sorted((chance.choice(tokens), chance.choice(tokens)))
    match chance.randrange(8):
        case 0:
            return text[: chance.randrange(len(text))]
        case 1:
            return text[:a] + text[b:]
        case 2:
            return f"{text[:b]} {text[a:]}"
        case 3:
            return text[:a] + text[c:d] + text[max(b, a) : c] + text[a:b] + text[d:]
        case 4:
            return text[:a] + text[c:d] + text[b:]
        case 5:
            return text[:c] + text[a:b] + text[d:]
        case 6:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            return "\n".join(lines if chance.random() < 0.5 else lines[:one] + lines[one + 1 :])
        case _:
            place = chance.randrange(len(text))
            letter = chance.choice(ODD) if chance.random() < 0.7 else chr(chance.randrange(128))
            return text[:place] + letter + text[place + 1 :]


def answers(seed: int, count: int) -> dict[str, int]:
    """How often each code was given for `count` damaged texts."""
    chance = random.Random(seed)
    files = [path.read_text() for path in sorted(FOLDER.glob("*.mlir"))]
    found: dict[str, int] = {}
    for number in range(count):
        text = damaged(chance.choice(files), chance)
        if number % 20 == 0:
            text = "".join(chr(chance.randrange(256)) for _ in range(200))
        start = time.process_time()
        try:
            read(text)
            codes = ["read"]
        except (UserError, LimitError) as error:
            assert str(error)
            codes = [error.diagnostics[0].code]
        assert is_within(time.process_time() - start, 5.0), f"too long to read:\n{text}"
        for code in codes:
            found[code] = found.get(code, 0) + 1
    return found


def test_damaged_text_gets_an_answer() -> None:
    found = answers(1, 500)
    assert {"read", "mlir-syntax", "mlir-operation", "mlir-invalid"} <= set(found), found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_much_damaged_text_gets_an_answer(seed: int) -> None:
    answers(seed, 4_000)
