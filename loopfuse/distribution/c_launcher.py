"""A C header and launcher for what was compiled: text, from the manifest alone.

For the CPU a plain function that checks its arguments, makes the workspaces and runs the entries
of the object file, over threads where the launcher is compiled with OpenMP. For a GPU see
`c_cuda`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.distribution import c_checks, c_cuda
from loopfuse.distribution.c_checks import Draft, dtype_of, wrapped
from loopfuse.distribution.c_names import C_TYPES

_PARTS = """\
/* With OpenMP a launch is cut into parts, some for each thread; else it is one. */
#ifdef _OPENMP
#include <omp.h>
#define LF_PARALLEL _Pragma("omp parallel for schedule(dynamic)")
static int64_t lf_parts(int64_t grid)
{
    const int64_t most = 4 * (int64_t)omp_get_max_threads();
    return grid < most ? grid : most;
}
#else
#define LF_PARALLEL
static int64_t lf_parts(int64_t grid) { return grid > 0; }
#endif
"""


def c_files(manifest: Mapping[str, Any], stem: str) -> dict[str, str]:
    """The texts of `STEM.h` and `STEM.c`, by file name.

    InternalError[bad-manifest] for a manifest that is none.
    """
    make = cpu_files if manifest["target"] == "cpu" else c_cuda.cuda_files
    header, source = make(manifest, f"{stem}.h")
    return {f"{stem}.h": header, f"{stem}.c": source}


def cpu_files(manifest: Mapping[str, Any], header_name: str) -> tuple[str, str]:
    """The header and the launcher for an object file.

    before: launch k_0(x, y, N), grid max(0, N)
    after:  int k(const float *x, float *y, int64_t N) { ...checks...; k_0(x, y, N, 0, grid); }
    """
    draft = c_checks.start(manifest)
    parameters = c_checks.signature(draft, lambda one: _pointer(one, draft.names[one["name"]]))
    declaration = wrapped(f"int {draft.function}", parameters or ["void"], "")
    _body(draft)
    parts = [
        f'#include "{header_name}"\n\n#include <stdlib.h>\n#include <string.h>\n',
        _entries(draft),
        _PARTS if any("lf_parts(" in line for line in draft.lines) else "",
        c_checks.helpers(draft),
        c_checks.error_function(draft),
        "\n".join([declaration, "{", *c_checks.unused(draft), *draft.lines, "}"]) + "\n",
    ]
    header = c_checks.header(
        draft,
        f"LOOPFUSE_{draft.function.upper()}_H",
        "",
        f"{declaration};\n\nconst char *{draft.function}_error(int code);\n",
        f"{draft.function} on the CPU.",
    )
    return header, "\n".join(part for part in parts if part)


def _pointer(one: Mapping[str, Any], name: str) -> str:
    const = "const " if one["mode"] == "in" else ""
    return f"{const}{dtype_of(one)} *{name}"


def _argument_types(draft: Draft, launch: Mapping[str, Any]) -> list[str]:
    arrays = {one["name"]: one for one in draft.arrays}
    buffers = {one["name"]: one for one in draft.manifest["buffers"]}
    types: list[str] = []
    for argument in launch["arguments"]:
        match argument["kind"]:
            case "pointer":
                name = argument["name"]
                found = arrays.get(name)
                types.append(_pointer(found, "") if found else f"{dtype_of(buffers[name])} *")
            case "aligned":
                types.append(C_TYPES[DType.BOOL])
            case "error":
                types.append("int64_t *")
            case _:
                types.append(dtype_of(argument))
    return [*types, "int64_t", "int64_t"]


def _entries(draft: Draft) -> str:
    """The declarations of the object file's functions."""
    found: dict[str, str] = {}

    def note(steps: list[Mapping[str, Any]]) -> None:
        for step in steps:
            if "loop" in step:
                note(step["loop"]["body"])
                continue
            launch = step["launch"]
            found[launch["name"]] = wrapped(
                f"extern void {launch['name']}", _argument_types(draft, launch), ";\n"
            )

    note(draft.manifest["steps"])
    return "".join(found.values())


