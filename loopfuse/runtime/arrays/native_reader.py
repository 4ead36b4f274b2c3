"""Reading tensors by their library's own C function: one call for all arguments of a kernel.

PyTorch's attributes cost a microsecond a tensor from Python: type, dtype, device, layout, shape and
address are six of them. DLPack's exchange table (https://dmlc.github.io/dlpack, from version 1.3 on)
has a C function that fills a `DLTensor` instead. It is called from a function that LLVM makes here, once
a process, and that compares what it finds with what an accepted call had (a `Plan`):

    read(arguments, plan) -> SAME     everything is as it was, addresses too
                             MOVED    addresses differ; the plan has the new ones
                             STREAM   another CUDA stream is current (MOVED | STREAM: both)
                             OTHER    something else differs: whoever asks must look for himself

It only ever says that a call is like another, which was checked in full.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import GetSetDescriptorType, MethodDescriptorType
from typing import Any

from loopfuse.runtime.arrays.dlpack import DLTensor, capsule_pointer
from loopfuse.runtime.memory import MEMORY
from loopfuse.runtime.native_code import function_at

SAME, MOVED, STREAM, OTHER = 0, 1, 2, -1

# The words of a plan: how many arrays (0: nothing is known), whether the addresses are those that
# were written into the launch, the library's function; on a GPU its context and the function that
# gets the current one, the library's function for its current stream, the GPU's number, and the
# stream that was written into the launch; the C functions of the attributes that no DLTensor tells
# (functions of 0: not asked); then the addresses.
(
    COUNT, VALID, FUNCTION, CONTEXT, CURRENT, STREAM_OF, GPU, LAUNCHED_ON,
    DERIVED, CLOSURE, NEGATED, ADDRESSES,
) = range(12)  # fmt: skip
LOWEST = 1 << 32
"""Whatever lies below is looked at closely: the address of a view of a tensor whose storage was given up is
its offset. No system puts arrays there of its own accord."""
# Then for each array: its position, its type, the words of a DLTensor that hold the device, and rank
# with dtype, and where in the plan its extents and strides begin.
_FIELDS = 5
_POSITION, _TYPE, _DEVICE, _RANK, _EXTENTS = range(_FIELDS)


class _Table(ctypes.Structure):
    """DLPackExchangeAPI of dlpack.h."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("managed_to_object", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Addresses of a library's functions: one fills a DLTensor from an object, the next gives the
    current stream; `derived` (with its closure) is the getter of `requires_grad`, `negated` the
    method `is_neg` (0: there is none)."""

    describe: int
    stream: int
    derived: int = 0
    closure: int = 0
    negated: int = 0


def exchange_of(kind: type) -> Exchange | None:
    """The functions for objects of this type; None: there are none."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    address = capsule_pointer(capsule, b"dlpack_exchange_api") if capsule is not None else 0
    while address:
        table = _Table.from_address(address)
        if table.major == 1:
            describe = int(table.tensor_from_object or 0)
            asked = _attributes(kind)
            if not describe or asked is None:
                return None
            return Exchange(describe, int(table.current_stream or 0), *asked)
        address = int(table.previous or 0)
    return None


# CPython's PyDescrObject (header, type, name, qualified name) is followed by the PyGetSetDef (name,
# get, set, documentation, closure) or PyMethodDef (name, function, flags, documentation).
_DEFINITION = object.__basicsize__ // 8 + 3
_METH_NOARGS = 4


def _attributes(kind: type) -> tuple[int, int, int] | None:
    """The C functions (getter of `requires_grad`, its closure, `is_neg`) of a type; 0 for those that
    it does not have; None where it has them in another form."""
    derived = closure = negated = 0
    getter = inspect.getattr_static(kind, "requires_grad", None)
    if getter is not None:
        if type(getter) is not GetSetDescriptorType:
            return None
        definition = MEMORY[(id(getter) >> 3) + _DEFINITION] >> 3
        derived, closure = MEMORY[definition + 1], MEMORY[definition + 4]
    method = inspect.getattr_static(kind, "is_neg", None)
    if method is not None:
        if type(method) is not MethodDescriptorType:
            return None
        definition = MEMORY[(id(method) >> 3) + _DEFINITION] >> 3
        if MEMORY[definition + 2] & 0xFFFFFFFF != _METH_NOARGS:
            return None
        negated = MEMORY[definition + 1]
    return derived, closure, negated


@dataclass(frozen=True, slots=True)
class Where:
    """The GPU on which calls launch: its number, its context, and the address of cuCtxGetCurrent."""

    gpu: int
    context: int
    current: int


Plan = Any
"""A ctypes array of words."""


def empty_plan() -> Plan:
    """A plan that no call is like."""
    return (ctypes.c_uint64 * ADDRESSES)()


