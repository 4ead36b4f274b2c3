"""Line information: which line of the source each instruction comes from.

Operations carry MLIR locations; LLVM IR gets `!dbg` metadata of the kind that makes `.file` and
`.loc` directives and nothing else. The instructions are the same with it and without. Of the
source's path only the file's name is kept, so that output does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from loopfuse.base.diagnostics import Span
from loopfuse.base.examples import example_named
from loopfuse.codegen.ir import Place


def locations(source_name: str, spans: Mapping[str, Span]) -> dict[str, Place]:
    """The location of each statement whose place in the source is known."""
    name = file_name(source_name)
    return {
        statement: Place(name, span.line, span.column)
        for statement, span in spans.items()
        if span.line > 0
    }


def file_name(source_name: str) -> str:
    """The name of the file alone, in ASCII, as PTX is; of `example:NAME`, the file that it is."""
    path = example_named(source_name) or PurePath(source_name)
    text = path.name.encode("ascii", "replace").decode()
    return "".join("?" if character in '"\\' or character < " " else character for character in text)


@dataclass(slots=True)
class DebugInfo:
    """The metadata of one module, numbered as it is asked for."""

    lines: list[str] = field(default_factory=list[str])
    file: int = -1
    scope: int = -1
    known: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def node(self, text: str) -> int:
        """A new metadata node; its number."""
        self.lines.append(f"!{len(self.lines)} = {text}")
        return len(self.lines) - 1

    def start(self, name: str, first: Place) -> int:
        """A new function, which stands where its first statement does; the node of its scope."""
        if self.file < 0:
            # A unit is node 0, the flags node 1; the file and the type come after them.
            self.node(
                "distinct !DICompileUnit(language: DW_LANG_C99, file: !2, "
                'producer: "loopfuse", isOptimized: true, runtimeVersion: 0, '
                "emissionKind: DebugDirectivesOnly)"
            )
            self.node('!{i32 2, !"Debug Info Version", i32 3}')
            self.file = self.node(f'!DIFile(filename: "{first.file}", directory: "")')
            self.node("!DISubroutineType(types: !{})")
        line = first.line
        self.scope = self.node(
            f'distinct !DISubprogram(name: "{name}", scope: !2, file: !2, line: {line}, '
            f"scopeLine: {line}, type: !3, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)"
        )
        self.known = {}
        return self.scope

    def at(self, location: Place) -> int:
        """The node of a place in the current function."""
        line, column = location.line, location.column
        if (line, column) not in self.known:
            self.known[line, column] = self.node(
                f"!DILocation(line: {line}, column: {column}, scope: !{self.scope})"
            )
        return self.known[line, column]

    def text(self) -> list[str]:
        """The lines to end a module with; none where no function had a place."""
        if self.file < 0:
            return []
        return ["!llvm.dbg.cu = !{!0}", "!llvm.module.flags = !{!1}", *self.lines]
