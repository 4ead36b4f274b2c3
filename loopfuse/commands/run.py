"""`loopfuse run`: one call of a kernel on values from the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from loopfuse.base.options import parse_target
from loopfuse.commands.common import (
    Common,
    open_kernel,
    refuse,
    say,
    write_files,
)
from loopfuse.commands.values import bad_usage, in_words_of_the_command_line, split_values
from loopfuse.explain.text import render_summary
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.targets import default_target
from loopfuse.kernels.trial import run_kernel
from loopfuse.runtime.arrays.samples import check_saving, describe_array, encode_array


def run_file(
    file: str, common: Common, values: Sequence[str], saves: Sequence[str], seed: int
) -> None:
    """Run the kernel of `file`, print the fusion summary and each result, save what is asked."""
    kernel = open_kernel(file, common)
    target = parse_target(common.target) if common.target else default_target(for_running=True)
    if target.is_gpu:
        from loopfuse.runtime.devices.cuda import need_gpu

        need_gpu()
    wanted = _places(kernel, saves)
    arguments = split_values(kernel, values, dict(common.sizes), seed)
    with in_words_of_the_command_line():
        done = run_kernel(kernel, arguments, target.is_gpu)
    integers = {
        name: value
        for name, value in done.values.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    say(render_summary(kernel.explain(target=target.words, **integers).report))
    say()
    written = [p.name for p in kernel.signature.parameters if p.mode != "in"]
    for name in written:
        say(f"  {name:<9} {describe_array(done.arrays[name])}")
    write_files(
        # Where it is a link: what it leads to.
        {Path(os.path.realpath(path)): encode_array(path, name, done.arrays[name]) for name, path in wanted}
    )
    for name, path in wanted:
        say(f"  {'Saved':<9} {name} as {path}")


def _places(kernel: Kernel, saves: Sequence[str]) -> list[tuple[str, str]]:
    """The arrays to save and the files for them, in the order given."""
    extents = {p.name: p.extents for p in kernel.signature.parameters if p.extents is not None}
    written = [p.name for p in kernel.signature.parameters if p.mode != "in" and p.is_array]
    found: list[tuple[str, str]] = []
    for item in saves:
        name, equals, path = item.partition("=")
        if not equals or not name or not path:
            array = name if name in extents else next(iter(written), "y")
            file = path or (f"{array}.npy" if name in extents or not name else name)
            raise bad_usage(
                "bad-value", f"`--save {item}` is not NAME=PATH", f"write `--save {array}={file}`"
            )
        if name not in extents:
            raise refuse(
                "unknown-argument",
                f"`{kernel.name}` has no array `{name}` to save",
                f"its arrays are {', '.join(extents)}",
            )
        check_saving(path, name, len(extents[name]))
        if any(os.path.realpath(path) == os.path.realpath(other) for _, other in found):
            raise bad_usage(
                "bad-value", f"`{path}` is named by two `--save`", "give each a file of its own"
            )
        found.append((name, path))
    return found
