"""Reading NumPy's arrays by a builtin: one call for all arguments of a kernel (`builtins`).

An array's type, dtype, flags, shape, strides and address cost 0.3 us from Python. They stand in the array's memory, where
NumPy's C headers promise them to whoever was compiled against them, and are compared there with what an accepted call had:

    read(*arguments) -> SAME     everything is as it was, addresses too
                        MOVED    addresses differ; the plan has the new ones
                        OTHER    something else differs: whoever asks must look for himself

It only ever says that a call is like another, which was checked in full. A dtype is compared as an object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from loopfuse.runtime.arrays.native_reader import LOWEST, MOVED, OTHER, SAME
from loopfuse.runtime.arrays.readers import C_CONTIGUOUS, WRITEABLE
from loopfuse.runtime.builtins import (
    DATA,
    DTYPE,
    EXTENTS,
    FAST,
    FLAGS,
    RANK,
    STRIDES,
    Maker,
    are_possible,
    python_function,
    words_of,
)
from loopfuse.runtime.native_code import addresses_for_good

# The words of a plan: how many arrays, whether the addresses are those that were written into the launch, how many
# arguments, CPython's function that makes an answer; then the addresses; then for each array its position, type, dtype,
# flags, rank, and where in the plan its extents and then its strides begin.
COUNT, VALID, _GIVEN, _ANSWER, ADDRESSES = range(5)
_FIELDS = 6
_POSITION, _TYPE, _DTYPE, _FLAGS, _RANK, _EXTENTS = range(_FIELDS)
_ASKED = C_CONTIGUOUS | WRITEABLE


def plan_words(arguments: Sequence[Any], positions: Sequence[int]) -> list[int]:
    """The words of a plan of calls like this one."""
    heads: list[int] = []
    extents: list[int] = []
    addresses: list[int] = []
    start = ADDRESSES + len(positions) * (1 + _FIELDS)
    for position in positions:
        one = arguments[position]
        addresses.append(one.__array_interface__["data"][0])
        flags = one.flags.num & _ASKED
        heads += [position, id(type(one)), id(one.dtype), flags, one.ndim, start + len(extents)]
        extents += [*one.shape, *one.strides]
    answer = python_function("PyLong_FromSsize_t")
    return [len(positions), 0, len(arguments), answer, *addresses, *heads, *extents]


@lru_cache(maxsize=1)
def reader() -> Maker | None:
    """Makes builtins `read`, bound to the words of a plan; None where there are none."""
    found = addresses_for_good(("read",), TEXT) if are_possible() else None
    if not found:
        return None
    made = Maker("read", found[0], FAST)
    return made if _reads(made) else None


def _reads(make: Maker) -> bool:
    """Does it tell calls from one another?"""
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((5, 2), np.int64)
    array, words = words_of(plan_words((a, 1, b), (0, 2)))
    read: Callable[..., int] = make(array)
    first = read(a, 1, b)
    words[VALID] = 1
    fixed = a.copy()
    fixed.flags.writeable = False
    others = (a[:2], a.T, a.astype(np.int32), fixed, a.reshape(3, 2, 2), a[:, ::-1], None, 1.5)
    said = [first, read(a, 2, b), *(read(other, 1, b) for other in others), read(a, 1), read(a, 1, b)]
    moved = a.copy()
    said += [read(moved, 1, b), words[ADDRESSES] == moved.__array_interface__["data"][0], read(moved, 1, b)]
    return said == [MOVED, SAME, *[OTHER] * len(others), OTHER, SAME, MOVED, True, MOVED]


# ------------------------------------------------------------------------------ the function

def _word(name: str, words: str, k: int | str) -> str:
    """%name is the k-th of some words."""
    return f"%{name}.from = getelementptr i64, ptr {words}, i64 {k}\n  %{name} = load i64, ptr %{name}.from"


TEXT = f"""
define ptr @read(ptr %self, ptr %arguments, i64 %given) {{
entry:
  {_word("words.word", "%self", DATA)}
  %plan = inttoptr i64 %words.word to ptr
  {_word("wanted", "%plan", _GIVEN)}
  %as.many = icmp eq i64 %given, %wanted
  br i1 %as.many, label %start, label %done
start:
  {_word("count", "%plan", COUNT)}
  {_word("valid", "%plan", VALID)}
  %stale = xor i64 %valid, 1
  %heads = add i64 %count, {ADDRESSES}
  br label %array
array:
  %k = phi i64 [ 0, %start ], [ %k.next, %noted ]
  %changed = phi i64 [ %stale, %start ], [ %changed.next, %noted ]
  %over = mul i64 %k, {_FIELDS}
  %first = add i64 %heads, %over
  %head = getelementptr i64, ptr %plan, i64 %first
  {_word("position", "%head", _POSITION)}
  {_word("object.word", "%arguments", "%position")}
  %object = inttoptr i64 %object.word to ptr
  {_word("type", "%object", 1)}
  {_word("type.wanted", "%head", _TYPE)}
  %type.same = icmp eq i64 %type, %type.wanted
  br i1 %type.same, label %fields, label %done
fields:
  {_word("dtype", "%object", DTYPE)}
  {_word("dtype.wanted", "%head", _DTYPE)}
  %dtype.other = xor i64 %dtype, %dtype.wanted
  {_word("flags.all", "%object", FLAGS)}
  %flags = and i64 %flags.all, {_ASKED}
  {_word("flags.wanted", "%head", _FLAGS)}
  %flags.other = xor i64 %flags, %flags.wanted
  {_word("rank.word", "%object", RANK)}
  %rank = and i64 %rank.word, {(1 << 32) - 1}
  {_word("rank.wanted", "%head", _RANK)}
  %rank.other = xor i64 %rank, %rank.wanted
  %some.other = or i64 %dtype.other, %flags.other
  %any.other = or i64 %some.other, %rank.other
  %same = icmp eq i64 %any.other, 0
  br i1 %same, label %extents, label %done
extents:
  {_word("shape.word", "%object", EXTENTS)}
  %shape = inttoptr i64 %shape.word to ptr
  {_word("strides.word", "%object", STRIDES)}
  %strides = inttoptr i64 %strides.word to ptr
  {_word("begin", "%head", _EXTENTS)}
  %sizes = getelementptr i64, ptr %plan, i64 %begin
  %steps = getelementptr i64, ptr %sizes, i64 %rank
  br label %extent
extent:
  %j = phi i64 [ 0, %extents ], [ %j.next, %extent.same ]
  %more = icmp ult i64 %j, %rank
  br i1 %more, label %extent.one, label %found
extent.one:
  {_word("size", "%shape", "%j")}
  {_word("stride", "%strides", "%j")}
  {_word("size.wanted", "%sizes", "%j")}
  {_word("stride.wanted", "%steps", "%j")}
  %size.other = xor i64 %size, %size.wanted
  %stride.other = xor i64 %stride, %stride.wanted
  %one.other = or i64 %size.other, %stride.other
  %one.same = icmp eq i64 %one.other, 0
  br i1 %one.same, label %extent.same, label %done
extent.same:
  %j.next = add i64 %j, 1
  br label %extent
found:
  {_word("address", "%object", DATA)}
  %low = icmp ult i64 %address, {LOWEST}
  br i1 %low, label %done, label %placed
placed:
  %slot = add i64 %k, {ADDRESSES}
  %slot.at = getelementptr i64, ptr %plan, i64 %slot
  %before = load i64, ptr %slot.at
  %moved = icmp ne i64 %address, %before
  br i1 %moved, label %note, label %noted
note:
  store i64 %address, ptr %slot.at
  %valid.at = getelementptr i64, ptr %plan, i64 {VALID}
  store i64 0, ptr %valid.at
  br label %noted
noted:
  %changed.next = phi i64 [ %changed, %placed ], [ {MOVED}, %note ]
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, %count
  br i1 %last, label %done, label %array
done:
  %told = phi i64 [ {OTHER}, %entry ], [ {OTHER}, %array ], [ {OTHER}, %fields ], [ {OTHER}, %extent.one ],
                  [ {OTHER}, %found ], [ %changed.next, %noted ]
  {_word("answer.word", "%plan", _ANSWER)}
  %answer = inttoptr i64 %answer.word to ptr
  %object.told = call ptr %answer(i64 %told)
  ret ptr %object.told
}}
"""
