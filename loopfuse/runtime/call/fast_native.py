"""The part of a generated call path that reads all its arrays at once: PyTorch's tensors by their library's C function
(`native_reader`), NumPy's by a builtin (`numpy_reader`). The last call's plan says whether this call is like it.

    r = READ(args, plan)        SAME: on to the launch;  MOVED: new addresses are in the plan;  STREAM:
                                another stream;  OTHER (or no plan yet): every test, from Python

OTHER has all bits set, so that `r & MOVED` asks whether there is something to write.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.runtime.arrays import native_reader, numpy_reader
from loopfuse.runtime.arrays.native_reader import (
    LAUNCHED_ON,
    MOVED,
    OTHER,
    STREAM,
    Exchange,
    Plan,
    Where,
    empty_plan,
    exchange_of,
    make_plan,
    reader,
)
from loopfuse.runtime.binding import CPU_DEVICE
from loopfuse.runtime.builtins import Maker, words_of
from loopfuse.runtime.call.call_kinds import CallKind
from loopfuse.runtime.call.drafts import Draft


def native_for(kind: CallKind, where: Where | None) -> Native | None:
    """The native part for calls of this kind, launched there (None: on the CPU); None where there is
    none: all arrays are PyTorch's tensors, dense, and none is made by the call, or all are NumPy's; and all are
    given by position."""
    arrays = [one for one in kind.passed if one.dtype is not None]
    if not arrays or any(isinstance(one.where, str) for one in kind.passed):
        return None
    positions = tuple(one.where for one in arrays if isinstance(one.where, int))
    if kind.device == CPU_DEVICE and all(one.type is np.ndarray for one in arrays):
        make = numpy_reader.reader()
        dtypes = tuple(one.dtype for one in arrays)
        return NumpyNative(positions, bool(kind.omitted), dtypes, make) if make else None
    if kind.library != "torch" or kind.omitted or kind.strided:
        return None
    found = {exchange_of(one.type) for one in arrays}
    exchange, read = found.pop(), reader()
    if found or exchange is None or read is None or (where and not exchange.stream):
        return None
    return TorchNative(positions, False, exchange, where, read)


@dataclass(frozen=True, slots=True)
class Native:
    """Where the arrays stand among the arguments, and whether the call makes others, whose addresses are asked at each.
    Then the libraries' own."""

    positions: tuple[int, ...]
    makes: bool

    valid = 1
    """The word of a plan that says whether the addresses are those in the launch; the first is 0 where there is no plan."""
    addresses = 0
    """The first of the plan's addresses."""

    def asking(self, draft: Draft) -> str:
        """What gives `r`."""
        raise NotImplementedError

    def planning(self, draft: Draft, stream: str) -> tuple[str, ...]:
        """Lines that make a plan of this call."""
        raise NotImplementedError

    def write_reading(self, draft: Draft, scalars: str) -> None:
        """Sets `r`, and `free` and `s` where it is not OTHER."""
        draft.names |= {"HOT": [None]}
        draft.add(
            f"r = {OTHER}",
            "hot = HOT[0]",
            f"if hot is not None and hot[1] == {scalars}:" if scalars != "()" else "if hot is not None:",
            "    free = hot[0]",
            "    try:", "        s = free.pop()",
            "    except IndexError:", "        pass",
            "    else:",
            "        try:", f"            r = {self.asking(draft)}",
            "        except Exception:", "            pass",  # the library refused: asked from Python
            "        finally:",
            "            if r < 0:", "                free.append(s)",
        )  # fmt: skip

    def write_addresses(self, draft: Draft, given: str, made: str) -> None:
        """Sets `at`, and the locals of the addresses that are `given`, unless they and those of what is `made` are in the
        launch. A plan does not hold while Python writes others."""
        plan, first = self.plan(draft), self.addresses
        draft.add("if r < 0:", f"    at = {given}", f"    if {plan} is not None and {plan}[0]:", f"        {plan}[{self.valid}] = 0")
        read = f"at = tuple({plan}[{first}:{first + len(self.positions)}])"
        if not self.makes:
            draft.add("else:", f"    {given} = {read}")
            return
        inputs = draft.field("given addresses", lambda _: None)
        draft.add(
            "elif r:", f"    {read}", "else:", f"    at = {inputs}",
            f"{inputs} = {given} = at", f"at = {given} {made}",
        )  # fmt: skip

    def write_stream(self, draft: Draft, stream: str) -> None:
        """Which stream is written into the launch now; `NEVER` while one is being written, so that an
        interrupt between two writes leaves none that the next call could take for its own."""

    def write_plan(self, draft: Draft, stream: str) -> None:
        """Where this call was checked, a plan of it, launched on that stream; where addresses moved,
        they are written now."""
        plan = self.plan(draft)
        draft.add("if r > 0:", f"    {plan}[{self.valid}] = 1", f"elif {plan} is None:", *(f"    {line}" for line in self.planning(draft, stream)))

    @staticmethod
    def plan(draft: Draft) -> str:
        """The state's plan; None before there is one."""
        return draft.field("plan", lambda _: None)


