"""PTX says which line of the source each instruction comes from, and is else what it was."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.machines import without_proofs

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source, Span
from loopfuse.base.options import Options, Tuning, parse_target
from loopfuse.cli import _run
from loopfuse.codegen.llvm.debug_info import file_name, locations
from loopfuse.codegen.targets.assemble import assemble, find_ptxas

ROOT = Path(__file__).resolve().parent.parent.parent
TARGETS = ("sm_80", "sm_90")
EXAMPLES = ("unsharp", "l2norm", "softmax", "jacobi", "matmul_bias_relu")


def ptx_of(name: str, target: str, source_name: str = "") -> str:
    """The PTX of an example whose file is called `source_name`."""
    text = (ROOT / "examples" / f"{name}.lf").read_text()
    source = Source(source_name or f"examples/{name}.lf", text)
    # Blocks of two time steps: eight are the same text four times over.
    options = Options(target=parse_target(target), tuning=Tuning(steps=2))
    with without_proofs():
        return pipeline.compile_kernel(pipeline.read_program(source), name, options).ptx


def instructions(ptx: str) -> list[str]:
    """The PTX without directives and labels that only speak of lines."""
    without = re.sub(r"(?m)^(\s*\.(loc|file)\b.*|\$L__(tmp|func_\w+?)\d+:)$", "", ptx)
    return [line for line in re.sub(r"\s*//.*", "", without).splitlines() if line.strip()]


def lines_in(ptx: str) -> set[int]:
    """The source lines that PTX speaks of; 0 is none."""
    return {int(line) for line in re.findall(r"\.loc\s+1 (\d+) \d+", ptx)} - {0}


def test_every_statement_has_its_line() -> None:
    text = (ROOT / "examples" / "unsharp.lf").read_text().splitlines()
    expected = {n for n, line in enumerate(text, 1) if re.match(r"\s+\w+\[.*\] = ", line)}
    assert len(expected) == 3
    assert lines_in(ptx_of("unsharp", "sm_90")) == expected


def test_a_loads_line_is_its_statements() -> None:
    text = "kernel k(x: f32[N], y: f64[N], out a: f32[N], out b: f64[N]):\n    for i in 0..N:\n        a[i] = 2.0*x[i]\n        b[i] = exp(y[i])\n"
    program = pipeline.read_program(Source("k.lf", text))
    ptx = pipeline.compile_kernel(program, "k", Options(target=parse_target("sm_80"))).ptx
    seen: dict[str, set[int]] = {}
    line = 0
    for row in ptx.splitlines():
        if found := re.match(r"\s*\.loc\s+1 (\d+) ", row):
            line = int(found[1])
        elif found := re.match(r"\s*(st\.global\S*|ex2\S*|fma\.rn\.f64)", row):
            seen.setdefault(found[1], set()).add(line)
    assert {lines for name, each in seen.items() for lines in each if "64" in name} == {4}
    assert {lines for name, each in seen.items() for lines in each if "st" in name and "64" not in name} == {3}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("target", TARGETS)
def test_the_instructions_are_the_same_without(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptx = ptx_of(name, target)
    assert ".loc" in ptx and "debug" not in ptx
    monkeypatch.setattr(pipeline, "locations", lambda *_: {})
    bare = ptx_of(name, target)
    assert ".loc" not in bare
    assert instructions(ptx) == instructions(bare)


def test_no_path_gets_into_the_output() -> None:
    here = ptx_of("unsharp", "sm_90", "unsharp.lf")
    assert re.findall(r'\.file\s+1 "(.*)"', here) == ["unsharp.lf"]
    for name in ("examples/unsharp.lf", "/elsewhere/unsharp.lf", "../unsharp.lf"):
        assert ptx_of("unsharp", "sm_90", name) == here


def test_compile_writes_the_same_files_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[dict[str, bytes]] = []
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    for folder in ("first", "second"):
        place = tmp_path / folder
        place.mkdir()
        file = place / "unsharp.lf"
        file.write_bytes((ROOT / "examples" / "unsharp.lf").read_bytes())
        emit = "ptx,llvm,mlir,c" + (",cubin" if find_ptxas() else "")
        for target in ("sm_90", "cpu"):
            kinds = emit if target == "sm_90" else "object,llvm,mlir,c"
            out = place / target
            assert _run(["compile", str(file), "--target", target, "--emit", kinds, "-o", str(out)]) == 0
        written.append({str(p.relative_to(place)): p.read_bytes() for p in place.glob("*/*")})
    assert written[0] == written[1]
    for name, data in written[0].items():
        assert str(tmp_path).encode() not in data, name


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_keeps_the_lines(target: str) -> None:
    made = assemble(ptx_of("softmax", target), parse_target(target))
    assert made is not None
    assert b".debug_line" in made[0] and b"softmax.lf" in made[0]


def test_file_names_are_ascii_without_quotes() -> None:
    assert file_name("a/b/c.lf") == "c.lf"
    assert file_name('gr\N{LATIN SMALL LETTER O WITH DIAERESIS}sse "1".lf') == "gr?sse ?1?.lf"
    assert file_name("<string>") == "<string>"
    assert set(locations("k.lf", {"S1": Span(3, 5, 3, 9), "S2": Span(0, 0, 0, 0)})) == {"S1"}
    assert '.file\t1 "gr?sse ?1?.lf"' in ptx_of("saxpy", "sm_80", 'gr\xf6sse "1".lf')
