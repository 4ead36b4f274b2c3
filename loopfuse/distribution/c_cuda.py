"""A C header and launcher for PTX or a cubin, with nothing but CUDA's driver API.

    unsharp_code code;
    unsharp_load(&code, image);                                  PTX text or a cubin, in memory
    unsharp(&code, img, sharp, amount, H, W, stream);            enqueued, not waited for
    unsharp_unload(&code);
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.distribution import c_checks
from loopfuse.distribution.c_checks import Draft, wrapped

_LAUNCH = """\
static int lf_launch(CUfunction function, int64_t grid, unsigned threads, unsigned shared,
    CUstream stream, void **arguments)
{
    if (grid <= 0)
        return 0;
    if (grid > INT32_MAX)
        return 2;
    return -(int)cuLaunchKernel(function, (unsigned)grid, 1, 1, threads, 1, 1, shared, stream,
        arguments, NULL);
}
"""
_CLUSTER = """\
static int lf_launch_clusters(CUfunction function, int64_t grid, unsigned cluster,
    unsigned threads, unsigned shared, CUstream stream, void **arguments)
{
    CUlaunchAttribute attribute = {0};
    CUlaunchConfig config = {0};
    if (grid <= 0)
        return 0;
    if (grid > INT32_MAX)
        return 2;
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = cluster;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    config.gridDimX = (unsigned)grid;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return -(int)cuLaunchKernelEx(&config, function, arguments, NULL);
}
"""
_FAULT = """\
/* Waits for the GPU: whether a subscript that depends on data lay outside its array in any call
 * since this was last asked. Such reads gave 0, such writes did nothing. */
int {name}_fault({name}_code *code);

"""
_ERROR = """\
    const char *text = NULL;
    if (code < 0) {
        cuGetErrorString((CUresult)-code, &text);
        return text ? text : "unknown CUDA error";
    }"""


def cuda_files(manifest: Mapping[str, Any], header_name: str) -> tuple[str, str]:
    """The header and the launcher for GPU code."""
    draft = c_checks.start(manifest)
    draft.failures.append("a launch needs more than 2**31 - 1 blocks")
    name = draft.function
    launches = _launches(manifest["steps"])
    parameters = c_checks.signature(draft, lambda one: f"CUdeviceptr {draft.names[one['name']]}")
    declaration = wrapped(
        f"int {name}", [f"const {name}_code *code", *parameters, "CUstream stream"], ""
    )
    _body(draft, list(launches))
    wide = any(one["cluster"] > 1 for one in launches.values())
    narrow = any(one["cluster"] <= 1 for one in launches.values())
    parts = [
        f'#include "{header_name}"\n\n#include <stddef.h>\n',
        c_checks.helpers(draft),
        _LAUNCH if narrow else "",
        _CLUSTER if wide else "",
        _loading(name, launches, bool(draft.checks)),
        _fault(name, c_checks.fault_codes(draft)) if draft.checks else "",
        "\n".join([declaration, "{", *c_checks.unused(draft), *draft.lines, "}"]) + "\n",
        c_checks.error_function(draft, [_ERROR]),
    ]
    word = "    CUdeviceptr error;\n" if draft.checks else ""
    fault = _FAULT.format(name=name) if draft.checks else ""
    declarations = f"""\
typedef struct {name}_code {{
    CUmodule module;
    CUfunction functions[{max(1, len(launches))}];
{word}}} {name}_code;

/* Load PTX text (ending in a zero byte) or a cubin from memory, into the current context. */
int {name}_load({name}_code *code, const void *image);
int {name}_unload({name}_code *code);

/* Enqueue on a stream; does not wait. */
{declaration};

{fault}/* Below 0, a code is minus a CUresult. */
const char *{name}_error(int code);
"""
    header = c_checks.header(
        draft,
        f"LOOPFUSE_{name.upper()}_H",
        "#include <cuda.h>\n",
        declarations,
        f"{name} on {manifest['target']} GPUs, through CUDA's driver API.",
    )
    return header, "\n".join(part for part in parts if part)


def _launches(steps: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The launches by entry name, in text order."""
    found: dict[str, Mapping[str, Any]] = {}
    for step in steps:
        if "loop" in step:
            found.update(_launches(step["loop"]["body"]))
        else:
            found[step["launch"]["name"]] = step["launch"]
    return found


def _fault(name: str, first: int) -> str:
    return f"""\
int {name}_fault({name}_code *code)
{{
    int64_t word = 0;
    CUresult result = cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoH(&word, code->error, sizeof word);
    if (result == CUDA_SUCCESS && word)
        result = cuMemsetD8(code->error, 0, sizeof word);
    if (result != CUDA_SUCCESS)
        return -(int)result;
    return word ? {first - 1} + (int)(word & 0xffff) : 0;
}}
"""


