"""Generated call paths on the CPU: the launches, and the workspaces that a state keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loopfuse.runtime.call.drafts import Draft, Making
from loopfuse.runtime.call.fast import Machine, words_of
from loopfuse.runtime.call.fast_native import Native
from loopfuse.runtime.devices import cpu
from loopfuse.runtime.devices.sharing import work_of
from loopfuse.runtime.devices.steps import buffer_bytes, launches_of
from loopfuse.runtime.formulas import names_in

# A state keeps its workspaces up to this size; calls that need more take the checked path, which
# costs little beside such a workspace.
KEPT_BYTES = 1 << 20
_VARIABLE = "LOOPFUSE_NUM_THREADS"


def thread_setting() -> Any:
    """The thread count's variable as it stands now."""
    return _look_up(_KEY)


def _variable_reader() -> tuple[Callable[[Any], Any], Any]:
    """How to read the environment, and the key: `os.environ.get` encodes and decodes at each
    call (0.7 us), the dict behind it does not."""
    held = getattr(os.environ, "_data", None)
    key = os.fsencode(_VARIABLE)
    if isinstance(held, dict) and os.environ.get("PATH") is not None and b"PATH" in held:
        return held.get, key
    return os.environ.get, _VARIABLE


_look_up, _KEY = _variable_reader()


def machine(loaded: cpu.LoadedObject, library: str) -> Machine:
    """The device's part of call paths to `loaded`, whatever library the arrays are of."""
    return Cpu(loaded)


class Cpu(Machine):
    """Launches of a loaded object; see `cpu.run`, which does the same from scratch."""

    def __init__(self, loaded: cpu.LoadedObject) -> None:
        self._loaded = loaded

    def guard(self, draft: Draft) -> str:
        """The thread count is read at every call, and a new one may be an error."""
        draft.names |= {"LOOK_UP": _look_up, "THREADS_KEY": _KEY}
        return f"LOOK_UP(THREADS_KEY) == {draft.mention('THREADS', thread_setting())}"

    def accepts(self, manifest: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Only small workspaces."""
        return sum(buffer_bytes(one, values) for one in manifest["buffers"]) <= KEPT_BYTES

    def prepare(
        self, draft: Draft, manifest: Mapping[str, Any], native: Native | None, allocates: bool
    ) -> str:
        """Nothing."""
        return "0"

    def workspace(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """A state's workspaces stay where they are; zeroed ones are cleared again."""
        places: list[tuple[int, int, Mapping[str, Any], Mapping[str, Any]]] = []
        buffers = {buffer["name"]: buffer for buffer in manifest["buffers"]}
        for site, one in enumerate(launches_of(manifest["steps"])):
            for slot, argument in enumerate(one["arguments"]):
                if argument["kind"] == "pointer" and argument["name"] in buffers:
                    places.append((site, slot, one, buffers[argument["name"]]))
        for site, slot, one, buffer in places:
            arguments = one["arguments"]

            def put(m: Making, k: int = site, s: int = slot, a: Any = arguments, b: Any = buffer) -> int:
                storage = _storage(m, b)
                m.block(k, a).words[s] = (storage.ctypes.data + 63) & ~63
                return 0

            draft.field(("workspace", site, slot), put)
        for name, buffer in buffers.items():
            if buffer["zeroed"]:
                held = draft.field(("storage", name), lambda m, b=buffer: _storage(m, b))
                draft.add(f"{held}.fill(0)")

    def launch(
        self, draft: Draft, site: int, one: Mapping[str, Any], variables: tuple[str, ...]
    ) -> None:
        """One call of the site's launcher with its grid."""
        text = str(one["grid"])
        grid = draft.over(text, variables) if names_in(text) & set(variables) else draft.number(text)
        adapter, buffers = self._loaded.adapters[one["name"]], self._loaded.manifest["buffers"]
        words_of(draft, site, one)

        def make(m: Making) -> Callable[[int], None]:
            touched = sum(m.bytes.values()) + sum(buffer_bytes(b, m.values) for b in buffers)
            block = m.block(site, one["arguments"])
            return cpu.launcher(adapter, block.address, work_of(one, touched, m.values))

        draft.add(f"{draft.field(('launcher', site), make)}({grid})")


def _storage(making: Making, buffer: Mapping[str, Any]) -> Any:
    """The memory of a workspace, with 64 bytes more, so that its start can be moved."""
    size = buffer_bytes(buffer, making.values)
    return making.once(("storage", buffer["name"]), lambda: np.zeros(size + 64, np.uint8))
