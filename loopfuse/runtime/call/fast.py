"""Generated call paths: what a second call of the same kind runs instead of the checked one.

The checked path (`arrays.match`, preconditions, `cpu.run` or `cuda.run`) takes tens of
microseconds. After it has accepted a call, a flat Python function is written for calls of that
kind: the same types, dtypes, device and names. The function tests again whatever can change and
returns MISS wherever a test is false, so that the checked path decides, and raises its own errors:

- of each argument: type, dtype, contiguity, read-only flag, device;
- shapes, strides of views, sizes by name and integers that a formula reads: they are the key of a
  table, in which only calls stand that the checked path accepted (sizes agree, preconditions hold,
  32-bit indices suffice);
- other integers: their range; arrays that are written: overlap with the others.

NumPy's arrays, and tensors of a library that has a C function for it, are read all at once (`fast_native`), where the
last call was like this one.

Kernels with checked subscripts look at their error word where the checked path does: on the CPU when
they end, on a GPU before the next call.

What follows from the key alone (grids, workspaces, argument blocks) is kept in states, which
calls take from a list and put back, so that any number of threads may call at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays.arguments import Signature
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.arrays.native_reader import LOWEST, Where
from loopfuse.runtime.arrays.readers import Reader, maker_for, strides_of
from loopfuse.runtime.binding import numpy_dtype
from loopfuse.runtime.call.call_kinds import CallKind, Passed, names_read
from loopfuse.runtime.call.drafts import Clears, Draft, Making, local_variable
from loopfuse.runtime.call.fast_native import ASK_ADDRESSES, Native, native_for
from loopfuse.runtime.devices.gpu_clearing import MOST_ARRAYS
from loopfuse.runtime.devices.steps import launches_of
from loopfuse.runtime.formulas import evaluate, names_in
from loopfuse.runtime.unwritten import Boxes, are_untouched, boxes_at, clear_boxes, descriptions

MISS: Any = type("Miss", (), {"__repr__": lambda _: "MISS"})()
TABLE_LIMIT = 128


class Machine:
    """The part of a call path that belongs to the device; see `fast_cpu` and `fast_gpu`."""

    def guard(self, draft: Draft) -> str:
        """A condition under which the call path holds; empty for none."""
        raise NotImplementedError

    where: Where | None = None
    """The GPU that it launches on."""

    clear: Callable[[Any, Any, int], None] = staticmethod(clear_boxes)
    """Zeros in parts of a new array: `unwritten.clear_boxes` of the array itself and subscripts, or a
    function of its address and pieces of memory (packed); and the stream."""

    def can_weave(self) -> bool:
        """Whether a launch may clear parts of new arrays itself."""
        return False

    def plan_clears(self, making: Making, outputs: Mapping[str, Output]) -> Clears:
        """How the outputs of calls with these sizes are cleared."""
        return Clears({name: one.boxes for name, one in outputs.items()})

    def error_word(self, making: Making) -> int:
        """The address of the word where launches with this state note the first offender."""
        raise NotImplementedError

    def prepare(
        self, draft: Draft, manifest: Mapping[str, Any], native: Native | None, allocates: bool
    ) -> str:
        """Write what comes before any allocation; source of the stream launched on ("0": none).
        `allocates`: the call makes arrays or workspaces."""
        raise NotImplementedError

    def finish(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """Write what comes behind the launches."""

    def workspace(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """Write what gives the launches their workspaces."""
        raise NotImplementedError

    def release(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """Write what lets the workspaces go, when the call is over however it ends."""

    def launch(
        self, draft: Draft, site: int, one: Mapping[str, Any], variables: tuple[str, ...]
    ) -> None:
        """Write launch number `site`, inside host loops over `variables`."""
        raise NotImplementedError

    def steps(self, draft: Draft) -> bool:
        """Write all steps, or say False."""
        return False

    def accepts(self, manifest: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Whether calls with these sizes are to be kept."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Output:
    """An array that a call makes: which of those, its shape and the bytes of an element; what is to be
    cleared of it (None: all), and whether no launch touches that."""

    number: int
    shape: tuple[int, ...]
    item: int
    boxes: Boxes | None
    untouched: bool


# ------------------------------------------------------------------------------------ the path


class CallPath:
    """The generated function for one kind of call, and its table of accepted keys."""

    def __init__(
        self,
        kind: CallKind,
        readers: Mapping[str, Reader],
        signature: Signature,
        manifest: Mapping[str, Any],
        machine: Machine,
    ) -> None:
        self._kind, self._readers = kind, readers
        self._signature, self._manifest, self._machine = signature, manifest, machine
        self._read = names_read(manifest, signature)
        self._unwritten = descriptions(manifest)
        self._weaves = machine.can_weave() and any(
            box.get("untouched") for one in kind.omitted for box in self._unwritten.get(one.name) or ()
        )
        self._table: dict[Any, tuple[list[list[Any]], Callable[[], list[Any] | None]]] = {}
        self._local = {one.name: f"a{k}" for k, one in enumerate(kind.passed)}
        constants = dict(kind.constants)
        # In the key: shapes, sizes, and integers that formulas read.
        self._keyed = tuple(
            one
            for one in kind.passed
            if one.type is not type(None)
            and one.name not in constants
            and (one.dtype is not None or one.parameter is None or one.name in self._read)
        )
        self._draft = Draft(self._weaves)
        self._stream = "0"
        self._native = native_for(kind, machine.where)
        self.call: Callable[[Any, Any], Any] = self._write()

    @property
    def source(self) -> str:
        """The generated text, for tests and the curious."""
        return "\n".join(self._draft.lines)

    # ---- learning

    @staticmethod
    def can_write(kind: CallKind, manifest: Mapping[str, Any], signature: Signature) -> bool:
        """A formula that reads a float has no key: 0.0 and -0.0 would be one."""
        read = names_read(manifest, signature)
        floats = (
            one.name
            for one in kind.passed
            if one.parameter and not one.parameter.is_array and one.parameter.dtype.is_float
        )
        return not read.intersection(floats) and all(maker_for(kind.library, kind.device, p.dtype) for p in kind.omitted)

    def learn(self, args: Sequence[Any], kwargs: Mapping[str, Any], matched: Match) -> None:
        """Keep a call of this kind that the checked path has accepted."""
        known = set(self._signature.sizes) | {one.name for one in self._keyed} | dict(
            self._kind.constants
        ).keys()
        values = {name: value for name, value in matched.values.items() if name in known}
        if not self._machine.accepts(self._manifest, values):
            return
        parts: list[Any] = []
        for one in self._keyed:
            value = kwargs[one.where] if isinstance(one.where, str) else args[one.where]
            if one.name in self._kind.strided:
                parts.append((tuple(value.shape), strides_of(value)))
            else:
                parts.append(tuple(value.shape) if one.dtype is not None else _plain(value))
        values |= matched.strides
        sizes = {name: found.end - found.start for name, found in matched.views.items()}
        before = {name: matched.views[name].pointer - matched.views[name].start for name in self._kind.strided}
        shapes = {
            p.name: tuple(int(evaluate(extent, values)) for extent in p.extents or ())
            for p in matched.omitted
        }
        for parameter in matched.omitted:
            sizes[parameter.name] = parameter.dtype.bytes * int(np.prod(shapes[parameter.name], dtype=object))
        if len(self._table) >= TABLE_LIMIT:
            self._table.clear()
        make = self._draft.maker(lambda: self._making(values, sizes, shapes, before))
        free: list[list[Any]] = []
        if self._weaves and (state := make()) is not None:
            free.append(state)  # now: the next call may be captured, where no code can be loaded
        self._table[parts[0] if len(parts) == 1 else tuple(parts)] = (free, make)

    def _making(
        self,
        values: Mapping[str, Any],
        sizes: Mapping[str, int],
        shapes: Mapping[str, tuple[int, ...]],
        before: Mapping[str, int],
    ) -> Making:
        """What a state for these sizes is made from."""
        making = Making(values, sizes, shapes, before)
        outputs: dict[str, Output] = {}
        for number, one in enumerate(self._kind.omitted):
            described = self._unwritten.get(one.name)
            if described:
                boxes = boxes_at(described, values, shapes[one.name])
                untouched = are_untouched(described, values)
                outputs[one.name] = Output(number, shapes[one.name], one.dtype.bytes, boxes, untouched)
        if self._manifest.get("checks"):
            making.error_word = self._machine.error_word(making)
        making.clears = self._machine.plan_clears(making, outputs)
        return making

    # ---- writing

    def _write(self) -> Callable[[Any, Any], Any]:
        draft, kind = self._draft, self._kind
        draft.names |= {"MISS": MISS, "TABLE": self._table}
        for reader in self._readers.values():
            draft.names |= reader.names
        draft.add("def call(args, kwargs):")
        draft.depth = 1
        self._write_names()
        scalars = f"({''.join(f'{self._local[one.name]}, ' for one in self._keyed if one.dtype is None)})"
        draft.add("try:")
        draft.depth = 2
        conditions, lines, arrays = self._tests()
        self._write_conditions(conditions, lines)
        if self._native:
            self._native.write_reading(draft, scalars)
            draft.add("if r < 0:")
            draft.depth = 3
        self._write_conditions(arrays, [])
        self._write_key()
        draft.depth = 1
        draft.add("except Exception:", "    return MISS")
        if self._native:
            draft.add("if r < 0:")
            draft.depth = 2
        # An entry of the table: the states that no call holds, and how to make one.
        draft.add(
            "if entry is None:", "    return MISS",
            "free, make = entry",
            "try:", "    s = free.pop()",
            "except IndexError:", "    s = make()", "    if s is None:", "        return MISS",
        )  # fmt: skip
        if self._native:
            draft.add(f"HOT[0] = free, {scalars}")
        draft.depth = 1
        draft.add("try:")
        draft.depth = 2
        self._stream = self._machine.prepare(
            draft, self._manifest, self._native, bool(kind.omitted or self._manifest["buffers"])
        )
        self._write_outputs()
        self._write_pointers()
        self._machine.workspace(draft, self._manifest)
        self._write_scalars()
        self._write_steps()
        self._machine.finish(draft, self._manifest)
        made = [f"o{k}" for k in range(len(kind.omitted))]
        draft.add(f"return {made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}" if made else "return None")
        draft.depth = 1
        draft.add("finally:")
        draft.depth = 2
        self._machine.release(draft, self._manifest)
        draft.add("free.append(s)")
        return draft.finish()

    def _write_names(self) -> None:
        """The arguments as locals."""
        draft = self._draft
        named = [one for one in self._kind.passed if isinstance(one.where, str)]
        placed = [one for one in self._kind.passed if not isinstance(one.where, str)]
        draft.add(f"if len(args) != {len(placed)}:", "    return MISS")
        if named:
            names = draft.mention("NAMES", tuple(one.where for one in named))
            draft.add(f"if tuple(kwargs) != {names}:", "    return MISS")
            draft.add(f"{', '.join(self._local[one.name] for one in named)}, = kwargs.values()")
        else:
            draft.add("if kwargs:", "    return MISS")
        if placed:
            draft.add(f"{', '.join(self._local[one.name] for one in placed)}, = args")

    def _tests(self) -> tuple[list[str], list[str], list[str]]:
        """Every test but overlap: conditions of what is no array, lines that test numbers, and
        conditions of the arrays."""
        draft = self._draft
        constants = dict(self._kind.constants)
        conditions = [condition] if (condition := self._machine.guard(draft)) else []
        lines: list[str] = []
        arrays: list[str] = []
        for one in self._kind.passed:
            local = self._local[one.name]
            if one.type is type(None):
                conditions.append(f"{local} is None")
            elif one.dtype is not None:
                names = {"a": local, "d": draft.mention("D", one.dtype), "t": draft.mention("T", one.type)}
                arrays.append(self._readers[one.name].test.format(**names))
            else:
                kind = draft.mention("T", one.type)
                conditions.append(f"type({local}) is {kind}")
                if one.name in constants:
                    conditions.append(f"{local} == {constants[one.name]}")
                else:
                    lines += self._scalar_lines(one, local)
        return conditions, lines, arrays

    def _write_conditions(self, conditions: list[str], lines: list[str]) -> None:
        if conditions:
            self._draft.add("if not (" + " and ".join(conditions) + "):", "    return MISS")
        self._draft.add(*lines)

    def _write_key(self) -> None:
        """The key's entry; the arrays' addresses."""
        parts = [self._key_part(one) for one in self._keyed]
        key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        # The last call's entry is found without a hash of all shapes.
        self._draft.names["LAST"] = [(None, None)]
        self._draft.add(
            f"key = {key}", "known, entry = LAST[0]",
            "if known != key:", "    entry = TABLE.get(key)",
            "    if entry is not None:", "        LAST[0] = key, entry",
        )  # fmt: skip
        for one in self._arrays():
            pointer = self._readers[one.name].pointer.format(a=self._local[one.name])
            self._draft.add(f"p_{self._local[one.name]} = {pointer}")

    def _key_part(self, one: Passed) -> str:
        local = self._local[one.name]
        if one.name in self._kind.strided:
            return f"({local}.shape, {self._readers[one.name].strides.format(a=local)})"
        return f"{local}.shape" if one.dtype is not None else local

    def _scalar_lines(self, one: Passed, local: str) -> list[str]:
        """A scalar as a plain number of its dtype's sort, in range."""
        dtype = one.parameter.dtype if one.parameter else DType.I64
        sort = bool if dtype is DType.BOOL else float if dtype.is_float else int
        lines = [] if one.type is sort else [f"{local} = {sort.__name__}({local})"]
        if dtype.is_integer and one not in self._keyed:
            low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
            high = (1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)) - 1
            if self._kind.bits == 32:  # see kernels.index_bits_for
                low, high = max(low, 1 - (1 << 31)), min(high, (1 << 31) - 1)
            lines += [f"if not {low} <= {local} <= {high}:", "    return MISS"]
        return lines

    def _arrays(self) -> list[Passed]:
        return [one for one in self._kind.passed if one.dtype is not None]

    def _write_outputs(self) -> None:
        draft = self._draft
        for number, parameter in enumerate(self._kind.omitted):
            found = maker_for(self._kind.library, self._kind.device, parameter.dtype)
            assert found is not None  # `can_write`
            reader, dtype = found
            draft.names |= reader.names
            name = parameter.name
            shape = draft.field(("shape", name), lambda m, name=name: m.shapes[name])
            words = {"shape": shape, "d": draft.mention("D", dtype)}
            boxes = self._unwritten.get(name)
            # Subscripts, or pieces of memory on a GPU; None for all of it.
            parts = self._draft.field(("unwritten", name), lambda m, n=name: m.clears.parts[n]) if boxes else None
            made = (reader.zeros if boxes is None else reader.empty).format(**words)
            if parts:  # whether anything is kept depends on the sizes
                made = f"{made} if {parts} is not None else {reader.zeros.format(**words)}"
            draft.add(
                "try:", f"    o{number} = {made}",
                "except (MemoryError, ValueError):", "    return MISS",
                f"p_o{number} = {reader.pointer.format(a=f'o{number}')}",
            )  # fmt: skip
            if parts:
                draft.names["CLEAR_PARTS"] = self._machine.clear
                where = f"o{number}" if self._machine.clear is clear_boxes else f"p_o{number}"
                draft.add(f"if {parts}:", f"    CLEAR_PARTS({where}, {parts}, {self._stream})")

    def _pointer_locals(self) -> dict[str, str]:
        found = {one.name: f"p_{self._local[one.name]}" for one in self._arrays()}
        return found | {p.name: f"p_o{k}" for k, p in enumerate(self._kind.omitted)}

    def _start(self, one: Passed) -> str:
        """The address of an array's lowest byte."""
        local = self._local[one.name]
        if one.name not in self._kind.strided:
            return f"p_{local}"
        before = self._draft.field(("before", one.name), lambda m: m.before[one.name])
        return f"p_{local} - {before}"

    def _misplaced(self) -> str:
        """A condition that is true when an element is not at a multiple of its size."""
        tests = {
            f"p_{self._local[one.name]} & {one.parameter.dtype.bytes - 1}"
            for one in self._arrays()
            if one.parameter and one.parameter.dtype.bytes > 1
        }
        return " or ".join(sorted(tests))

    def _overlaps(self) -> list[str]:
        """Conditions, one of which is true when a written array shares memory with another."""
        arrays = self._arrays()
        found: list[str] = []
        for position, one in enumerate(arrays):
            for other in arrays[position + 1 :]:
                modes = {each.parameter.mode for each in (one, other) if each.parameter}
                if modes == {"in"}:
                    continue
                a, b = (self._start(each) for each in (one, other))
                m, n = (f"n_{self._local[each.name]}" for each in (one, other))
                found.append(f"({a} < {b} + {n} and {b} < {a} + {m} and {m} and {n})")
        return found

    def _write_pointers(self) -> None:
        """before: every address tested and written
        after: nothing at all where the addresses are those of the state's last call"""
        draft = self._draft
        where = self._pointer_locals()
        if not where:
            return
        last = draft.field("pointers", lambda _: None)
        every = f"{', '.join(where.values())},"
        if self._native:
            if not self._native.makes:
                draft.add(ASK_ADDRESSES)
                draft.depth += 1
            given = "".join(f"p_{self._local[one.name]}, " for one in self._arrays())
            made = "".join(f"p_o{k}, " for k in range(len(self._kind.omitted)))
            self._native.write_addresses(draft, given, made)
        else:
            draft.add(f"at = {every}")
        draft.add(f"if {last} != at:")
        draft.depth += 1
        draft.add(f"if min(at) < {LOWEST}:", "    return MISS")  # no elements, or no memory
        overlaps = self._overlaps()
        if overlaps:
            for one in self._arrays():
                name = one.name
                size = draft.field(("bytes", name), lambda m, name=name: m.bytes[name])
                draft.add(f"n_{self._local[name]} = {size}")
            draft.add(f"if {' or '.join(overlaps)}:", "    return MISS")
        misplaced = self._misplaced()
        if misplaced:
            draft.add(f"if {misplaced}:", "    return MISS")
        # An interrupt between two writes must not leave addresses that `last` does not tell of.
        draft.add(f"{last} = None")
        aligned = f"not ({' | '.join(where.values())}) & 15"
        for site, one in enumerate(launches_of(self._manifest["steps"])):
            for slot, argument in enumerate(one["arguments"]):
                if argument["kind"] == "pointer" and argument["name"] in where:
                    draft.add(f"{words_of(draft, site, one)}[{slot}] = {where[argument['name']]}")
                elif argument["kind"] == "aligned":
                    draft.add(f"{words_of(draft, site, one)}[{slot}] = {aligned}")
        if self._weaves:
            addresses = draft.field("addresses", lambda m: m.clears.clearing and m.clears.clearing.addresses)
            draft.add(f"if {addresses} is not None:")
            draft.add(*(f"    {addresses}[{k}] = p_o{k}" for k in range(min(MOST_ARRAYS, len(self._kind.omitted)))))
        draft.add(f"{last} = at")
        draft.depth -= 1
        if self._native:
            if self._native.makes:
                draft.add("if r:")
                draft.depth += 1
            self._native.write_plan(draft, self._stream)
            draft.depth -= 1

    def _write_scalars(self) -> None:
        """The scalars that are not in the key, into every argument block."""
        draft = self._draft
        keyed = {one.name for one in self._keyed} | dict(self._kind.constants).keys()
        dynamic = {
            one.name: one.parameter.dtype
            for one in self._kind.passed
            if one.parameter and not one.parameter.is_array and one.name not in keyed
        }
        for site, one in enumerate(launches_of(self._manifest["steps"])):
            for slot, argument in enumerate(one["arguments"]):
                dtype = dynamic.get(argument.get("name", ""))
                if argument["kind"] != "value" or dtype is None:
                    continue
                local = self._local[argument["name"]]
                if dtype is DType.F32:
                    floats = draft.field(
                        ("floats", site), lambda m, k=site, a=one["arguments"]: m.block(k, a).floats
                    )
                    draft.add(f"{floats}[{2 * slot}] = {local}")
                elif dtype is DType.F64:
                    doubles = draft.field(
                        ("doubles", site), lambda m, k=site, a=one["arguments"]: m.block(k, a).doubles
                    )
                    draft.add(f"{doubles}[{slot}] = {local}")
                else:
                    if dtype.is_float:
                        local = f"{draft.mention('BITS', _bits_of(dtype))}({local})"
                    draft.add(f"{words_of(draft, site, one)}[{slot}] = {local}")

    def _write_steps(self) -> None:
        draft = self._draft
        sites = {id(one): k for k, one in enumerate(launches_of(self._manifest["steps"]))}

        def bound(text: str, variables: tuple[str, ...]) -> str:
            inner = names_in(text) & set(variables)
            return draft.over(text, variables) if inner else draft.number(text)

        def visit(steps: Sequence[Mapping[str, Any]], variables: tuple[str, ...]) -> None:
            for step in steps:
                if "launch" in step:
                    one = step["launch"]
                    site = sites[id(one)]
                    for slot, argument in enumerate(one["arguments"]):
                        if argument["kind"] == "value" and argument["name"] in variables:
                            words = words_of(draft, site, one)
                            draft.add(f"{words}[{slot}] = {local_variable(argument['name'])}")
                    self._machine.launch(draft, site, one, variables)
                    continue
                loop = step["loop"]
                lower, upper = (bound(str(loop[k]), variables) for k in ("lower", "upper"))
                draft.add(
                    f"for {local_variable(loop['var'])} in range({lower}, {upper}, {int(loop['step'])}):"
                )
                draft.depth += 1
                visit(loop["body"], (*variables, loop["var"]))
                draft.add("pass")
                draft.depth -= 1

        if not self._machine.steps(draft):
            visit(self._manifest["steps"], ())


def words_of(draft: Draft, site: int, one: Mapping[str, Any]) -> str:
    """The words of a launch's argument block, as source."""
    arguments = one["arguments"]
    return draft.field(("words", site), lambda m: m.block(site, arguments).words)


def _plain(value: Any) -> Any:
    return bool(value) if isinstance(value, (bool, np.bool_)) else int(value)


def _bits_of(dtype: DType) -> Callable[[float], int]:
    """The bits of a number rounded to f16 or bf16, as `arguments.check_scalar` rounds it."""
    kind = numpy_dtype(dtype)

    def bits(value: float) -> int:
        with np.errstate(over="ignore"):
            return int(np.asarray(value).astype(kind).view(np.uint16))

    return bits
