"""Writes the tour into docs/architecture.md: one program at every floor, in what the compiler itself prints.

    python tests/tools/make_tour.py [--check]

`--check` changes nothing and exits 1 if the page is not current (a test runs it).
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the checkout that this file is in, installed or not

from loopfuse import pipeline  # noqa: E402
from loopfuse.base.diagnostics import Source  # noqa: E402
from loopfuse.base.options import Options, Target  # noqa: E402

PAGE = ROOT / "docs" / "architecture.md"
START = "<!-- tour: tests/tools/make_tour.py -->"
END = "<!-- end of tour -->"
WIDTH = 150
"""Characters of a line; what is behind them is left out."""
TREES = 36
"""Lines of the tree: its buffers and the first of its three ways of running a tile."""

Lines = Sequence[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """One floor: the stage, its title, where its code is, what to look at, and which lines show it."""

    stage: str
    title: str
    rooms: tuple[str, ...]
    text: str
    choose: Callable[[Lines], Lines] = list


def first(count: int) -> Callable[[Lines], Lines]:
    """So many lines."""
    return lambda lines: [*lines[:count], "..."] if len(lines) > count else lines


def like(*patterns: str, most: int = 1) -> Callable[[Lines], Lines]:
    """The first lines that look like each pattern, `most` of each, without their indentation."""

    def choose(lines: Lines) -> Lines:
        found: list[str] = []
        for pattern in patterns:
            shown = [line.strip() for line in lines if re.search(pattern, line)]
            found += [*shown[:most], "..."]
        return found

    return choose


STOPS = (
    Stop("parse", "Module: what was written", ("frontend/lf/door.py", "lang/surface/syntax.py"),
         "Lark reads the text into a tree that keeps everything, comments too: the formatter prints it. No name "
         "is known yet, and nothing has a type."),
    Stop("check", "Program: what it means", ("lang/check/check.py", "lang/nodes.py"),
         "Names are unique, `lerp` is inlined, multiplications and additions are FMAs, loops and statements have the "
         "labels of the report (`L1`, `S1`). From here on no value changes any more."),
    Stop("model", "PolyProgram: what runs, touching what", ("poly/build.py", "poly/model.py"),
         "Every statement is a set of instances, every access a relation from them to elements. `clamp` has become "
         "index arithmetic: what it reads is a union of pieces, one of which is the inside.",
         like(r"^S2:", r"writes .*blur", r"reads .*rows")),
    Stop("dependences", "Dependences: what must stay in order", ("poly/deps.py",),
         "The last write of each element that is read, for all sizes at once. A row of `blur` needs rows from two above "
         "to two below."),
    Stop("fuse", "FusionPlan: what becomes one kernel", ("plan/fusion/fuse.py", "plan/units/groups.py"),
         "L3 joins L2 in place; L2 follows L1 two rows behind, and what lies between them fits in registers: a group that the "
         "strategy `sliding` has taken. Every line is a decision with its reason."),
    Stop("schedule", "LoopTree: who runs what, and where it lives",
         ("plan/schedule.py", "plan/strategies/sliding/gpu/sliding.py", "tree/looptree.py"),
         "A warp runs down 120 columns, 34 rows at a time. `img_window` is five rows in registers, a lane's four columns "
         "and two beside them on each side, which come from its neighbours by way of `img_row` (a shuffle). The loop over `t` "
         "is `rotated`: written out until every row has a place of its own ([rings](decisions/rings.md)). This is the way "
         "of tiles that lie inside, with rows of whole vectors; two others follow it.", first(TREES)),
    Stop("verify", "Verdict: it computes what was written", ("proof/check.py",),
         "From this tree and the model alone. Of tiles inside it is seen in the text that they do what those "
         "at borders do; those are proved for all sizes."),
    Stop("lower", "MLIR: the same, in operations", ("codegen/mlir/nodes.py", "codegen/lower/lower.py"),
         "`memref`, `vector`, `gpu`, `math`: a load of 16 bytes, a shuffle, an FMA. Rows of windows are `memref.alloca`s with "
         "constant places, of which LLVM makes registers.",
         like(r"gpu\.func", r"vector\.load", r"gpu\.shuffle", r"math\.fma")),
    Stop("llvm", "LLVM IR", ("codegen/llvm/walk.py", "codegen/llvm/device.py"),
         "With the lines of the source behind each instruction, for profilers. LLVM's NVPTX back end makes PTX of it "
         "(`codegen/targets`), the driver or ptxas machine code.",
         like(r"^define", r"load <4 x float>", r"call i32 @llvm.nvvm.shfl", r"call float @llvm.fma")),
)  # fmt: skip


def printed() -> tuple[dict[str, str], str]:
    """What each stage of unsharp prints, and the steps of its manifest."""
    found: list[str] = []
    run = pipeline.Run(dump=pipeline.STAGES, write=found.append)
    source = Source("examples/unsharp.lf", (ROOT / "examples" / "unsharp.lf").read_text("utf-8"))
    program = pipeline.read_program(source, run=run)
    options = Options(target=Target("sm_90"))
    made = pipeline.compile_kernel(program, "unsharp", options, emit={"llvm", "mlir"}, run=run)
    parts = re.split(r"^== (\w+)\n", "\n".join(found), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True)), json.dumps(made.manifest["steps"])


def cut(line: str) -> str:
    """A line of the page's width."""
    return line if len(line) <= WIDTH else f"{line[:WIDTH].rstrip()} ..."


def paragraph(text: str) -> str:
    """Lines of the page's width."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def block(lines: Lines) -> str:
    """A block of code."""
    kept = [line for line in lines if line.strip()]
    return "\n".join(["```text", *map(cut, kept), "```"])


def tour() -> str:
    """The section, from its first mark to its last."""
    stages, steps = printed()
    parts = [START]
    for number, stop in enumerate(STOPS, 1):
        rooms = ", ".join(f"[`{room}`](../loopfuse/{room})" for room in stop.rooms)
        text = stages[stop.stage]
        parts += [
            f"### {number}. {stop.title}",
            paragraph(f"`{stop.stage}`, {rooms}. {stop.text}"),
            block(stop.choose(text.splitlines())),
        ]
    parts += [
        f"### {len(STOPS) + 1}. Manifest: how it is called",
        paragraph(
            "[`codegen/abi.py`](../loopfuse/codegen/abi.py), [`runtime/call/`](../loopfuse/runtime/call). Which "
            "entry, with which arguments, on how many blocks: all that a call needs, and all that the C launcher "
            "gets. Formulas are evaluated once for each shape."
        ),
        block(textwrap.wrap(steps, WIDTH - 30)),
        END,
    ]
    return "\n\n".join(parts)


def page(text: str) -> str:
    """The page with its section as it should be."""
    before, rest = text.split(START, 1)
    behind = rest.split(END, 1)[1]
    return before + tour() + behind


def main() -> int:
    """Write the page, or look at it."""
    text = PAGE.read_text("utf-8")
    wanted = page(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print(f"{PAGE.name} is not current: run python {Path(__file__).relative_to(ROOT)}")
        return int(text != wanted)
    PAGE.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