@dataclass(frozen=True, slots=True)
class NumpyNative(Native):
    """The arrays' dtypes, and what makes a builtin of a plan."""

    dtypes: tuple[Any, ...]
    make: Maker

    valid = numpy_reader.VALID
    addresses = numpy_reader.ADDRESSES

    def asking(self, draft: Draft) -> str:
        """See `Native`."""
        return f"{draft.field('read', lambda _: _other)}(*args)"

    def planning(self, draft: Draft, stream: str) -> tuple[str, ...]:
        """See `Native`."""
        draft.names |= {"PLAN": self._plan}
        return (f"{self.plan(draft)}, {draft.field('read', lambda _: _other)} = PLAN(args)",)

    def _plan(self, arguments: Any) -> tuple[Any, Callable[..., int]]:
        """A plan and the builtin that is bound to it. A plan names dtypes by their addresses, those that the kind of call
        holds: others may be gone, and theirs another's."""
        if any(arguments[k].dtype is not dtype for k, dtype in zip(self.positions, self.dtypes, strict=True)):
            return empty_plan(), _other
        array, words = words_of(numpy_reader.plan_words(arguments, self.positions))
        return words, self.make(array)


def _other(*_: Any) -> int:
    return OTHER


@dataclass(frozen=True, slots=True)
class TorchNative(Native):
    """The library's functions, the GPU, and our function."""

    exchange: Exchange
    where: Where | None
    read: Callable[[Any, int], int]

    valid = native_reader.VALID
    addresses = native_reader.ADDRESSES

    def asking(self, draft: Draft) -> str:
        """See `Native`."""
        draft.names |= {"READ": self.read}
        return f"READ(args, {self._address(draft)})"

    def write_stream(self, draft: Draft, stream: str) -> None:
        """See `Native`."""
        plan = self.plan(draft)
        draft.add(f"if {plan} is not None:", f"    {plan}[{LAUNCHED_ON}] = {stream}")

    def planning(self, draft: Draft, stream: str) -> tuple[str, ...]:
        """See `Native`."""
        plan, address = self.plan(draft), self._address(draft)
        draft.names |= {"PLAN": self._plan, "ADDRESS": ctypes.addressof}
        return f"{plan} = PLAN(args)", f"{plan}[{LAUNCHED_ON}] = {stream}", f"{address} = ADDRESS({plan})"

    def _plan(self, arguments: Any) -> Plan:
        try:
            return make_plan(arguments, self.positions, self.exchange, self.where)
        except Exception:  # what a library does not describe has no plan
            return empty_plan()

    @staticmethod
    def _address(draft: Draft) -> str:
        return draft.field("plan address", lambda _: ctypes.addressof(_NOTHING))


_NOTHING = empty_plan()
NEVER = str((1 << 64) - 1)
"""No stream."""
ASK_ADDRESSES, ASK_STREAM = f"if r & {MOVED}:", f"if r & {STREAM}:"
"""What comes before code for other addresses, or another stream."""
