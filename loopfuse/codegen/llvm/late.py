"""Late copies in LLVM IR: NVVM's `cp.async`."""

from __future__ import annotations

from loopfuse.codegen.build import copied_bytes
from loopfuse.codegen.ir import Operation
from loopfuse.codegen.llvm.memory import address_of
from loopfuse.codegen.llvm.writer import Writer

CP_ASYNC = "llvm.nvvm.cp.async"


def copy_late(writer: Writer, operation: Operation) -> None:
    """A copy from global to shared memory that goes on by itself. By way of the first-level cache: what
    leaves it out (`cg`) took a third more of the second's traffic (a wave equation on an H100: 4 %)."""
    source, here, target, there = operation.operands
    first, kind = address_of(writer, source, here)
    second, place = address_of(writer, target, there)
    name = f"{CP_ASYNC}.ca.shared.global.{copied_bytes(operation)}"
    writer.lines.append("  " + writer.intrinsic(name, "void", [(place, second), (kind, first)]))


def end_group(writer: Writer, operation: Operation) -> None:
    """All copies since the last group are one."""
    writer.lines.append("  " + writer.intrinsic(f"{CP_ASYNC}.commit.group", "void", []))


def wait_for_groups(writer: Writer, operation: Operation) -> None:
    """Until all groups but the last few have come."""
    pending = operation.properties["pending"]
    name = f"{CP_ASYNC}.wait.group"
    writer.lines.append("  " + writer.intrinsic(name, "void", [("i32", str(pending))]))