def make_plan(
    arguments: Sequence[Any], positions: Sequence[int], exchange: Exchange, where: Where | None
) -> Plan:
    """A plan of calls like this one; an empty one where a tensor has less than two elements (they
    have no layout) or is not described."""
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange.describe)
    heads: list[int] = []
    extents: list[int] = []
    addresses: list[int] = []
    start = ADDRESSES + len(positions) * (1 + _FIELDS)
    for position in positions:
        tensor, one = DLTensor(), arguments[position]
        if describe(one, ctypes.addressof(tensor)) or not tensor.strides:
            return empty_plan()
        shape, strides = tensor.shape[: tensor.rank], tensor.strides[: tensor.rank]
        elements = 1
        for extent in shape:
            elements *= extent
        if elements < 2:
            return empty_plan()
        words = (ctypes.c_uint64 * (ctypes.sizeof(DLTensor) // 8)).from_buffer(tensor)
        addresses.append(int(tensor.data or 0) + tensor.byte_offset)
        heads += [position, id(type(one)), words[1], words[2], start + len(extents)]
        extents += [each & (1 << 64) - 1 for each in (*shape, *strides)]
    device = [0] * 5 if where is None else [where.context, where.current, exchange.stream, where.gpu, 0]
    asked = [exchange.derived, exchange.closure, exchange.negated]
    words = [len(positions), 0, exchange.describe, *device, *asked, *addresses, *heads, *extents]
    return (ctypes.c_uint64 * len(words))(*words)


# ------------------------------------------------------------------------------ the function


@lru_cache(maxsize=1)
def reader() -> Callable[[Any, int], int] | None:
    """`read(arguments, address of a plan)`, which holds the interpreter's lock; None where objects
    do not look as they do in CPython, or LLVM is missing."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16:
        return None
    probe = object()
    if MEMORY[(id(probe) >> 3) + 1] != id(object):
        return None
    item = ctypes.cast(ctypes.pythonapi.PyTuple_GetItem, ctypes.c_void_p).value
    address = function_at("read", _text(item or 0))
    if not address:
        return None
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(address)


def _text(item: int) -> str:
    """The function as LLVM IR; `item` is the address of PyTuple_GetItem.

    for k in 0..count: describe(arguments[position], tensor), unless its type is another, it requires
    grad or is to be negated; compare device, rank and dtype, extents and strides; note its address

    What the getters answer is `False`, whose count of references may grow for ever.
    """
    return f"""
define i64 @word(ptr %plan, i64 %k) alwaysinline {{
  %at = getelementptr i64, ptr %plan, i64 %k
  %value = load i64, ptr %at
  ret i64 %value
}}

define i32 @read(ptr %arguments, i64 %where) {{
entry:
  %plan = inttoptr i64 %where to ptr
  %tensor = alloca [{ctypes.sizeof(DLTensor) // 8} x i64], align 8
  %cell = alloca i64, align 8
  %count = call i64 @word(ptr %plan, i64 {COUNT})
  %known = icmp ne i64 %count, 0
  br i1 %known, label %start, label %other
start:
  %valid = call i64 @word(ptr %plan, i64 {VALID})
  %function = call i64 @word(ptr %plan, i64 {FUNCTION})
  %describe = inttoptr i64 %function to ptr
  %item = inttoptr i64 {item} to ptr
  %stale = xor i64 %valid, 1
  %current = call i64 @word(ptr %plan, i64 {CURRENT})
  %on.gpu = icmp ne i64 %current, 0
  br i1 %on.gpu, label %in.context, label %begun
in.context:
  %get.current = inttoptr i64 %current to ptr
  %context.failed = call i32 %get.current(ptr %cell)
  %context.now = load i64, ptr %cell
  %context = call i64 @word(ptr %plan, i64 {CONTEXT})
  %context.same = icmp eq i64 %context.now, %context
  br i1 %context.same, label %on.stream, label %other
on.stream:
  %stream.of = call i64 @word(ptr %plan, i64 {STREAM_OF})
  %get.stream = inttoptr i64 %stream.of to ptr
  %gpu = call i64 @word(ptr %plan, i64 {GPU})
  %gpu.number = trunc i64 %gpu to i32
  %stream.failed = call i32 %get.stream(i32 2, i32 %gpu.number, ptr %cell)
  %stream.fine = icmp eq i32 %stream.failed, 0
  br i1 %stream.fine, label %compare.stream, label %other
compare.stream:
  %stream.now = load i64, ptr %cell
  %stream.before = call i64 @word(ptr %plan, i64 {LAUNCHED_ON})
  %stream.other = icmp ne i64 %stream.now, %stream.before
  %stream.bit = select i1 %stream.other, i64 {STREAM}, i64 0
  %stale.both = or i64 %stale, %stream.bit
  br label %begun
begun:
  %changed.first = phi i64 [ %stale, %start ], [ %stale.both, %compare.stream ]
  br label %array
array:
  %k = phi i64 [ 0, %begun ], [ %k.next, %noted ]
  %changed = phi i64 [ %changed.first, %begun ], [ %changed.next, %noted ]
  %over = mul i64 %k, {_FIELDS}
  %first = add i64 %count, {ADDRESSES}
  %head = add i64 %first, %over
  %head.position = add i64 %head, {_POSITION}
  %position = call i64 @word(ptr %plan, i64 %head.position)
  %object = call ptr %item(ptr %arguments, i64 %position)
  %there = icmp ne ptr %object, null
  br i1 %there, label %typed, label %other
typed:
  %type.at = getelementptr i64, ptr %object, i64 1
  %type = load i64, ptr %type.at
  %head.type = add i64 %head, {_TYPE}
  %type.wanted = call i64 @word(ptr %plan, i64 %head.type)
  %type.same = icmp eq i64 %type, %type.wanted
  br i1 %type.same, label %derived, label %other
derived:
  %derived.word = call i64 @word(ptr %plan, i64 {DERIVED})
  %derived.asked = icmp ne i64 %derived.word, 0
  br i1 %derived.asked, label %derived.ask, label %negated
derived.ask:
  %derived.function = inttoptr i64 %derived.word to ptr
  %closure.word = call i64 @word(ptr %plan, i64 {CLOSURE})
  %closure = inttoptr i64 %closure.word to ptr
  %derived.answer = call ptr %derived.function(ptr %object, ptr %closure)
  %derived.number = ptrtoint ptr %derived.answer to i64
  %derived.no = icmp eq i64 %derived.number, {id(False)}
  br i1 %derived.no, label %negated, label %other
negated:
  %negated.word = call i64 @word(ptr %plan, i64 {NEGATED})
  %negated.asked = icmp ne i64 %negated.word, 0
  br i1 %negated.asked, label %negated.ask, label %described
negated.ask:
  %negated.function = inttoptr i64 %negated.word to ptr
  %negated.answer = call ptr %negated.function(ptr %object, ptr null)
  %negated.number = ptrtoint ptr %negated.answer to i64
  %negated.no = icmp eq i64 %negated.number, {id(False)}
  br i1 %negated.no, label %described, label %other
described:
  %failed = call i32 %describe(ptr %object, ptr %tensor)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %compared, label %other
compared:
  %device = call i64 @word(ptr %tensor, i64 1)
  %head.device = add i64 %head, {_DEVICE}
  %device.wanted = call i64 @word(ptr %plan, i64 %head.device)
  %rank.dtype = call i64 @word(ptr %tensor, i64 2)
  %head.rank = add i64 %head, {_RANK}
  %rank.wanted = call i64 @word(ptr %plan, i64 %head.rank)
  %shape.at = call i64 @word(ptr %tensor, i64 3)
  %strides.at = call i64 @word(ptr %tensor, i64 4)
  %device.other = xor i64 %device, %device.wanted
  %rank.other = xor i64 %rank.dtype, %rank.wanted
  %any.other = or i64 %device.other, %rank.other
  %same = icmp eq i64 %any.other, 0
  %has.strides = icmp ne i64 %strides.at, 0
  %usable = and i1 %same, %has.strides
  br i1 %usable, label %extents, label %other
extents:
  %shape = inttoptr i64 %shape.at to ptr
  %strides = inttoptr i64 %strides.at to ptr
  %head.extents = add i64 %head, {_EXTENTS}
  %begin = call i64 @word(ptr %plan, i64 %head.extents)
  %rank = and i64 %rank.dtype, 4294967295
  br label %extent
extent:
  %j = phi i64 [ 0, %extents ], [ %j.next, %extent.same ]
  %more = icmp ult i64 %j, %rank
  br i1 %more, label %extent.one, label %found
extent.one:
  %size = call i64 @word(ptr %shape, i64 %j)
  %stride = call i64 @word(ptr %strides, i64 %j)
  %size.k = add i64 %begin, %j
  %stride.k = add i64 %size.k, %rank
  %size.wanted = call i64 @word(ptr %plan, i64 %size.k)
  %stride.wanted = call i64 @word(ptr %plan, i64 %stride.k)
  %size.other = xor i64 %size, %size.wanted
  %stride.other = xor i64 %stride, %stride.wanted
  %one.other = or i64 %size.other, %stride.other
  %one.same = icmp eq i64 %one.other, 0
  br i1 %one.same, label %extent.same, label %other
extent.same:
  %j.next = add i64 %j, 1
  br label %extent
found:
  %data = call i64 @word(ptr %tensor, i64 0)
  %offset = call i64 @word(ptr %tensor, i64 5)
  %address = add i64 %data, %offset
  %low = icmp ult i64 %address, {LOWEST}
  br i1 %low, label %other, label %placed
placed:
  %slot = add i64 %k, {ADDRESSES}
  %address.before = call i64 @word(ptr %plan, i64 %slot)
  %moved = icmp ne i64 %address, %address.before
  br i1 %moved, label %note, label %noted
note:
  %slot.at = getelementptr i64, ptr %plan, i64 %slot
  store i64 %address, ptr %slot.at
  %valid.at = getelementptr i64, ptr %plan, i64 {VALID}
  store i64 0, ptr %valid.at
  %changed.too = or i64 %changed, {MOVED}
  br label %noted
noted:
  %changed.next = phi i64 [ %changed, %placed ], [ %changed.too, %note ]
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, %count
  br i1 %last, label %done, label %array
done:
  %answer = trunc i64 %changed.next to i32
  ret i32 %answer
other:
  ret i32 {OTHER}
}}
"""
