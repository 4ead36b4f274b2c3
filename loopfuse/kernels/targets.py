"""What kernels are made for where nobody says: the machine at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopfuse.base.options import Target

if TYPE_CHECKING:
    from loopfuse.runtime.devices.cuda import GpuInfo


def default_target(for_running: bool) -> Target:
    """The local GPU's target; without one `cpu` for running, `sm_80` for compiling."""
    from loopfuse.runtime.devices import cuda

    info = cuda.gpu()
    if info is not None:
        return target_of_gpu(info)
    return Target("cpu") if for_running else Target("sm_80")


def target_of_gpu(gpu: GpuInfo) -> Target:
    """What code for a GPU at hand is made for."""
    return Target(gpu.target, machine=gpu.machine)
