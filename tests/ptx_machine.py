"""A slow PTX machine on NumPy, for tests where there is no GPU: the part of PTX that kernels use
whose blocks wait for no others but those of their cluster, bit for bit.

All threads of a launch run at once, as arrays; of those that stand at different places, the ones
that are least far in the text go on (which joins the branches of structured code again). A shuffle
and a warp's barrier wait for their whole warp, a block's for all of it. Memory is a dictionary of arrays at addresses, each
block's shared memory among them; an access that is not wholly inside one of them, or not aligned to
its size, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

WARP = 32
Lanes = Any  # an array, one element a thread

_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


@dataclass(slots=True)
class Memory:
    """Arrays of bytes by their address."""

    blocks: dict[int, np.ndarray[Any, Any]]

    def place(self, address: int, data: np.ndarray[Any, Any]) -> None:
        """Put the bytes of `data` (which stay its own) at `address`."""
        self.blocks[address] = data.reshape(-1).view(np.uint8)

    def _at(self, addresses: Lanes, size: int) -> list[tuple[np.ndarray[Any, Any], Lanes, Lanes]]:
        assert not (addresses % np.uint64(size)).any(), "an access is not aligned to its size"
        out: list[tuple[np.ndarray[Any, Any], Lanes, Lanes]] = []
        left = np.ones(addresses.shape, bool)
        for start, data in self.blocks.items():
            here = (addresses >= start) & (addresses + np.uint64(size) <= start + data.size)
            if here.any():
                out.append((data, here, (addresses[here] - np.uint64(start)).astype(np.int64)))
                left &= ~here
        assert not left.any(), f"an access outside all arrays: {addresses[left][0]:#x}, {size} bytes"
        return out

    def load(self, addresses: Lanes, size: int) -> Lanes:
        """The `size` bytes at each address, a row each."""
        out = np.zeros((addresses.size, size), np.uint8)
        for data, here, offsets in self._at(addresses, size):
            out[here] = data[offsets[:, None] + np.arange(size)]
        return out

    def store(self, addresses: Lanes, values: Lanes) -> None:
        """Rows of bytes to each address."""
        size = values.shape[1]
        for data, here, offsets in self._at(addresses, size):
            data[offsets[:, None] + np.arange(size)] = values[here]


@dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard op operands`."""

    guard: str
    op: tuple[str, ...]
    operands: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel: its instructions, and where its labels stand."""

    name: str
    body: tuple[Instruction, ...]
    labels: Mapping[str, int]
    shared: Mapping[str, int]
    """Bytes of the arrays in shared memory; 0: as many as a launch gives."""


def read_ptx(text: str) -> dict[str, Entry]:
    """The kernels of a module."""
    out: dict[str, Entry] = {}
    text = _with_calls_written_out(text)
    for part in text.split(".visible .entry ")[1:]:
        name = part.split("(", 1)[0]
        body: list[Instruction] = []
        labels: dict[str, int] = {}
        inside = part[part.index("{") + 1 :]
        inside = re.sub(r"//[^\n]*", "", inside)
        depth = 0
        for line in inside.splitlines():
            line = line.strip()
            if line == "{":
                depth += 1
            if line == "}" and depth:
                depth -= 1
                continue
            label = re.match(r"(\$\w+):", line)
            if label:
                labels[label[1]] = len(body)
                continue
            for one in line.split(";"):
                one = one.strip().removeprefix("{").strip()
                one = "" if one == "}" else one
                if one and not one.startswith("."):
                    body.append(_instruction(one))
            if line == "}":
                break
        declared = r"\.shared [^\n]*?\.[a-z](\d+) ([\w$]+)(?:\[(\d*)\])?;"
        shared = {found[2]: 0 for found in re.finditer(declared, text) if found[3] == ""}
        for found in re.finditer(declared, part):
            if found[3] != "":
                shared[found[2]] = int(found[1]) // 8 * int(found[3] or 1)
        out[name] = Entry(name, tuple(body), labels, shared)
    return out


def _with_calls_written_out(text: str) -> str:
    """The text with the bodies of its functions (without branches) in place of calls."""
    functions = {
        found[1]: found[2] for found in re.finditer(r"^\.func [^\n]*? (\w+)\(\n.*?^\{\n(.*?)^\}", text, re.S | re.M)
    }
    text = re.sub(r"st\.param(\.b\d+)\s+\[(param\d+)\]", r"mov\1 %r_\2", text)
    text = re.sub(r"ld\.param(\.b\d+)\s+(%\w+), \[(retval\d+)\]", r"mov\1 \2, %r_\3", text)
    number = 0

    def body(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        inside = re.sub(r"%(\w+)", rf"%\1_of{number}", functions[found[1]])
        inside = re.sub(rf"ld\.param(\.b\d+)\s+(%\w+), \[{found[1]}_param_(\d+)\]", r"mov\1 \2, %r_param\3", inside)
        inside = re.sub(r"st\.param(\.b\d+)\s+\[func_(retval\d+)\]", r"mov\1 %r_\2", inside)
        return "\n".join(line for line in inside.splitlines() if not re.match(r"\s*(ret;|\$|\.)", line))

    return re.sub(r"call\.uni \(retval0\), (\w+), \([^)]*\);", body, text)


def _instruction(text: str) -> Instruction:
    found = re.match(r"(?:@(!?%\w+)\s+)?(\S+)\s*(.*)$", text)
    assert found, text
    rest, operands, depth = found[3], [""], 0
    for c in rest:
        depth += (c in "{[") - (c in "}]")
        if c == "," and not depth:
            operands.append("")
        else:
            operands[-1] += c
    given = tuple(each.strip() for each in operands if each.strip())
    return Instruction(found[1] or "", tuple(found[2].split(".")), given, text)


class Machine:
    """Runs a kernel on a grid of one-dimensional blocks; `arguments` as raw 8-byte words, `given`
    bytes of shared memory for each block besides what the code declares; `tables` are parameters of
    several words, whose address the code takes, by name; so many blocks are a `cluster`. `inexact`:
    approximations are wrong by an ulp now and then."""

    def __init__(
        self,
        entry: Entry,
        arguments: list[int],
        grid: int,
        threads: int,
        memory: Memory,
        given: int = 0,
        tables: Mapping[str, np.ndarray[Any, Any]] | None = None,
        cluster: int = 1,
        inexact: bool = False,
    ) -> None:
        self.entry, self.arguments, self.memory = entry, arguments, memory
        self.count, self.threads = grid * threads, threads
        number = np.arange(self.count, dtype=np.uint32)
        self.special = {
            "%ctaid.x": number // np.uint32(threads),
            "%tid.x": number % np.uint32(threads),
            "%ntid.x": np.full(self.count, threads, np.uint32),
            "%nctaid.x": np.full(self.count, grid, np.uint32),
        }
        assert grid % cluster == 0, "a grid is whole clusters"
        self.cluster = cluster
        self.arrived, self.writes_away = np.zeros(self.count, bool), np.zeros(self.count, bool)
        """Threads that have to wait for their cluster, and those that wrote to others of it since they did."""
        self.met = np.zeros(self.count, np.int64)
        """How often they have waited."""
        self.strides: dict[int, int] = {}
        self.written_from_away: dict[int, int] = {}
        self.read_at: dict[int, int] = {}
        """Of what others of the cluster write into, by address: how often their threads had met then."""
        self.shared: dict[str, Lanes] = {}
        for number_of, (symbol, size) in enumerate(entry.shared.items()):
            start = (number_of + 1) << 40
            stride = -(-(size or given) // 256) * 256
            memory.place(start, np.full(grid * stride, 0xA5, np.uint8))
            self.strides[start] = stride
            block = self.special["%ctaid.x"].astype(np.uint64)
            self.shared[symbol] = np.uint64(start) + block * np.uint64(stride)
        for number_of, (symbol, data) in enumerate((tables or {}).items()):
            start = (number_of + 1) << 52
            memory.place(start, data)
            self.shared[symbol] = np.full(self.count, start, np.uint64)
        self.registers: dict[str, Lanes] = {}
        self.lane = np.arange(self.count) % WARP
        self.late: list[tuple[Lanes, Lanes, Lanes, Lanes]] = []
        """Copies under way: their threads, the numbers of their groups, where to, and where from with
        how many bytes."""
        self.groups = np.zeros(self.count, np.int64)
        self.inexact = inexact
        self.executed = 0
        self.asleep = np.zeros(self.count, bool)
        """Threads that have looked for what others write: these go on before them."""
        self.bytes_stored: dict[int, int] = {}
        """How many threads stored that many bytes at once."""

    # ------------------------------------------------------------------------- operands

    def get(self, name: str, bits: int, mask: Lanes) -> Lanes:
        """An operand as words of `bits`, of the threads in `mask`."""
        if name.startswith("%"):
            return self._whole(name)[mask].astype(_WORDS[bits], copy=False)
        if name in self.shared:
            return self.shared[name][mask].astype(_WORDS[bits])
        if name.startswith(("0f", "0d", "0x")):
            value = int(name[2:].rstrip("U"), 16)
        else:
            value = int(name)
        full = np.full(int(mask.sum()), value % (1 << bits), np.uint64)
        return full.astype(_WORDS[bits])

    def _whole(self, name: str) -> Lanes:
        """A register of all threads; one that nothing wrote yet holds anything."""
        if name in self.special:
            return self.special[name]
        if name not in self.registers:
            self.put(name, np.full(self.count, 0xA5A5A5A5A5A5A5A5, np.uint64), self.lane >= 0)
        return self.registers[name]

    def test(self, name: str, mask: Lanes) -> Lanes:
        """A predicate."""
        if not name.startswith(("%", "!")):
            return np.full(int(mask.sum()), bool(int(name)))
        value = self._whole(name.lstrip("!"))[mask]
        return ~value if name.startswith("!") else value

    def put(self, name: str, value: Lanes, mask: Lanes) -> None:
        """A register of the threads in `mask`."""
        if name == "_":
            return
        if name.startswith("%p"):
            kind: Any = np.bool_
        elif name.startswith("%rs"):
            kind = np.uint16
        elif name.startswith("%rd"):
            kind = np.uint64
        else:
            kind = np.uint32
        held = self.registers.get(name)
        if held is None:
            held = self.registers[name] = np.zeros(self.count, kind)
        held[mask] = value.astype(kind, copy=False)

    # ------------------------------------------------------------------------------ run

    def run(self, limit: int = 1_000_000) -> None:
        """All threads, to their ends."""
        body, labels = self.entry.body, self.entry.labels
        at = np.zeros(self.count, np.int64)
        end = len(body)
        waiting = np.zeros(self.count, bool)
        with np.errstate(all="ignore"):
            while True:
                awake = ~waiting & ~self.asleep & (at < end)
                if not awake.any():
                    self.asleep[:] = False
                here = int(np.where(waiting | self.asleep, end + 1, at).min())
                assert here <= end, "a shuffle or barrier waits for threads that do not come"
                if here == end and not waiting.any():
                    assert not self.writes_away.any(), "a block ends before what it wrote to others has come"
                    return
                if here == end:  # the others never come
                    raise AssertionError("a thread ends before its warp's shuffle or its block's barrier")
                self.executed += 1
                assert self.executed < limit, "it does not end"
                mask = (at == here) & ~self.asleep
                one = body[here]
                waits = one.op[:3] == ("barrier", "cluster", "wait")
                if one.op[0] in ("shfl", "bar") or waits:
                    size = self.threads if one.op[:2] == ("bar", "sync") else WARP
                    size = self.threads * self.cluster if waits else size
                    together = np.repeat(mask.reshape(-1, size).all(axis=1), size)
                    waiting[mask & ~together] = True
                    mask &= together
                    waiting[mask] = False
                    if not mask.any():
                        continue
                at[mask] += 1
                if one.guard:
                    holds = np.zeros(self.count, bool)
                    holds[mask] = self.test(one.guard.lstrip("!"), mask)
                    if one.guard.startswith("!"):
                        holds[mask] = ~holds[mask]
                    mask = holds
                    if not mask.any():
                        continue
                match one.op[0]:
                    case "bra":
                        at[mask] = labels[one.operands[0]]
                    case "ret":
                        at[mask] = end
                    case _:
                        self.step(one, mask)

    def step(self, one: Instruction, mask: Lanes) -> None:
        """One instruction that is no branch."""
        op, operands = one.op, one.operands
        name = op[0]
        if name == "ld" and op[1] == "param" and not operands[1].startswith("[%"):
            number = int(operands[1].strip("[]").rpartition("_")[2])
            self.put(operands[0], np.full(int(mask.sum()), self.arguments[number], np.uint64), mask)
        elif name == "createpolicy":  # what the cache is to keep: it changes nothing that is stored
            assert op[1] == "fractional" and operands[1] == "1.0", one
            self.put(operands[0], np.zeros(int(mask.sum()), np.uint64), mask)
        elif name == "prefetch":
            pass  # it changes nothing, and faults nowhere
        elif name == "bar":  # all of the warp are here, or of the block
            assert operands == (("-1",) if op[1] == "warp" else ("0",))
        elif name == "barrier":
            assert op[1] == "cluster" and op[3:] == ("aligned",), one
            if op[2] == "arrive":
                assert not self.arrived[mask].any(), "a thread arrives twice"
                self.arrived[mask] = True
            else:
                assert op[2] == "wait" and self.arrived[mask].all(), "a thread waits that has not arrived"
                self.arrived[mask] = self.writes_away[mask] = False
                self.met[mask] += 1
        elif name == "mapa":
            self.put(operands[0], self._of_other(operands, mask), mask)
        elif op[:2] == ("cp", "async"):
            self._late(op, operands, mask)
        elif name in ("ld", "st"):
            self._memory(op, operands, mask)
        elif name in ("atom", "red"):
            self._atomic(op, operands, mask)
        elif name == "shfl":
            self._shuffle(op, operands, mask)
        elif name == "cvta":
            self.put(operands[0], self.get(operands[1], 64, mask), mask)
        elif name == "setp":
            self._compare(op, operands, mask)
        elif name == "cvt":
            self._convert(op, operands, mask)
        elif name == "mov" and operands[0].startswith("{"):
            self._split(operands, mask)
        elif name == "mov" and operands[1].startswith("{"):
            self._join(operands, mask)
        elif op[-1] == "pred":
            values = [self.test(each, mask) for each in operands[1:]]
            combine: dict[str, Callable[..., Lanes]] = {
                "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
                "not": np.logical_not, "mov": np.copy,
            }  # fmt: skip
            self.put(operands[0], combine[name](*values), mask)
        elif name == "selp":
            bits = int(op[-1][1:])
            a, b = (self.get(each, bits, mask) for each in operands[1:3])
            self.put(operands[0], np.where(self.test(operands[3], mask), a, b), mask)
        else:
            self._arithmetic(one, mask)

    def _late(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        """Copies that go on by themselves, as late as they may: each when its thread waits for its
        group. What the memory holds is read then, and its place holds poison before."""
        if op[2] == "commit_group":
            self.groups[mask] += 1
        elif op[2] == "wait_group":
            done = np.where(mask, self.groups - int(operands[0]), -1)
            left: list[tuple[Lanes, Lanes, Lanes, Lanes]] = []
            for thread, group, to, source in self.late:
                here = group < done[thread]
                if here.any():
                    size = int(source[1][0])
                    self.memory.store(to[here], self.memory.load(source[0][here], size))
                if not here.all():
                    rest = ~here
                    left.append((thread[rest], group[rest], to[rest], source[:, rest]))
            self.late = left
        else:
            assert op[2:5] == ("ca", "shared", "global"), op
            size = int(operands[2])
            to, source = (self._address(each, mask) for each in operands[:2])
            self.memory.load(source, size)  # it is there, and aligned
            self.memory.store(to, np.full((to.size, size), 0xA5, np.uint8))
            sizes = np.full(to.size, size, np.uint64)
            self.late.append(
                (np.flatnonzero(mask), self.groups[mask], to, np.stack([source, sizes]))
            )

    def _of_other(self, operands: tuple[str, ...], mask: Lanes) -> Lanes:
        """Where what lies at an address of a block's shared memory lies in another block of its cluster: nowhere,
        for a rank that the cluster does not have (LLVM asks for such, and uses none)."""
        addresses, rank = self.get(operands[1], 64, mask), self.get(operands[2], 32, mask)
        block = self.special["%ctaid.x"][mask]
        away = rank.astype(np.int64) - (block % np.uint32(self.cluster)).astype(np.int64)
        strides = np.array([self.strides[int(each) >> 40 << 40] for each in addresses], np.int64)
        there = addresses + (away * strides).view(np.uint64)
        return np.where(rank < self.cluster, there, np.uint64(1 << 62))

    def _note_exchange(self, op: tuple[str, ...], addresses: Lanes, mask: Lanes) -> None:
        """What blocks write to others is read after all have met, and not written again before they have then."""
        met = self.met[mask]
        if op[:2] == ("st", "shared::cluster"):
            assert (met > 0).all(), "a block may not have started that another writes to"
            self.writes_away |= mask
            for address, when in zip(addresses.tolist(), met.tolist(), strict=True):
                assert self.read_at.get(address, -1) < when, "it may not have been read yet"
                assert self.written_from_away.get(address, -1) < when, "two write to one place"
                self.written_from_away[address] = when
        elif self.written_from_away and op[:2] == ("ld", "shared"):
            for address, when in zip(addresses.tolist(), met.tolist(), strict=True):
                if address in self.written_from_away:
                    assert self.written_from_away[address] < when, "it may not have come yet"
                    self.read_at[address] = when

    def _address(self, place: str, mask: Lanes) -> Lanes:
        found = re.fullmatch(r"\[(%?[\w$]+)(?:\+(-?\d+))?\]", place)
        assert found, place
        return self.get(found[1], 64, mask) + np.uint64(int(found[2] or 0) % (1 << 64))

    def _memory(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        if "L2::cache_hint" in op:
            policy = operands[-1]
            assert policy in self.registers, policy
            operands = operands[:-1]
        count = next((int(each[1:]) for each in op if re.fullmatch(r"v\d", each)), 1)
        bits = int(op[-1][1:])
        place = operands[1] if op[0] == "ld" else operands[0]
        addresses = self._address(place, mask)
        self._note_exchange(op, addresses, mask)
        others = operands[0] if op[0] == "ld" else operands[1]
        names = [each.strip() for each in others.strip("{}").split(",")]
        assert len(names) == count
        if "relaxed" in op:
            assert op[2:4] == ("gpu", "global"), op
        if op[:2] == ("ld", "relaxed"):
            self.asleep |= mask
        if op[0] == "ld":
            data = self.memory.load(addresses, count * bits // 8)
            # What is narrower than its register is extended, by its sign if its type has one.
            kind = _SIGNED[bits] if op[-1].startswith("s") else _WORDS[bits]
            words = _wide(np.ascontiguousarray(data).view(kind)).view(np.uint64)
            for k, register in enumerate(names):
                self.put(register, words[:, k], mask)
            return
        size = count * bits // 8
        self.bytes_stored[size] = self.bytes_stored.get(size, 0) + addresses.size
        rows = np.stack([self.get(each, bits, mask) for each in names], axis=1)
        self.memory.store(addresses, np.ascontiguousarray(rows).view(np.uint8))

    def _atomic(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        """An update in one step: a thread after the other, from the last."""
        bits = int(op[-1][1:])
        register, place, value = operands if op[0] == "atom" else ("_", *operands)
        kind = _SIGNED[bits] if op[-1].startswith("s") else _WORDS[bits]
        update: dict[str, Callable[..., Any]] = {"add": np.add, "min": np.minimum, "max": np.maximum}
        operation = next(update[each] for each in op if each in update)
        addresses, values = self._address(place, mask), self.get(value, bits, mask).view(kind)
        before = np.zeros(addresses.size, _WORDS[bits])
        for k in reversed(range(addresses.size)):
            data = self.memory.load(addresses[k : k + 1], bits // 8)
            held = np.ascontiguousarray(data).view(kind)[0]
            before[k] = held.view(_WORDS[bits])[0]
            self.memory.store(addresses[k : k + 1], operation(held, values[k : k + 1]).view(np.uint8).reshape(1, -1))
        self.put(register, before, mask)

    def _shuffle(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        target, value, source, clamp, members = operands
        assert (clamp, members) == ("0" if op[2] == "up" else "31", "-1")
        data = self.get(value, 32, mask).reshape(-1, WARP)
        index = (self.get(source, 32, mask) & np.uint32(31)).reshape(-1, WARP).astype(np.int64)
        if op[2] == "down":  # from so many lanes on; behind the last each has its own
            index = np.arange(WARP) + index
            index = np.where(index < WARP, index, np.arange(WARP))
        elif op[2] == "up":  # from so many lanes before; the first have their own
            index = np.arange(WARP) - index
            index = np.where(index >= 0, index, np.arange(WARP))
        else:
            assert op[2] == "idx"
        self.put(target, np.take_along_axis(data, index, axis=1).reshape(-1), mask)

    def _split(self, operands: tuple[str, ...], mask: Lanes) -> None:
        names = [each.strip() for each in operands[0].strip("{}").split(",")]
        whole = self._whole(operands[1])[mask]
        width = whole.dtype.itemsize * 8 // len(names)
        parts = np.ascontiguousarray(whole).view(_WORDS[width]).reshape(-1, len(names))
        for k, name in enumerate(names):
            self.put(name, parts[:, k], mask)

    def _join(self, operands: tuple[str, ...], mask: Lanes) -> None:
        names = [each.strip() for each in operands[1].strip("{}").split(",")]
        width = (64 if operands[0].startswith("%rd") else 32) // len(names)
        parts = np.stack([self.get(each, width, mask) for each in names], axis=1)
        whole = np.ascontiguousarray(parts).view(_WORDS[width * len(names)])
        self.put(operands[0], whole[:, 0], mask)

    # ----------------------------------------------------------------------- arithmetic

    def _typed(self, name: str, kind: str, mask: Lanes) -> Lanes:
        """An operand as PTX type `kind`."""
        bits = int(kind[1:])
        words = self.get(name, bits, mask)
        match kind[0]:
            case "s":
                return words.view(_SIGNED[bits])
            case "f":
                return words.view(_FLOATS[bits])
            case _:
                return words

    def _compare(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        kind = op[-1]
        a, b = (self._typed(each, kind, mask) for each in operands[1:3])
        word = op[1]
        nan = (np.isnan(a) | np.isnan(b)) if kind[0] == "f" else np.zeros(a.shape, bool)
        tests: dict[str, Callable[[], Lanes]] = {
            "eq": lambda: a == b, "ne": lambda: (a != b) & ~nan, "lt": lambda: a < b,
            "le": lambda: a <= b, "gt": lambda: a > b, "ge": lambda: a >= b,
            "equ": lambda: (a == b) | nan, "neu": lambda: a != b, "ltu": lambda: ~(a >= b),
            "leu": lambda: ~(a > b), "gtu": lambda: ~(a <= b), "geu": lambda: ~(a < b),
            "num": lambda: ~nan, "nan": lambda: nan,
        }  # fmt: skip
        assert len(op) == 3, op
        self.put(operands[0], tests[word](), mask)

    def _convert(self, op: tuple[str, ...], operands: tuple[str, ...], mask: Lanes) -> None:
        *how, to, source = op[1:]
        if to in ("f16x2", "bf16x2"):
            high, low = (
                _narrowed(self._typed(each, source, mask), to[:-2]).astype(np.uint32)
                for each in operands[1:3]
            )
            self.put(operands[0], (high << np.uint32(16)) | low, mask)
            return
        if "bf16" in (to, source):
            if source == "bf16":
                bits = self.get(operands[1], 16, mask).astype(np.uint32) << np.uint32(16)
            else:
                bits = _narrowed(self._typed(operands[1], source, mask), "bf16")
            self.put(operands[0], bits, mask)
            return
        value = self._typed(operands[1], source, mask)
        bits = int(to[1:])
        if to[0] == "f":
            if source[0] == "f" and how and how[0] == "rni":
                value = np.rint(value)
            elif source[0] == "f" and how and how[0] in ("rzi", "rmi", "rpi"):
                value = {"rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[how[0]](value)
            if source in ("s64", "u64") and bits == 32:
                value = value.astype(np.float64)  # exact for what tests use
            out = value.astype(_FLOATS[bits]).view(_WORDS[bits])
        elif source[0] == "f":
            rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[how[0]]
            kind = np.iinfo(_SIGNED[bits] if to[0] == "s" else _WORDS[bits])
            whole = rounding(value.astype(np.float64))
            clipped = np.clip(np.where(np.isnan(whole), 0.0, whole), float(kind.min), float(kind.max))
            out = np.array([int(each) % (1 << bits) for each in clipped], np.uint64)
        else:
            # Narrow results of integers are extended to the register.
            wide = value.astype(np.int64 if source[0] == "s" else np.uint64).view(np.uint64)
            out = wide.astype(_WORDS[bits])
            if to[0] == "s":
                out = out.view(_SIGNED[bits]).astype(np.int64).view(np.uint64)
        self.put(operands[0], out, mask)

    def _arithmetic(self, one: Instruction, mask: Lanes) -> None:
        op, operands = one.op, one.operands
        name, kind = op[0], op[-1]
        if op == ("prmt", "b32", "f4e"):  # four bytes from one of the first four on
            a, b, start = (self.get(each, 32, mask).astype(np.uint64) for each in operands[1:])
            moved = ((b << np.uint64(32)) | a) >> (np.uint64(8) * (start & np.uint64(3)))
            self.put(operands[0], moved.astype(np.uint32), mask)
            return
        if kind == "bf16x2":
            assert name in ("min", "max"), one.text
            words = [self.get(each, 32, mask) for each in operands[1:]]
            upper = np.uint32(0xFFFF0000)
            one_half, other_half = (
                _extreme(name, first.view(np.float32), second.view(np.float32), "NaN" in op).view(np.uint32)
                for first, second in (
                    (words[0] << np.uint32(16), words[1] << np.uint32(16)), (words[0] & upper, words[1] & upper)
                )
            )
            self.put(operands[0], (other_half & upper) | (one_half >> np.uint32(16)), mask)
            return
        bits = int(kind[1:])
        if name in ("fma", "mad") and kind[0] == "f":
            a, b, c = (self._typed(each, kind, mask) for each in operands[1:4])
            self.put(operands[0], fused(a, b, c).view(_WORDS[bits]), mask)
            return
        if name == "mad":
            a, b = (self._typed(each, kind, mask) for each in operands[1:3])
            wide = bits * 2 if op[1] == "wide" else bits
            product = _wide(a) * _wide(b)
            total = product.view(np.uint64) + self.get(operands[3], wide, mask).astype(np.uint64)
            self.put(operands[0], total.astype(_WORDS[wide]), mask)
            return
        if name == "mul" and op[1] in ("lo", "wide", "hi"):
            a, b = (_wide(self._typed(each, kind, mask)) for each in operands[1:3])
            product = a * b
            if op[1] == "hi":
                if bits == 64:
                    pairs = zip(a.tolist(), b.tolist(), strict=True)
                    high = [(x * y >> 64) % (1 << 64) for x, y in pairs]
                    product = np.array(high, np.uint64)
                else:
                    product = product >> bits
            out = product.view(np.uint64)
            width = bits * 2 if op[1] == "wide" else bits
            self.put(operands[0], out.astype(_WORDS[width]), mask)
            return
        if name in ("shl", "shr"):
            value = self._typed(operands[1], kind, mask)
            amount = np.minimum(self.get(operands[2], 32, mask), bits - 1).astype(value.dtype)
            over = self.get(operands[2], 32, mask) >= bits
            out = value << amount if name == "shl" else value >> amount
            if name == "shl" or kind[0] != "s":
                out = np.where(over, value.dtype.type(0), out)
            self.put(operands[0], out.view(_WORDS[bits]), mask)
            return
        if name == "shf":
            low, high, amount = (self.get(each, 32, mask).astype(np.uint64) for each in operands[1:])
            assert op[2] == "wrap"
            both, n = (high << np.uint64(32)) | low, amount & np.uint64(31)
            out = both >> n if op[1] == "r" else (both << n) >> np.uint64(32)
            self.put(operands[0], out.astype(np.uint32), mask)
            return
        if name == "prmt":
            self.put(operands[0], self._permuted(operands, mask), mask)
            return
        if name == "bfi":
            new, old, start, length = (self.get(each, 32, mask) for each in operands[1:5])
            field = ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
            field = field << start
            self.put(operands[0], (old & ~field) | ((new << start) & field), mask)
            return
        if name == "bfe":
            assert kind == "u32"
            value, start, length = (self.get(each, 32, mask) for each in operands[1:4])
            field = ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
            self.put(operands[0], (value >> start) & field, mask)
            return
        if name == "mov":
            self.put(operands[0], self.get(operands[1], bits, mask), mask)
            return
        values = [self._typed(each, kind, mask) for each in operands[1:]]
        if "approx" in op:
            out = _approximate(op, values[0], self.inexact)
        elif kind[0] == "f" and name in ("min", "max"):
            out = _extreme(name, values[0], values[1], "NaN" in op)
        else:
            out = _PLAIN[name](op, *values)
        assert out.dtype.itemsize * 8 == bits, one.text
        self.put(operands[0], out.view(_WORDS[bits]), mask)

    def _permuted(self, operands: tuple[str, ...], mask: Lanes) -> Lanes:
        a, b, how = (self.get(each, 32, mask) for each in operands[1:4])
        both = np.ascontiguousarray(np.stack([a, b], axis=1)).view(np.uint8)
        out = np.zeros((both.shape[0], 4), np.uint8)
        for k in range(4):
            nibble = (how >> np.uint32(4 * k)) & np.uint32(15)
            chosen = np.take_along_axis(both, (nibble & np.uint32(7)).astype(np.int64)[:, None], 1)
            sign = np.where(chosen[:, 0] >> 7, np.uint8(255), np.uint8(0))
            out[:, k] = np.where(nibble & np.uint32(8), sign, chosen[:, 0])
        return out.view(np.uint32)[:, 0]


def _narrowed(value: Lanes, kind: str) -> Lanes:
    """The bits of f32 values as f16 or bf16, rounded to the nearest even."""
    if kind == "f16":
        return value.astype(np.float16).view(np.uint16)
    bits = value.view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(value), np.uint64(0x7FFF), rounded).astype(np.uint16)


def _wide(value: Lanes) -> Lanes:
    is_signed = np.issubdtype(value.dtype, np.signedinteger)
    return value.astype(np.int64 if is_signed else np.uint64)


def _add(op: tuple[str, ...], a: Lanes, b: Lanes) -> Lanes:
    """The sum; of f32, also rounded to zero or up, where neither is more than 2^30 times the other
    (the sum is exact in f64 then)."""
    if "rz" not in op and "rp" not in op:
        return a + b
    exact = a.astype(np.float64) + b.astype(np.float64)
    out = exact.astype(np.float32)
    # Far smaller ones vanished in the f64 sum: which way they pulled is put back.
    lost = np.where(exact == b, np.sign(a), np.where(exact == a, np.sign(b), 0)).astype(np.float64)
    pulled = np.where(out == exact, lost, 0)
    if "rp" in op:
        short = (out.astype(np.float64) < exact) | (pulled > 0)
        return np.where(short, np.nextafter(out, np.float32(np.inf)), out)
    over = (np.abs(out.astype(np.float64)) > np.abs(exact)) | (pulled * np.sign(exact) < 0)
    return np.where(over, np.nextafter(out, np.float32(0)), out)


def _nearest(op: tuple[str, ...], found: Lanes) -> Lanes:
    assert op[1] == "rn", op
    return found


_APPROXIMATE: dict[str, Callable[[Lanes], Lanes]] = {
    "rcp": lambda x: 1.0 / x, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "ex2": np.exp2, "lg2": np.log2,
    "tanh": np.tanh,
}  # fmt: skip


def _approximate(op: tuple[str, ...], x: Lanes, inexact: bool) -> Lanes:
    """The hardware's approximation of f32s: rounded correctly, or (`inexact`) wrong by an ulp for half of all arguments,
    and always by the same for one argument."""
    assert op[-1] == "f32" and op[1] == "approx" and op[2:-1] in ((), ("ftz",)), op
    flushes = "ftz" in op

    def flushed(value: Lanes) -> Lanes:
        return np.where(np.abs(value) < np.float32(2.0**-126), np.copysign(np.float32(0), value), value)

    found = _APPROXIMATE[op[0]]((flushed(x) if flushes else x).astype(np.float64)).astype(np.float32)
    if inexact:
        mixed = x.view(np.uint32) * np.uint32(0x9E3779B1) >> np.uint32(30)
        finite = np.isfinite(found) & (found != 0)
        moved = np.nextafter(found, np.where(mixed == 1, np.float32(np.inf), np.float32(-np.inf)))
        found = np.where(finite & (mixed < 2), moved, found)
    return flushed(found) if flushes else found


_PLAIN: dict[str, Callable[..., Lanes]] = {
    "add": _add,
    "sub": lambda op, a, b: a - b,
    "mul": lambda op, a, b: a * b,
    "div": lambda op, a, b: a / b if op[-1][0] == "f" else a // b,
    "rem": lambda op, a, b: a % b,
    "and": lambda op, a, b: a & b,
    "or": lambda op, a, b: a | b,
    "xor": lambda op, a, b: a ^ b,
    "not": lambda op, a: ~a,
    "neg": lambda op, a: -a,
    "abs": lambda op, a: np.abs(a),
    "sqrt": lambda op, a: _nearest(op, np.sqrt(a)),
    "rcp": lambda op, a: _nearest(op, a.dtype.type(1) / a),
    "copysign": lambda op, a, b: np.copysign(b, a),  # the sign of the first, the size of the second
    "min": lambda op, a, b: np.minimum(a, b),
    "max": lambda op, a, b: np.maximum(a, b),
}


def _extreme(name: str, a: Lanes, b: Lanes, spreads: bool) -> Lanes:
    """min and max of floats: -0.0 is less than 0.0; a NaN wins where it `spreads`, else loses."""
    a_first = np.where(a == b, np.signbit(a), a < b)
    out = np.where(a_first == (name == "min"), a, b)
    if spreads:
        return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), out)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, out))


def fused(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, rounded once: f32 by way of f64 rounded to odd."""
    if a.dtype == np.float64:
        from ctypes import CDLL, c_double

        library = CDLL("libm.so.6")
        library.fma.restype, library.fma.argtypes = c_double, [c_double] * 3
        return np.array([library.fma(*each) for each in zip(a, b, c, strict=True)], np.float64)
    product, other = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + other
    back = total - product
    error = (product - (total - back)) + (other - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    bits = np.where(inexact, np.where(away, bits + 1, bits - 1), bits)
    return bits.view(np.float64).astype(np.float32)
