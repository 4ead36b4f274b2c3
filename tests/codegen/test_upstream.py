"""Upstream lowers what we print, and its code has our bits; every printed module verifies.

The CPU module that loopfuse compiles, our math functions inside it, goes through `mlir-opt`,
`mlir-translate` and llvmlite instead of our own walk to LLVM (`codegen.llvm.walk`); all else of a
call (host loops, workspace, threads, preconditions) is the ordinary path. `tests/upstream.py` says
how. In CI missing tools are an error, elsewhere a reason to skip.
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm_host
import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import engines  # noqa: E402
import references  # noqa: E402
import upstream  # noqa: E402
from case_files import (  # noqa: E402
    Case,
    assert_same,
    copy_arguments,
    make_arguments,
    read_cases,
    read_examples,
    read_suites,
)
from fuzz.choices import RandomChoices  # noqa: E402
from fuzz.generate import generate  # noqa: E402
from fuzz.machines import without_proofs  # noqa: E402

from loopfuse import pipeline  # noqa: E402
from loopfuse.base.diagnostics import LoopfuseError, Source  # noqa: E402
from loopfuse.base.dtypes import DType  # noqa: E402
from loopfuse.base.options import CPU, Options, Target, Tuning  # noqa: E402
from loopfuse.codegen.lower.lower import emit_llvm  # noqa: E402
from loopfuse.codegen.mlir.print import print_module  # noqa: E402
from loopfuse.kernels import kernel as kernels  # noqa: E402
from loopfuse.lang import nodes  # noqa: E402

pytestmark = pytest.mark.skipif(
    not upstream.has_upstream() and not upstream.must_have_upstream(),
    reason="mlir-opt-22 and mlir-translate-22 are not on PATH (apt install mlir-22-tools)",
)


@dataclass(frozen=True)
class Module:
    """One kernel planned one way; `text` is the module that is compiled for the CPU."""

    case: Case
    kernel: nodes.Kernel
    fuel: int | None
    text: str
    fused: str
    affine: str


def planned(source: Source, name: str, target: Target, fuel: int | None) -> Any:
    """The artifact with all three MLIR files. On a GPU, with blocks of two time steps: eight are
    the same text four times over."""
    tuning = Tuning(steps=2) if target.is_gpu else Tuning()
    options = Options(target=target, fuel=fuel, reassociate=False, tuning=tuning)
    program = engines.read(source)
    with without_proofs():
        return pipeline.compile_kernel(program, name, options, emit={"mlir", "affine"})


@functools.lru_cache(maxsize=2)
def modules(fuels: tuple[int | None, ...], first: int) -> tuple[Module, ...]:
    """Cases and examples: every sixteenth one from number `first` on, fused; or every one, fused and
    unfused, where both are asked for."""
    found: list[Module] = []
    cases = [case for case in (*read_cases(), *read_examples(), *read_suites()) if case.error is None]
    for case in cases[first::16] if len(fuels) == 1 else cases:
        for kernel in engines.read(case.source).kernels:
            texts: set[str] = set()
            for fuel in fuels:
                made = planned(case.source, kernel.name, CPU, fuel)
                if made.mlir not in texts:
                    texts.add(made.mlir)
                    found.append(
                        Module(case, kernel, fuel, made.mlir, made.fused_mlir, made.affine_mlir)
                    )
    return tuple(found)


def entries_of(text: str) -> list[str]:
    """The names of the functions that are launched."""
    return re.findall(r"func\.func @([\w$.]+)", text)


def our_calls(text: str, code: str) -> str:
    """`code`, upstream's LLVM of `text`, with entries that take pointers as ours do.

    before: define void @k_0(ptr %base, ptr %start, i64 %offset, i64 %size, i64 %stride, ...)
    after:  define void @k_0(ptr %start, ...), which calls that with offset 0 and stride 1
    """
    import llvmlite.binding as llvm

    shapes = {
        found[1]: found[2] for found in re.finditer(r"func\.func @([\w$.]+)\((.*)\)(?: attributes .*)? \{$", text, re.M)
    }
    module = llvm.parse_assembly(code)
    wrappers: list[str] = []
    for name in entries_of(text):
        kinds = [str(each.type) for each in module.get_function(name).arguments]
        arguments: list[str] = []
        passed: list[str] = []
        lines: list[str] = []
        place = 0
        for number, each in enumerate(re.findall(r"%\d+: (memref<[^>]*>|\w+)", shapes[name])):
            if each.startswith("memref"):
                rank = each.count("x") if not each.startswith("memref<x") else 0
                assert rank == 1, each
                arguments.append(f"ptr %a{number}")
                passed += [f"ptr %a{number}", f"ptr %a{number}", "i64 0"]
                passed += ["i64 9223372036854775807", "i64 1"]
                place += 5
            else:
                kind = kinds[place]
                zero = " zeroext" if kind == "i1" else ""
                if kind in ("half", "bfloat"):  # our entries take their bits
                    arguments.append(f"i16 %a{number}")
                    lines.append(f"  %b{number} = bitcast i16 %a{number} to {kind}\n")
                    passed.append(f"{kind} %b{number}")
                else:
                    arguments.append(f"{kind}{zero} %a{number}")
                    passed.append(f"{kind} %a{number}")
                place += 1
        assert place == len(kinds), (name, shapes[name], kinds)
        wrappers.append(
            f"define void @{name}({', '.join(arguments)}) {{\n{''.join(lines)}"
            f"  call void @upstream.{name}({', '.join(passed)})\n  ret void\n}}\n"
        )
        code = re.sub(rf"@{re.escape(name)}\(", f"@upstream.{name}(", code)
    return code + "\n" + "\n".join(wrappers)


def lowered(texts: list[str]) -> dict[str, str]:
    """LLVM IR by module text, made by upstream, to stand in the place of ours."""
    unique = list(dict.fromkeys(texts))
    return {
        text: our_calls(text, code)
        for text, code in zip(unique, upstream.lower_modules(unique), strict=True)
    }


def run_lowered(
    source: Source, kernel: nodes.Kernel, arguments: dict[str, Any], sizes: dict[str, int],
    fuel: int | None, code: dict[str, str], monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:  # fmt: skip
    """One call of the kernel compiled from upstream's LLVM IR."""
    used: list[str] = []

    def of_upstream(module: Any, target: Target) -> str:
        if target.is_gpu:
            return emit_llvm(module, target)
        text = print_module(module)
        used.append(text)
        if text not in code:
            code.update(lowered([text]))
        return code[text]

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "emit_llvm", of_upstream)
        patch.setenv("LOOPFUSE_CACHE", "0")
        call = kernels.load_all(source, fuel=fuel, reassociate=False)[kernel.name]
        held = copy_arguments(arguments)
        call(**held, **engines.sizes_to_pass(kernel, sizes))
    assert used, "nothing was compiled"
    return engines.arrays_of(kernel, held)