def _body(draft: Draft) -> None:
    manifest = draft.manifest
    c_checks.add_checks(draft, lambda name: f"(uint64_t)(uintptr_t){name}")
    if draft.checks:
        draft.add("int64_t lf_error = 0;")
    places: dict[str, str] = {}
    buffers = manifest["buffers"]
    if buffers:
        draft.add(
            f"int64_t lf_sizes[{len(buffers)}];",
            f"char *lf_spaces[{len(buffers)}] = {{NULL}};",
            f"char *lf_starts[{len(buffers)}];",
        )
        for number, buffer in enumerate(buffers):
            draft.add(f"lf_sizes[{number}] = {c_checks.bytes_of(draft, buffer, clip=True)};")
            places[buffer["name"]] = f"({dtype_of(buffer)} *)lf_starts[{number}]"
        draft.add(
            f"lf_code = {c_checks.OUT_OF_MEMORY};",
            f"for (int lf_k = 0; lf_k < {len(buffers)}; ++lf_k) {{",
            "    /* 64 bytes more, so that the start can be moved to a cache line. */",
            "    if (lf_sizes[lf_k] < 0",
            "        || !(lf_spaces[lf_k] = malloc((size_t)lf_sizes[lf_k] + 64)))",
            "        goto lf_done;",
            "    lf_starts[lf_k] = lf_spaces[lf_k] + (-(uintptr_t)lf_spaces[lf_k] & 63);",
            "}",
            "lf_code = 0;",
        )
        for number, buffer in enumerate(buffers):
            if buffer["zeroed"]:
                draft.add(f"memset(lf_starts[{number}], 0, (size_t)lf_sizes[{number}]);")
    pointers = {one["name"]: draft.names[one["name"]] for one in draft.arrays} | places

    def launch(one: Mapping[str, Any], depth: int) -> None:
        passed: list[str] = []
        for argument in one["arguments"]:
            match argument["kind"]:
                case "pointer":
                    passed.append(pointers[argument["name"]])
                case "aligned":
                    starts = " | ".join(
                        f"(uintptr_t){draft.names[array['name']]}" for array in draft.arrays
                    )
                    passed.append(f"(({starts or '0'}) & 15) == 0")
                case "error":
                    passed.append("&lf_error")
                case _:
                    passed.append(c_checks.value_of(draft, argument))
        _launch(draft, one, passed, depth)

    c_checks.add_steps(draft, manifest["steps"], launch)
    if draft.checks:
        first = c_checks.fault_codes(draft)
        draft.add("if (lf_error)", f"    lf_code = {first - 1} + (int)(lf_error & 0xffff);")
    if buffers:
        draft.lines.append("lf_done:")
        draft.add(
            f"for (int lf_k = 0; lf_k < {len(buffers)}; ++lf_k)", "    free(lf_spaces[lf_k]);"
        )
    draft.add("return lf_code;")


def _launch(draft: Draft, one: Mapping[str, Any], passed: list[str], depth: int) -> None:
    """One launch: its iterations at once, or cut over OpenMP's threads. Iterations are independent
    of each other, so the cut changes no bit."""
    grid, name = draft.formula(one["grid"]), one["name"]
    if grid == "1":
        lines = wrapped(name, [*passed, "0", "1"], ";").split("\n")
        draft.add(*lines, depth=depth)
        return
    passed = [*passed, "lf_grid * lf_part / lf_count", "lf_grid * (lf_part + 1) / lf_count"]
    draft.add("{", depth=depth)
    draft.add(
        f"const int64_t lf_grid = {grid}, lf_count = lf_parts(lf_grid);",
        "LF_PARALLEL",
        "for (int64_t lf_part = 0; lf_part < lf_count; ++lf_part)",
        *("    " + line for line in wrapped(name, passed, ";").split("\n")),
        depth=depth + 1,
    )
    draft.add("}", depth=depth)
