"""Launches that clear parts of new outputs as well: woven, assembled and loaded when a call first
needs one, and kept in the disk cache like any machine code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfuse.base import forks
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.options import Target
from loopfuse.base.warn import warn
from loopfuse.runtime import cache
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_clearing import launch_of, name_of, weave


class ClearingVariants:
    """By a launch of a compiled kernel's manifest, the function that does the same and clears, on GPU
    `index`; 0 where there is none, and the runtime clears by a launch of its own. Any thread may ask."""

    def __init__(self, artifact: Artifact, target: Target, index: int) -> None:
        self._artifact, self._target, self._index = artifact, target, index
        self._found: dict[str, tuple[int, cuda.LoadedModule | None]] = {}
        self._lock = forks.Lock()

    def __call__(self, launch: Mapping[str, Any]) -> int:
        name = launch["name"]
        with self._lock:
            if name not in self._found:
                self._found[name] = self._load(launch)
            return self._found[name][0]

    def _load(self, launch: Mapping[str, Any]) -> tuple[int, cuda.LoadedModule | None]:
        name, artifact = launch["name"], self._artifact
        text = weave(artifact.ptx, name, artifact.registers.get(name, 0))
        if text is None:
            return 0, None
        one = launch_of(launch)
        manifest = {**artifact.manifest, "steps": [{"launch": one}], "checks": []}
        try:
            code = assembled(text, self._target) if artifact.cubin else b""
            module = cuda.load(manifest, code or text, self._index)
        except LoopfuseError as error:  # the kernel itself is as good as it was
            warn(f"`{artifact.kernel}` clears its new outputs by a launch of its own: {error}")
            return 0, None
        return int(module.functions[name_of(name)]), module


def assembled(text: str, target: Target) -> bytes:
    """The machine code, from the disk cache if it is there; none where there is no assembler."""
    key = cache.key_of("clearing", text, target.name)
    hit = cache.get(key)
    if hit is not None:
        return hit[1]["cubin"]
    from loopfuse.codegen.targets.assemble import assemble

    made = assemble(text, target)
    if made is None:
        return b""
    cache.put(key, {}, {"cubin": made[0]})
    return made[0]
