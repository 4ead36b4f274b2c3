"""`loopfuse compile`: code and a manifest into files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopfuse.base.artifact import Artifact
from loopfuse.base.examples import PREFIX
from loopfuse.base.options import Target, parse_target
from loopfuse.commands.common import (
    Common,
    open_kernels,
    refuse,
    say,
    write_files,
)
from loopfuse.commands.values import bad_usage
from loopfuse.distribution.c_launcher import c_files
from loopfuse.explain.text import place_of_pair
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.targets import default_target
from loopfuse.kernels.trial import sizes_for
from loopfuse.runtime.formulas import evaluate, names_in

EMITS = ("ptx", "cubin", "llvm", "mlir", "object", "c", "report")
CODE = ("ptx", "cubin", "object")
TYPICAL_SIZE = 4096


def compile_file(file: str, common: Common, emit: tuple[str, ...], output: str | None) -> None:
    """Compile the chosen kernels of `file` and write what `emit` names under `output`.

    Everything is compiled before the first file is written, and nothing replaces `file` itself.
    """
    target = parse_target(common.target) if common.target else default_target(for_running=False)
    wanted = emit
    if not emit or ("c" in emit and not set(emit) & set(CODE)):
        # A launcher is nothing without what it launches.
        wanted = (target.code, *emit)
    for name, code in (("ptx", "ptx"), ("cubin", "ptx"), ("object", "object")):
        if name in wanted and target.code != code:
            kind = "one of NVIDIA's GPUs (`--target sm_90`)" if code == "ptx" else "`--target cpu`"
            raise bad_usage(
                "bad-emit",
                f"`--emit {name}` needs {kind}, and this is {target.name}",
                f"give `--target {'sm_90' if code == 'ptx' else 'cpu'}`",
            )
    if "c" in wanted and target.code == "llvm":
        raise bad_usage(
            "bad-emit", f"no C launcher runs code for {target.name}", "leave out `c`, or give `--target sm_90`"
        )
    kernels = open_kernels(file, common)
    texts = {*wanted, "report"}
    if "mlir" in texts:
        texts.add("affine")
    texts.add(target.code)
    made: list[tuple[Kernel, Artifact]] = []
    for kernel, known in zip(kernels, sizes_for(kernels, dict(common.sizes))):
        artifact = kernel.compile(target.words, emit=frozenset(texts - {"c"}), **known)
        made.append((kernel, _specialised(artifact, kernel, known)))
    stem = Path(file.removeprefix(PREFIX)).stem
    if "c" in wanted and set(stem) & set('"\\\n\r'):
        raise refuse(
            "bad-emit", f"no C file can include `{stem}.h`", "rename the program, or leave out `c`"
        )
    several = len(made) > 1
    folder = Path(output) if output else Path()
    everything: dict[Path, str | bytes] = {}
    lines: list[str] = []
    for kernel, artifact in made:
        name = f"{stem}.{kernel.name}" if several else stem
        files = _files(name, artifact, wanted, target)
        everything.update({folder / path: data for path, data in files.items()})
        lines.append(_summary(kernel, artifact, [str(folder / path) for path in files]))
    write_files(everything, keep="" if file.startswith(PREFIX) else file)
    for line in lines:
        say(line)


def _specialised(artifact: Artifact, kernel: Kernel, known: Mapping[str, int]) -> Artifact:
    """The artifact, with a precondition for each `const` parameter that its code has built in."""
    conditions = [
        {
            "text": f"{name} == {known[name]}",
            "message": f"this code was compiled for `{name}` = {known[name]}",
            "line": 0,
            "column": 0,
        }
        for name in kernel.constants
        if name in known
    ]
    if not conditions:
        return artifact
    given = artifact.manifest["preconditions"]
    return replace(artifact, manifest={**artifact.manifest, "preconditions": [*given, *conditions]})


def _files(
    stem: str, artifact: Artifact, wanted: tuple[str, ...], target: Target
) -> dict[str, str | bytes]:
    """File name -> contents, for one kernel."""
    files: dict[str, str | bytes] = {}
    if "ptx" in wanted:
        files[f"{stem}.ptx"] = artifact.ptx
    if "cubin" in wanted:
        files[f"{stem}.cubin"] = artifact.cubin
    if "object" in wanted:
        files[f"{stem}.o"] = artifact.object
    if "c" in wanted:
        files.update(c_files(artifact.manifest, stem))
    if "llvm" in wanted:
        files[f"{stem}.ll"] = artifact.llvm
    if "mlir" in wanted:
        files[f"{stem}.affine.mlir"] = artifact.affine_mlir
        files[f"{stem}.fused.mlir"] = artifact.fused_mlir
        files[f"{stem}.mlir"] = artifact.mlir
    if "report" in wanted:
        files[f"{stem}.report.json"] = json.dumps(_ordered(artifact.report), indent=2) + "\n"
    files[f"{stem}.json"] = json.dumps(artifact.manifest, indent=2) + "\n"
    empty = [name for name, data in files.items() if not data]
    if empty:
        raise refuse("bad-emit", f"`{empty[0]}` cannot be made for {target.name} here", "`loopfuse doctor` says what is missing")
    return files


def _ordered(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report as `explain --format json` prints it."""
    decisions = sorted(report["decisions"], key=lambda one: place_of_pair(one["between"]))
    return {**report, "decisions": decisions}


def _summary(kernel: Kernel, artifact: Artifact, files: list[str]) -> str:
    """One line: launches, traffic, files."""
    report = artifact.report
    launches = report["launches"]
    line = f"{kernel.name}  {artifact.target}  launches {launches['before']} -> {launches['after']}"
    before, after = report["traffic"]["before"], report["traffic"]["after"]
    texts = (before["bytes"], after["bytes"])
    values = {name: TYPICAL_SIZE for text in texts for name in names_in(text)}
    if before["value"] is not None and after["value"] is not None:
        amounts = (before["value"], after["value"])
    else:
        amounts = tuple(int(evaluate(text, values)) for text in texts)
    if amounts[1] > 0 and amounts[0] > amounts[1]:
        line += f"  {amounts[0] / amounts[1]:.1f} times less traffic"
    return f"{line}  {' '.join(files)}"
