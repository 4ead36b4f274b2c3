"""`loopfuse explain`, `deps`, `check` and `fmt`: what was decided, and what was read."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopfuse.base.diagnostics import Source
from loopfuse.base.examples import PREFIX
from loopfuse.base.printable import printable
from loopfuse.commands.common import (
    Common,
    kernels_of,
    open_kernels,
    refuse,
    say,
    say_json,
    write_files,
)
from loopfuse.explain.dependences import dependences_text
from loopfuse.explain.html import render_page
from loopfuse.explain.text import render_text, report_data
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.sources import read_program, read_source
from loopfuse.kernels.trial import constants_of, sizes_for

if TYPE_CHECKING:
    from loopfuse.lang.nodes import Program


def explain_file(file: str, common: Common, form: str) -> None:
    """Print the report of each chosen kernel as `text`, `json` or `html`."""
    kernels = open_kernels(file, common)
    reports = [
        kernel.explain(target=common.target, **sizes).report
        for kernel, sizes in zip(kernels, sizes_for(kernels, dict(common.sizes)))
    ]
    if form == "html":
        say(render_page(reports).rstrip("\n"))
    elif form == "json":
        data: Any = [report_data(report) for report in reports]
        say_json(data if len(data) > 1 else data[0])
    else:
        say("\n\n\n".join(render_text(report) for report in reports))


def show_dependences(file: str, common: Common, form: str, instances: bool) -> None:
    """Print every dependence of each chosen kernel."""
    kernels = open_kernels(file, common)
    chosen = sizes_for(kernels, dict(common.sizes))
    if instances:
        for kernel, sizes in zip(kernels, chosen):
            missing = [name for name in kernel.signature.sizes if name not in sizes]
            if missing:
                raise refuse(
                    "missing-size",
                    f"`--instances` needs every size, and `{missing[0]}` is not given",
                    f"add `--size {missing[0]}=6`",
                )
    found = [_dependences(kernel, sizes, instances) for kernel, sizes in zip(kernels, chosen)]
    if form == "json":
        say_json(found if len(found) > 1 else found[0], indent=None)
    else:
        say("\n\n".join(dependences_text(one) for one in found))


def _dependences(kernel: Kernel, sizes: dict[str, int], instances: bool) -> dict[str, Any]:
    constants = constants_of(kernel, sizes)
    if not constants:
        return kernel.dependences(sizes, instances=instances)
    from loopfuse import pipeline

    program = kernel.program(constants)
    return pipeline.describe_dependences(program, kernel.name, sizes, instances)


def check_file(file: str, common: Common) -> None:
    """Read and check `file`, subscripts and reads of unwritten values included; print its
    warnings, and one line when it is right."""
    from loopfuse import pipeline

    source = read_source(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said below, once
        kernels = kernels_of(source, common)
        chosen = sizes_for(kernels, dict(common.sizes))
        warnings.simplefilter("always")
        programs: dict[tuple[tuple[str, int], ...], Program] = {}
        for kernel, sizes in zip(kernels, chosen):
            constants = constants_of(kernel, sizes)
            key = tuple(constants.items())
            if key not in programs:  # one reading, and its warnings, for kernels of the same
                programs[key] = read_program(source, common.fp, constants or None)
            pipeline.check_kernel(programs[key], kernel.name)
    count = len(kernels)
    say(f"{file}: {count} kernel{'' if count == 1 else 's'}, no errors")


def format_file(file: str, check: bool, to_stdout: bool) -> bool:
    """Rewrite `file` in the canonical style (or print it, or only check); True when it was in
    that style already."""
    source = read_source(file)
    if source.language != "lf":
        raise refuse(
            "cannot-read",
            f"`{file}` is an MLIR file, and `fmt` is for `.lf`",
            "give it a `.lf` file; `mlir-opt FILE` prints MLIR in its canonical style",
        )
    text = format_source(source)
    same = text == source.text
    if file.startswith(PREFIX) and not (same or to_stdout or check):
        raise refuse(
            "cannot-write",
            f"cannot rewrite `{file}`: it belongs to loopfuse",
            f"print it: `loopfuse fmt --stdout {file}`",
        )
    if to_stdout:
        print(printable(text) if sys.stdout.isatty() else text, end="")
    elif check:
        if not same:
            say(f"{file}: would be reformatted")
    elif not same:
        write_files({Path(file).resolve(): text})  # where it is a link: what it leads to
        say(f"{file}: reformatted")
    return same


def format_source(source: Source) -> str:
    """The program's text in the canonical style, comments kept."""
    from loopfuse.frontend.lf.door import parse
    from loopfuse.lang.surface.format import format_module

    return format_module(parse(source))
