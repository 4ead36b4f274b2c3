"""LLVM's text while it grows: its lines, the names of values, and what is declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loopfuse.codegen.build import Scope
from loopfuse.codegen.ir import MemRefType, Operation, Type, Value
from loopfuse.codegen.llvm.debug_info import DebugInfo
from loopfuse.codegen.llvm.device import Device
from loopfuse.codegen.llvm.types import llvm_type

SCOPES, LISTS, LOOPS = 1_000_001, 2_000_000, 3_000_000
"""Where the numbers of metadata start: of scopes (their domain's comes before), of lists of scopes, and of what LLVM is told of loops."""
NONTEMPORAL = "!999998"
"""The access group of nontemporal stores: LLVM's vectorisers keep it, and make vectors of it."""


@dataclass(slots=True)
class Writer:
    """The text of one module. `halves_as_bits`: f16 and bf16 are i16."""

    halves_as_bits: bool
    device: Device
    lines: list[str] = field(default_factory=list[str])
    globals: list[str] = field(default_factory=list[str])
    buffers: dict[str, MemRefType] = field(default_factory=dict[str, MemRefType])
    """Buffers of shared memory of the function that comes next."""
    placed: dict[str, str] = field(default_factory=dict[str, str])
    """Pointers to buffers that are parts of what the launch gives a block."""
    declared: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[Value, str] = field(default_factory=dict[Value, str])
    """Values of the function at hand: `%v3`, or the text of a constant."""
    kinds: dict[Type, str] = field(default_factory=dict[Type, str])
    count: int = 0
    in_kernel: bool = False
    label: str = ""
    """The block that lines now go to."""
    apart: list[str] = field(default_factory=list[str])
    """Blocks that rarely run, which stand at the end of the function: the others then follow each other."""
    has_apart: bool = False
    """A function is called rarely, and stands apart."""
    has_wide: bool = False
    """A function takes the widest vectors that there are."""
    is_rare: bool = False
    """A branch says that it is rarely taken."""
    loops_by_two: int = 0
    """Loops of which LLVM makes two vectors at a time."""
    is_nontemporal: bool = False
    """A store is nontemporal."""
    scopes: dict[int, int] = field(default_factory=dict[int, int])
    """The numbers of the metadata of the function's scopes, by theirs."""
    lists: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """The same of lists of such numbers, of the whole module."""
    debug: DebugInfo = field(default_factory=DebugInfo)
    total: int = 0
    """Scopes of the module."""
    place: str = ""
    """What ends a line: the source place of the last operation that had one."""

    def kind(self, attribute: Type) -> str:
        """The LLVM type of an MLIR type."""
        found = self.kinds.get(attribute)
        if found is None:
            found = self.kinds[attribute] = llvm_type(attribute, self.halves_as_bits)
        return found

    def fresh(self) -> str:
        """The name of a new value."""
        self.count += 1
        return f"%v{self.count}"

    def put(self, text: str) -> str:
        """A new instruction; the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def define(self, operation: Operation, text: str) -> None:
        """A new instruction that makes the result of `operation`."""
        self.names[operation.results[0]] = self.put(text)

    def typed(self, value: Value) -> str:
        """A value with its type, as an operand."""
        return f"{self.kind(value.type)} {self.names[value]}"

    def start(self, label: str) -> None:
        """A new block."""
        self.lines.append(f"{label}:")
        self.label = label

    def rarely(self) -> str:
        """What ends a branch whose first way is rarely taken."""
        self.is_rare = True
        return ", !prof !999999"

    def nontemporal(self) -> str:
        """What ends a store that need not stay in caches, where LLVM's vectoriser keeps it (`llvm.nontemporal`)."""
        self.is_nontemporal = True
        return f", !llvm.access.group {NONTEMPORAL}"

    def by_two(self) -> str:
        """What ends the branch back to a loop of which LLVM makes two vectors at a time."""
        self.loops_by_two += 1
        return f", !llvm.loop !{LOOPS + self.loops_by_two}"

    def loop_text(self) -> list[str]:
        """The metadata of such loops."""
        if not self.loops_by_two:
            return []
        words = f'!{LOOPS} = !{{!"llvm.loop.interleave.count", i32 2}}'
        numbers = range(LOOPS + 1, LOOPS + 1 + self.loops_by_two)
        return [words, *(f"!{number} = distinct !{{!{number}, !{LOOPS}}}" for number in numbers)]

    def declare_scopes(self, numbers: Sequence[int]) -> None:
        """Scopes of accesses that do not meet, from here on, until they are declared again."""
        for number in numbers:
            known = self.scopes.setdefault(number, SCOPES + self.total)
            self.total += 1
            self.lines.append(f"  call void @llvm.experimental.noalias.scope.decl(metadata !{self._list((known,))})")

    def scoped(self, scope: Scope | None) -> str:
        """What ends an access of a scope."""
        if scope is None:
            return ""
        own, others = self._list((self.scopes[scope[0]],)), self._list(tuple(self.scopes[each] for each in scope[1]))
        return f", !alias.scope !{own}, !noalias !{others}"

    def _list(self, numbers: tuple[int, ...]) -> int:
        return self.lists.setdefault(numbers, LISTS + len(self.lists))

    def scope_text(self) -> list[str]:
        """The metadata of all scopes: a domain, the scopes, lists of them."""
        if not self.total:
            return []
        domain = SCOPES - 1
        lines = [f"!{domain} = distinct !{{!{domain}}}"]
        lines += [f"!{SCOPES + k} = distinct !{{!{SCOPES + k}, !{domain}}}" for k in range(self.total)]
        for numbers, known in self.lists.items():
            lines.append(f"!{known} = !{{{', '.join(f'!{each}' for each in numbers)}}}")
        return lines

    def fresh_labels(self, *names: str) -> list[str]:
        """Labels of one number that no block has."""
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def intrinsic(self, name: str, kind: str, arguments: list[tuple[str, str]]) -> str:
        """The text of a call, with its declaration noted."""
        self.declared[name] = f"{kind} @{name}({', '.join(each[0] for each in arguments)})"
        return f"call {kind} @{name}({', '.join(' '.join(each) for each in arguments)})"
