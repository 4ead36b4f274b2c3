"""The call paths that a kernel has, and the loaded code that they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loopfuse.base import forks
from loopfuse.runtime.arrays.arguments import Signature
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.binding import Binding
from loopfuse.runtime.call.call_kinds import describe
from loopfuse.runtime.call.fast import CallPath, Machine

# Kinds of call (types, dtypes, names) that a kernel keeps a path for, the latest first.
PATHS_LIMIT = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    """Code ready to run. `run` takes a binding. `machine` makes the device's part of a call path
    for arrays of a library (None: there is none); paths hold as long as `setting` gives the same.
    `alone`: the process sees one GPU. `constants`: the values it is specialised to. `code`: equal
    where the code and how it is launched are."""

    manifest: dict[str, Any]
    bits: int
    constants: Mapping[str, int]
    run: Callable[[Binding], None]
    machine: Callable[[str], Machine | None]
    setting: Callable[[], object]
    alone: bool
    code: int = 0


class CallPaths:
    """The generated functions of one kernel, in `calls`, to be tried in turn until one does not
    return MISS. Any thread may call and add."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._paths: dict[object, CallPath] = {}
        self._lock = forks.Lock()
        self.calls: tuple[Callable[[Any, Any], Any], ...] = ()

    @property
    def paths(self) -> tuple[CallPath, ...]:
        """The paths, the oldest first."""
        return tuple(self._paths.values())

    def learn(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], matched: Match, loaded: Loaded
    ) -> None:
        """Write a path for calls like this one, which was accepted, or let the path there is
        know of its sizes."""
        described = describe(
            self._signature, args, kwargs, matched, loaded.constants, loaded.bits, loaded.alone
        )
        if described is None:
            return
        kind, readers = described
        identity = (kind, loaded.setting(), loaded.code)
        with self._lock:
            path = self._paths.get(identity)
            if path is None:
                machine = loaded.machine(matched.library)
                if machine is None or not CallPath.can_write(kind, loaded.manifest, self._signature):
                    return
                path = CallPath(kind, readers, self._signature, loaded.manifest, machine)
                if len(self._paths) >= PATHS_LIMIT:
                    del self._paths[next(iter(self._paths))]
                self._paths[identity] = path
                self.calls = tuple(one.call for one in reversed(self._paths.values()))
            path.learn(args, kwargs, matched)
