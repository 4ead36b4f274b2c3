"""Hand-made manifests and objects built from a little LLVM IR: the runtime without the compiler."""

from __future__ import annotations

from typing import Any

SCALE_IR = """
define void @scale_0(ptr %x, ptr %y, i64 %n, float %a, i1 zeroext %flag, i64 %begin, i64 %end) {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %body, label %done
body:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %from
  %w = fmul float %v, %a
  %u = select i1 %flag, float %w, float %v
  store float %u, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %body, label %done
done:
  ret void
}
; y[i] += t * work[i]; work[i] += 1
define void @step_0(ptr %y, ptr %work, i64 %t, i64 %begin, i64 %end) {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %body, label %done
body:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %py = getelementptr i64, ptr %y, i64 %i
  %pw = getelementptr i64, ptr %work, i64 %i
  %vy = load i64, ptr %py
  %vw = load i64, ptr %pw
  %product = mul i64 %t, %vw
  %sum = add i64 %vy, %product
  store i64 %sum, ptr %py
  %one = add i64 %vw, 1
  store i64 %one, ptr %pw
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %body, label %done
done:
  ret void
}
"""


def build_object(text: str) -> bytes:
    """A native object of LLVM IR `text`."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic")
    return machine.emit_object(llvm.parse_assembly(text))


def array(name: str, dtype: str, mode: str, *extents: str) -> dict[str, Any]:
    """An array parameter of a manifest."""
    return {"name": name, "kind": "array", "dtype": dtype, "mode": mode, "extents": list(extents)}


def scalar(name: str, dtype: str) -> dict[str, Any]:
    """A scalar parameter of a manifest."""
    return {"name": name, "kind": "scalar", "dtype": dtype}


def manifest(name: str, parameters: list[dict[str, Any]], sizes: list[str], **rest: Any) -> Any:
    """A manifest for the CPU with what is not given left empty."""
    base: dict[str, Any] = {
        "schema": 1, "kernel": name, "target": "cpu", "index_bits": 64, "parameters": parameters,
        "sizes": sizes, "preconditions": [], "buffers": [], "steps": [],
    }  # fmt: skip
    return base | rest


def launch(name: str, grid: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    """A launch step."""
    return {
        "launch": {
            "name": name, "arguments": list(arguments), "grid": grid, "threads": 1,
            "shared_bytes": 0, "cluster": 1,
        }
    }  # fmt: skip


def pointer(name: str) -> dict[str, Any]:
    """A pointer argument."""
    return {"kind": "pointer", "name": name}


def value(name: str, dtype: str) -> dict[str, Any]:
    """A value argument."""
    return {"kind": "value", "name": name, "dtype": dtype}
