"""What LLVM calls things on each kind of device: one record a target, which the walk writes by."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.machine import ACCESS, LINE


@dataclass(frozen=True, slots=True)
class Device:
    """`triple` and `layout` head the module; the rest is how kernels are written."""

    triple: str = ""
    layout: str = ""
    convention: str = ""
    """Of kernels: the word before their type."""
    block_id: str = ""
    thread_id: str = ""
    barrier: str = ""
    """The intrinsic by which all threads of a block meet."""
    barrier_operands: tuple[tuple[str, str], ...] = ()
    """Their types and values."""
    scope: str = "device"
    """LLVM's word for all threads of the device, where atomics are ordered."""
    block_scope: str = "block"
    """Its word for the threads of a block."""
    stack: int = 0
    """The address space that `alloca` is in."""
    align: int = ACCESS
    """Where buffers on the stack begin that are as long."""
    words: tuple[str, ...] = ()
    """What LLVM is told of every function that is no kernel."""
    is_nvidia: bool = False
    """Takes PTX: predicated stores, prefetches and what warps do together are written in it."""

    def attributes(self, threads: int, most_registers: int | None, blocks: int) -> str:
        """What stands after the head of a kernel of so many threads a block, and blocks a cluster."""
        if not self.is_nvidia:
            return f' nounwind "amdgpu-flat-work-group-size"="{threads},{threads}"'
        limit = "" if most_registers is None else f' "nvvm.maxnreg"="{most_registers}"'
        cluster = f' "nvvm.cluster_dim"="{blocks},1,1"' if blocks > 1 else ""
        return f' nounwind "nvvm.reqntid"="{threads},1,1"{limit}{cluster}'


HOST = Device(align=LINE, words=('"no-builtin-memcpy"', '"no-builtin-memmove"'))
"""Of the CPU's functions, which are no kernels; the triple is the machine's own. Copies of rows stay loops: glibc's
`memcpy` copies by `rep movsb`, a tenth as fast on an AMD Zen where the destination is a few bytes further in its
page than the source, as NumPy's arrays (16) are beside our temporaries (0)."""

NVIDIA = Device(
    triple="nvptx64-nvidia-cuda",
    layout="e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64",
    convention="ptx_kernel",
    block_id="llvm.nvvm.read.ptx.sreg.ctaid.x",
    thread_id="llvm.nvvm.read.ptx.sreg.tid.x",
    barrier="llvm.nvvm.barrier.cta.sync.aligned.all",
    barrier_operands=(("i32", "0"),),
    is_nvidia=True,
)

AMD = Device(
    triple="amdgcn-amd-amdhsa",
    layout=(
        "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-"
        "p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-"
        "v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
    ),
    convention="amdgpu_kernel",
    block_id="llvm.amdgcn.workgroup.id.x",
    thread_id="llvm.amdgcn.workitem.id.x",
    barrier="llvm.amdgcn.s.barrier",
    scope="agent",
    block_scope="workgroup",
    stack=5,
)