def _loading(name: str, launches: Mapping[str, Mapping[str, Any]], checks: bool) -> str:
    lines = [
        f"int {name}_load({name}_code *code, const void *image)",
        "{",
        "    CUresult result = cuModuleLoadData(&code->module, image);",
    ]
    for number, (entry, one) in enumerate(launches.items()):
        function = f"code->functions[{number}]"
        lines += [
            "    if (result == CUDA_SUCCESS)",
            f'        result = cuModuleGetFunction(&{function}, code->module, "{entry}");',
        ]
        if one["shared_bytes"] > MULTIPROCESSOR.shared_declared:
            lines += _attribute(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", one["shared_bytes"])
        if one["cluster"] > 8:
            lines += _attribute(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
    if checks:
        lines += [
            "    if (result == CUDA_SUCCESS)",
            "        result = cuMemAlloc(&code->error, 8);",
            "    if (result == CUDA_SUCCESS)",
            "        result = cuMemsetD8(code->error, 0, 8);",
        ]
    freeing = ["    cuMemFree(code->error);"] if checks else []
    lines += [
        "    return -(int)result;",
        "}",
        "",
        f"int {name}_unload({name}_code *code)",
        "{",
        *freeing,
        "    return -(int)cuModuleUnload(code->module);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _attribute(function: str, name: str, value: int) -> list[str]:
    return [
        "    if (result == CUDA_SUCCESS)",
        f"        result = cuFuncSetAttribute({function}, CU_FUNC_ATTRIBUTE_{name}, {value});",
    ]


def _body(draft: Draft, entries: list[str]) -> None:
    manifest = draft.manifest
    c_checks.add_checks(draft, lambda name: f"(uint64_t){name}")
    buffers = manifest["buffers"]
    places = {one["name"]: f"lf_spaces[{number}]" for number, one in enumerate(buffers)}
    if buffers:
        draft.add(
            f"int64_t lf_sizes[{len(buffers)}];", f"CUdeviceptr lf_spaces[{len(buffers)}] = {{0}};"
        )
        for number, buffer in enumerate(buffers):
            draft.add(f"lf_sizes[{number}] = {c_checks.bytes_of(draft, buffer, clip=True)};")
        draft.add(
            f"for (int lf_k = 0; lf_k < {len(buffers)} && lf_code == 0; ++lf_k)",
            f"    lf_code = lf_sizes[lf_k] < 0 ? {c_checks.OUT_OF_MEMORY} : -(int)cuMemAllocAsync(",
            "        &lf_spaces[lf_k], lf_sizes[lf_k] ? (size_t)lf_sizes[lf_k] : 16, stream);",
            "if (lf_code)",
            "    goto lf_done;",
        )
        for number, buffer in enumerate(buffers):
            if buffer["zeroed"]:
                draft.add(
                    f"if (lf_sizes[{number}])",
                    f"    lf_code = -(int)cuMemsetD8Async(lf_spaces[{number}], 0, "
                    f"(size_t)lf_sizes[{number}], stream);",
                    "if (lf_code)",
                    "    goto lf_done;",
                )
    if any(_is_aligned(one) for one in _launches(manifest["steps"]).values()):
        starts = " | ".join(draft.names[array["name"]] for array in draft.arrays)
        draft.add(f"bool lf_aligned = (({starts or '0'}) & 15) == 0;")

    if draft.checks:
        draft.add("CUdeviceptr lf_error = code->error;")

    def launch(one: Mapping[str, Any], depth: int) -> None:
        passed: list[str] = []
        for argument in one["arguments"]:
            match argument["kind"]:
                case "pointer":
                    name = argument["name"]
                    passed.append(f"&{places[name] if name in places else draft.names[name]}")
                case "aligned":
                    passed.append("&lf_aligned")
                case "error":
                    passed.append("&lf_error")
                case _:
                    passed.append(f"&{c_checks.value_of(draft, argument)}")
        function = f"code->functions[{entries.index(one['name'])}]"
        grid, threads, shared = draft.formula(one["grid"]), one["threads"], one["shared_bytes"]
        cluster = one["cluster"]
        items = [function, grid, str(threads), str(shared), "stream", "lf_arguments"]
        if cluster > 1:
            items.insert(2, str(cluster))
        call = wrapped(f"lf_code = lf_launch{'_clusters' if cluster > 1 else ''}", items, ";")
        pointers = ", ".join(passed) or "NULL"
        draft.add("{", depth=depth)
        draft.add(
            f"void *lf_arguments[] = {{{pointers}}};",
            *call.split("\n"),
            "if (lf_code)",
            "    goto lf_done;",
            depth=depth + 1,
        )
        draft.add("}", depth=depth)

    c_checks.add_steps(draft, manifest["steps"], launch)
    if any("goto lf_done" in line for line in draft.lines):
        draft.lines.append("lf_done:")
    if buffers:
        draft.add(
            f"for (int lf_k = 0; lf_k < {len(buffers)}; ++lf_k)",
            "    if (lf_spaces[lf_k]) {",
            "        CUresult lf_freed = cuMemFreeAsync(lf_spaces[lf_k], stream);",
            "        if (lf_code == 0)",
            "            lf_code = -(int)lf_freed;",
            "    }",
        )
    draft.add("return lf_code;")


def _is_aligned(launch: Mapping[str, Any]) -> bool:
    return any(argument["kind"] == "aligned" for argument in launch["arguments"])
