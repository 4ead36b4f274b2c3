"""The part of a generated call path that reads all its tensors at once, where their library can
(`native_reader`): the last call's plan says whether this call is like it.

    r = READ(args, plan)        SAME: on to the launch;  MOVED: new addresses are in the plan;  STREAM:
                                another stream;  OTHER (or no plan yet): every test, from Python

OTHER has all bits set, so that `r & MOVED` asks whether there is something to write.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loopfuse.runtime.arrays.native_reader import (
    ADDRESSES,
    LAUNCHED_ON,
    MOVED,
    OTHER,
    STREAM,
    VALID,
    Exchange,
    Plan,
    Where,
    empty_plan,
    exchange_of,
    make_plan,
    reader,
)
from loopfuse.runtime.call.call_kinds import CallKind
from loopfuse.runtime.call.drafts import Draft


def native_for(kind: CallKind, where: Where | None) -> Native | None:
    """The native part for calls of this kind, launched there (None: on the CPU); None where there is
    none: all arrays are PyTorch's tensors, given by position and dense, and none is made by the call."""
    arrays = [one for one in kind.passed if one.dtype is not None]
    if kind.library != "torch" or kind.omitted or kind.strided or not arrays:
        return None
    if any(isinstance(one.where, str) for one in kind.passed):
        return None
    found = {exchange_of(one.type) for one in arrays}
    exchange, read = found.pop(), reader()
    if found or exchange is None or read is None or (where and not exchange.stream):
        return None
    positions = tuple(one.where for one in arrays if isinstance(one.where, int))
    return Native(positions, exchange, where, read)


@dataclass(frozen=True, slots=True)
class Native:
    """Where the tensors stand among the arguments, the library's functions, the GPU, and our function."""

    positions: tuple[int, ...]
    exchange: Exchange
    where: Where | None
    read: Callable[[Any, int], int]

    def write_reading(self, draft: Draft, scalars: str) -> None:
        """Sets `r`, and `free` and `s` where it is not OTHER."""
        draft.names |= {"READ": self.read, "HOT": [None]}
        _, address = self._fields(draft)
        draft.add(
            f"r = {OTHER}",
            "hot = HOT[0]",
            f"if hot is not None and hot[1] == {scalars}:" if scalars != "()" else "if hot is not None:",
            "    free = hot[0]",
            "    try:", "        s = free.pop()",
            "    except IndexError:", "        pass",
            "    else:",
            "        try:", f"            r = READ(args, {address})",
            "        except Exception:", "            pass",  # the library refused: asked from Python
            "        finally:",
            "            if r < 0:", "                free.append(s)",
        )  # fmt: skip

    def write_addresses(self, draft: Draft, every: str) -> None:
        """Sets `at`, and the locals of the addresses."""
        plan, _ = self._fields(draft)
        end = ADDRESSES + len(self.positions)
        draft.add(
            "if r < 0:", f"    at = {every}",
            "else:", f"    {every} = at = tuple({plan}[{ADDRESSES}:{end}])",
        )  # fmt: skip

    def write_stream(self, draft: Draft, stream: str) -> None:
        """Which stream is written into the launch now; `NEVER` while one is being written, so that an
        interrupt between two writes leaves none that the next call could take for its own."""
        plan, _ = self._fields(draft)
        draft.add(f"if {plan} is not None:", f"    {plan}[{LAUNCHED_ON}] = {stream}")

    def write_plan(self, draft: Draft, stream: str) -> None:
        """Where this call was checked, a plan of it, launched on that stream; where addresses moved,
        they are written now."""
        plan, address = self._fields(draft)
        draft.names |= {"PLAN": self._plan, "ADDRESS": ctypes.addressof}
        draft.add(
            "if r > 0:", f"    {plan}[{VALID}] = 1",
            f"elif {plan} is None:", f"    {plan} = PLAN(args)",
            f"    {plan}[{LAUNCHED_ON}] = {stream}", f"    {address} = ADDRESS({plan})",
            f"elif {plan}[0]:", f"    {plan}[{VALID}] = 0",
        )  # fmt: skip

    def _plan(self, arguments: Any) -> Plan:
        try:
            return make_plan(arguments, self.positions, self.exchange, self.where)
        except Exception:  # what a library does not describe has no plan
            return empty_plan()

    @staticmethod
    def _fields(draft: Draft) -> tuple[str, str]:
        plan = draft.field("plan", lambda _: None)
        address = draft.field("plan address", lambda _: ctypes.addressof(_NOTHING))
        return plan, address


_NOTHING = empty_plan()
NEVER = str((1 << 64) - 1)
"""No stream."""
ASK_ADDRESSES, ASK_STREAM = f"if r & {MOVED}:", f"if r & {STREAM}:"
"""What comes before code for other addresses, or another stream."""