HAS_BF16 = bool(llvm_host.get_host_cpu_features().get("avx512bf16"))
"""Elsewhere LLVM passes a bf16 by way of a function of its run-time library, which is not there: a call of address 0."""

FUELS = pytest.mark.parametrize(
    "fuels", [(None,), pytest.param((None, 0), marks=pytest.mark.slow)], ids=["fused", "unfused"]
)


@pytest.mark.filterwarnings("ignore")
@FUELS
def test_every_case_has_our_bits(
    fuels: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interpreter = upstream's lowering of the very module that is compiled, bit for bit."""
    code = lowered([module.text for module in modules(fuels, 0)])
    for module in modules(fuels, 0):
        case, kernel = module.case, module.kernel
        if any(scalar.dtype is DType.BF16 for scalar in kernel.scalars) and not HAS_BF16:
            continue
        for sizes in (case.sizes or ({},))[: 1 if len(fuels) == 1 else None]:
            arguments = make_arguments(kernel, sizes, case.scalars, case.data)
            arguments = references.prepare(kernel.name, arguments)
            expected = engines.interpret(kernel, arguments, sizes)
            got = run_lowered(
                case.source, kernel, arguments, sizes, module.fuel, code, monkeypatch
            )
            who = f"{case.name}/{kernel.name} {sizes}, fuel={module.fuel}, by upstream"
            assert_same(kernel, expected, got, who)


@pytest.mark.filterwarnings("ignore")
@FUELS
def test_every_printed_module_verifies(fuels: tuple[int | None, ...]) -> None:
    """The three files of cases, for the CPU and a GPU: `mlir-opt-22 --verify-each`. (Of every
    example, as users compile them: `tests/tools/check_outputs.py`.)"""
    texts: list[str] = []
    for module in modules(fuels, 1 if len(fuels) == 1 else 0):
        texts += [module.text, module.fused, module.affine]
        made = planned(module.case.source, module.kernel.name, Target("sm_90"), module.fuel)
        texts += [made.mlir, made.fused_mlir]
    texts = list(dict.fromkeys(texts))
    assert len(texts) > (80 if len(fuels) == 1 else 800)
    assert not upstream.verify_all(texts)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_random_programs_have_our_bits(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs, fused, through upstream's lowering."""
    programs: list[tuple[Any, Source, nodes.Kernel, str]] = []
    for number in range(count):
        program = generate(RandomChoices(f"upstream {number}"))
        source = Source("random.lf", program.text)
        try:
            kernel = engines.read(source, program.fp).kernels[0]
            options = Options(target=CPU, reassociate=False)
            made = pipeline.compile_kernel(
                engines.read(source, program.fp), kernel.name, options, emit={"mlir"}
            )
        except LoopfuseError:
            continue
        programs.append((program, source, kernel, made.mlir))
    assert len(programs) > 0.8 * count
    assert not upstream.verify_all([text for *_, text in programs])
    code = lowered([text for *_, text in programs])
    for program, source, kernel, _ in programs:
        if program.fp != "fast" or program.faults:
            continue
        arguments = make_arguments(
            kernel, program.sizes, program.scalars, program.data, program.seed
        )
        expected = engines.interpret(kernel, arguments, program.sizes)
        got = run_lowered(source, kernel, arguments, program.sizes, None, code, monkeypatch)
        assert_same(kernel, expected, got, str(program))
