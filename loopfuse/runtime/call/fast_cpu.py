"""Generated call paths on the CPU: the launches, and their workspaces."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any

from loopfuse.runtime.call.drafts import Draft, Making
from loopfuse.runtime.call.fast import Machine, words_of
from loopfuse.runtime.call.fast_native import Native
from loopfuse.runtime.checks import raise_offender
from loopfuse.runtime.devices import cpu
from loopfuse.runtime.devices.sharing import work_of
from loopfuse.runtime.devices.steps import launches_of
from loopfuse.runtime.devices.workspaces import Workspaces
from loopfuse.runtime.formulas import evaluate

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
        """All."""
        return True

    def error_word(self, making: Making) -> int:
        """One of the state's own."""
        return ctypes.addressof(_word(making))

    def prepare(
        self, draft: Draft, manifest: Mapping[str, Any], native: Native | None, allocates: bool
    ) -> str:
        """A clean error word, also after a call that was interrupted."""
        if manifest.get("checks"):
            draft.add(f"{draft.field('error word', _word)}.value = 0")
        return "0"

    def finish(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """What the launches noted is raised."""
        if not manifest.get("checks"):
            return
        word, sizes = draft.field("error word", _word), draft.field("sizes", lambda m: m.integers)
        draft.names |= {"RAISE": raise_offender, "MANIFEST": manifest}
        draft.add(f"if {word}.value:", f"    RAISE(MANIFEST, {word}.value, {sizes})")

    def workspace(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """A state has small workspaces for itself; others come from the pool and go back to it. They are written where they are
        elsewhere than at the last call."""
        if not manifest["buffers"]:
            return
        spaces = draft.field("workspaces", lambda m: _spaces(m, manifest))
        last = draft.field("base", lambda _: None)
        # An interrupt between two writes must not leave a place that `last` does not tell of.
        draft.add(f"base = {spaces}.take()", f"if {last} != base:", f"    {last} = None")
        for site, one in enumerate(launches_of(manifest["steps"])):
            for slot, argument in enumerate(one["arguments"]):
                name = argument.get("name")
                if argument["kind"] == "pointer" and any(name == buffer["name"] for buffer in manifest["buffers"]):
                    words = words_of(draft, site, one)
                    offset = draft.field(("offset", name), lambda m, n=name: _spaces(m, manifest).offsets[n])
                    draft.add(f"    {words}[{slot}] = base + {offset}")
        draft.add(f"    {last} = base")

    def release(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """The pool has them back."""
        if manifest["buffers"]:
            spaces = draft.field("workspaces", lambda m: _spaces(m, manifest))
            draft.add(f"{spaces}.free()")

    def steps(self, draft: Draft) -> bool:
        """One call that runs all of them, where they are more than one launch."""
        launches = launches_of(self._loaded.manifest["steps"])
        if self._loaded.native is None:
            return False
        for site, one in enumerate(launches):
            words_of(draft, site, one)

        def make(m: Making) -> Callable[[], None]:
            blocks = [m.block(site, one["arguments"]) for site, one in enumerate(launches)]
            return cpu.steps_runner(self._loaded, blocks, m.values, self._touched(m))

        draft.add(f"{draft.field('steps', make)}()")
        return True

    def launch(
        self, draft: Draft, site: int, one: Mapping[str, Any], variables: tuple[str, ...]
    ) -> None:
        """One call of the site's launcher over its grid. (`steps` has written all that stand in loops.)"""
        text, adapter = str(one["grid"]), self._loaded.adapters[one["name"]]
        words_of(draft, site, one)

        def make(m: Making) -> Callable[[], Any]:
            grid = int(evaluate(text, m.values))
            work, chunk = work_of(one, self._touched(m), m.values), m.once(("chunk", site), lambda: cpu.Chunk(grid))
            return cpu.launch_of(adapter, m.block(site, one["arguments"]).address, work, grid, chunk)

        draft.add(f"{draft.field(('launch', site), make)}()")

    def _touched(self, making: Making) -> int:
        """Bytes of all arrays and workspaces."""
        return sum(making.bytes.values()) + _spaces(making, self._loaded.manifest).total


def _word(making: Making) -> ctypes.c_int64:
    return making.once("error word", lambda: ctypes.c_int64(0))


def _spaces(making: Making, manifest: Mapping[str, Any]) -> Workspaces:
    return making.once("workspaces", lambda: Workspaces(manifest, making.values))
