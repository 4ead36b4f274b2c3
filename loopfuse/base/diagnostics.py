"""Source places, diagnostics, and the three kinds of error.

Every message a user can meet is a `Diagnostic` with a word for a code; `docs/errors.md` lists
them and a test pins each. A user's mistake is a `UserError`, something we cannot do yet is a
`LimitError`, and a bug of ours is an `InternalError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loopfuse.base.printable import printable


@dataclass(frozen=True, slots=True)
class Source:
    """The text a program was read from. `name` is what messages print (a path, or `<string>`);
    `language` is `lf` or `mlir`."""

    name: str
    text: str
    language: str = "lf"

    def line(self, number: int) -> str:
        """The 1-based line `number`, without its newline; empty past the end.

        Only LF ends a line (a CR before it is dropped): `splitlines` would also split at form
        feeds and Unicode separators, where the parser counts no line.
        """
        lines = self.text.split("\n")
        return lines[number - 1].removesuffix("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: 1-based lines and columns, `end_column` exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """The stretch from the start of this span to the end of `other`."""
        return Span(self.line, self.column, other.end_line, other.end_column)


NOWHERE = Span(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Label:
    """A second place worth showing under the main one, with its own short text."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message: a code, one sentence, the place, why, and how to fix it.

    `label` stands beside the carets under `span`; `notes` are further facts, one sentence each;
    `fix` is the smallest change that helps, as the user would type it.
    """

    code: str
    message: str
    span: Span = NOWHERE
    label: str = ""
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    fix: str = ""
    severity: str = "error"
    source: Source | None = field(default=None, repr=False, compare=False)


class LoopfuseError(Exception):
    """Base of every error loopfuse raises on purpose; carries one or more diagnostics."""

    exit_code = 1

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = diagnostics
        super().__init__(printable(diagnostics[0].message) if diagnostics else "")

    def __str__(self) -> str:
        return "\n\n".join(render(diagnostic) for diagnostic in self.diagnostics)

    def __reduce__(self) -> tuple[type[LoopfuseError], tuple[Diagnostic, ...]]:
        # A pool of processes sends errors home; Exception's own way would give one word too little.
        return type(self), self.diagnostics

    def _render_traceback_(self) -> list[str]:
        # IPython asks. Whoever made a mistake sees where they made it, not sixty lines of ours.
        from loopfuse.base.notebooks import render_for_ipython

        return render_for_ipython(self, type(self)(*self.diagnostics))


class UserError(LoopfuseError, ValueError):
    """The program, an argument or a file is wrong; the message points at the place."""


class LimitError(LoopfuseError):
    """The program is right, but this version of loopfuse cannot do it; says what can be done."""


class InternalError(LoopfuseError):
    """A bug in loopfuse. Asks for a report."""

    exit_code = 70

    def _render_traceback_(self) -> list[str]:
        from loopfuse.base.notebooks import render_for_ipython

        return render_for_ipython(self, self, whole=True)  # ours are what the report needs


def render(diagnostic: Diagnostic) -> str:
    """Draw `diagnostic` as text: header, place, the lines it speaks of, notes and fix.

    Lines come in text order; the primary span is underlined with `^`, labels with `-`. Control
    characters are shown, never passed on.
    """
    out = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    source, span = diagnostic.source, diagnostic.span
    if source is not None and span.line > 0:
        marks = [(span, "^", diagnostic.label)]
        marks += [(label.span, "-", label.text) for label in diagnostic.labels]
        marks.sort(key=lambda mark: (mark[0].line, mark[0].column))
        width = len(str(max(mark[0].line for mark in marks)))
        out.append(f"{' ' * width}--> {source.name}:{span.line}:{span.column}")
        out.append(f"{' ' * width} |")
        shown = 0
        for mark, sign, text in marks:
            line = source.line(mark.line)
            if mark.line != shown:
                if shown and mark.line > shown + 1:
                    out.append(f"{' ' * width} ...")
                out.append(f"{mark.line:>{width}} | {line}".rstrip())
                shown = mark.line
            end = mark.end_column if mark.end_line == mark.line else len(line) + 1
            under = printable(line[mark.column - 1 : end - 1]).ljust(end - mark.column)
            carets = sign * max(1, len(under))
            before = printable(line[: mark.column - 1].ljust(mark.column - 1))
            pad = "".join("\t" if c == "\t" else " " for c in before)
            out.append(f"{' ' * width} | {pad}{carets} {text}".rstrip())
    elif source is not None:
        out.append(f"  --> {source.name}")
    pad = " " * (len(str(span.line)) if source is not None and span.line else 1)
    out += [f"{pad} = note: {note}" for note in diagnostic.notes]
    if diagnostic.fix:
        out.append(f"{pad} = fix: {diagnostic.fix}")
    return printable("\n".join(out))
