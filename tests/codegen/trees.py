"""Hand-made trees, and what it takes to run them: shared by the tests of this folder."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import pairwise
from typing import Any

import llvmlite.binding as binding
import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Target
from loopfuse.codegen.lower.lower import Lowered, lower
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.lang import nodes as n
from loopfuse.tree import looptree as t

CPU = Target("cpu")
V2, V3 = Target("cpu", "x86-64-v2"), Target("cpu", "x86-64-v3")
SM80, SM90 = Target("sm_80"), Target("sm_90")
F32, F64, I32, I64, BOOL = DType.F32, DType.F64, DType.I32, DType.I64, DType.BOOL
M = t.Mapping


def c(value: Any, dtype: DType = I64) -> n.Const:
    return n.Const(value, dtype)


def it(name: str) -> n.Iter:
    return n.Iter(name)


def size(name: str) -> n.Symbol:
    return n.Symbol(name, I64)


def op(name: str, left: Any, right: Any) -> n.Binary:
    if isinstance(left, int):
        left = c(left)
    if isinstance(right, int):
        right = c(right)
    if isinstance(right, float):
        right = c(right, left.dtype)
    return n.Binary(name, left, right, left.dtype)


def add(left: Any, right: Any) -> n.Binary:
    return op("add", left, right)


def mul(left: Any, right: Any) -> n.Binary:
    return op("mul", left, right)


def lt(left: Any, right: Any) -> n.Compare:
    return n.Compare("lt", left, c(right) if isinstance(right, int) else right)


def both(left: n.Expr, right: n.Expr) -> n.Binary:
    return n.Binary("and", left, right, BOOL)


def load(array: str, *index: Any, dtype: DType = F32) -> n.Load:
    return n.Load(array, tuple(c(i) if isinstance(i, int) else i for i in index), dtype)


def call(name: str, value: n.Expr) -> n.Call:
    return n.Call(name, (value,), value.dtype)


def loop(var: str, lower: Any, upper: Any, mapping: t.Mapping, *body: t.TreeNode, step: int = 1) -> t.Loop:
    low = c(lower) if isinstance(lower, int) else lower
    high = c(upper) if isinstance(upper, int) else upper
    return t.Loop(var, low, high, step, mapping, body)


def compute(target: n.Load, value: n.Expr, predicate: n.Expr | None = None) -> t.Compute:
    return t.Compute("S1", (), target, value, predicate)


def param(name: str, *extents: Any, dtype: DType = F32, mode: str = "in") -> n.ArrayParam:
    return n.ArrayParam(name, dtype, tuple(c(e) if isinstance(e, int) else e for e in extents), mode)


def argument(parameter: n.ArrayParam) -> t.Buffer:
    return t.Buffer(
        parameter.name, parameter.name, parameter.dtype, parameter.extents, t.Global(), argument=True
    )


def buffer(name: str, home: t.Home, *extents: Any, dtype: DType = F32, zeroed: bool = False) -> t.Buffer:
    shape = tuple(c(e) if isinstance(e, int) else e for e in extents)
    return t.Buffer(name, "", dtype, shape, home, zeroed=zeroed)


def kernel(*params: n.ArrayParam | n.ScalarParam, sizes: tuple[str, ...] = ("N",)) -> n.Kernel:
    return n.Kernel("k", params, sizes, ())


def tree(k: n.Kernel, *body: t.HostNode, device: str = "cpu", buffers: tuple[t.Buffer, ...] = ()) -> t.LoopTree:
    return t.LoopTree("k", device, (*(argument(p) for p in k.arrays), *buffers), body)


def launch(*body: t.TreeNode, name: str = "k_0") -> t.Launch:
    return t.Launch(name, "generic", ("L1",), body)


# -------------------------------------------------------------------------------- checking


def check_mlir(text: str) -> None:
    """mlir-opt-22 accepts the text."""
    tool = shutil.which("mlir-opt-22")
    if tool is None:
        import pytest

        pytest.skip("no mlir-opt-22")
    done = subprocess.run([tool, "--verify-each"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + "\n" + text


def check_ptx(ptx: str, target: Target) -> dict[str, int]:
    """ptxas accepts the text and spills nothing; registers per entry."""
    done = assemble(ptx, target)
    if done is None:
        import pytest

        pytest.skip("no ptxas")
    cubin, registers, spills = done
    assert cubin[:4] == b"\x7fELF" and not any(spills.values()), spills
    return registers


def gpu(tr: t.LoopTree, k: n.Kernel, bits: int = 64) -> Lowered:
    """Lowers for both GPUs and checks every text on the way; the sm_90 result."""
    for target in (SM80, SM90):
        out = lower(tr, k, target, bits)
        check_ptx(out.ptx, target)
    check_mlir(out.mlir)
    assert ".local" not in out.ptx, out.ptx
    return out


# --------------------------------------------------------------------------------- running

_CTYPES = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "bool": ctypes.c_int8,
}


def run_cpu(
    tr: t.LoopTree, k: n.Kernel, values: dict[str, Any], target: Target = CPU, bits: int = 64,
    chunks: int = 3,
) -> Lowered:
    """Compiles `tr`, loads the object and runs its steps on `values` in place, each launch cut in
    `chunks` ranges of iterations. Unlisted workspaces are allocated zeroed."""
    out = lower(tr, k, target, bits)
    check_mlir(out.mlir)
    binding.initialize_native_target()
    engine = binding.create_mcjit_compiler(
        binding.parse_assembly(""), binding.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(binding.ObjectFileRef.from_data(out.object))
    engine.finalize_object()
    names: dict[str, Any] = dict(values)
    formulas = {"min": min, "max": max}
    for each in out.manifest["buffers"]:
        shape = [eval(e, formulas, names) for e in each["extents"]]
        names[each["name"]] = np.zeros(shape, DType(each["dtype"]).numpy_name)

    def steps(items: list[dict[str, Any]]) -> None:
        for item in items:
            if "loop" in item:
                each = item["loop"]
                low, high = (eval(each[word], formulas, names) for word in ("lower", "upper"))
                for value in range(low, high, each["step"]):
                    names[each["var"]] = value
                    steps(each["body"])
                continue
            each = item["launch"]
            arguments: list[Any] = []
            for a in each["arguments"]:
                match a["kind"]:
                    case "pointer":
                        arguments.append(names[a["name"]].ctypes.data_as(ctypes.c_void_p))
                    case "aligned":
                        arguments.append(ctypes.c_int8(1))
                    case _:
                        arguments.append(_CTYPES[a["dtype"]](names[a["name"]]))
            kinds = [type(a) for a in arguments] + [ctypes.c_int64] * 2
            function = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(each["name"]))
            total = eval(each["grid"], formulas, names)
            cuts = [total * i // chunks for i in range(chunks + 1)]
            for begin, end in pairwise(cuts):
                function(*arguments, begin, end)

    steps(out.manifest["steps"])
    return out
