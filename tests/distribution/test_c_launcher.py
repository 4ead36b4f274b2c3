"""C launchers: programs in C that call what was compiled get the interpreter's bits."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import engines
import pytest
import references
from c_programs import SANITIZERS, STRICT, call_c, compile_c, run_c
from case_files import CASES, Case, assert_same, make_arguments, read_case, read_examples
from hypothesis import given, settings
from hypothesis import strategies as st

from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.cli import _run
from loopfuse.distribution.c_expressions import HELPERS, to_c
from loopfuse.distribution.c_launcher import c_files
from loopfuse.distribution.c_names import c_function, c_names, c_string
from loopfuse.kernels.kernel import load_all
from loopfuse.runtime.devices.steps import ArgumentBlock, run_steps
from loopfuse.runtime.formulas import evaluate

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

HERE = Path(__file__).resolve().parent
EXAMPLES = {case.name: case for case in read_examples()}
# A plain one, a host loop, two launches, workspaces, several outputs, and awkward sizes.
RUN = ("unsharp", "jacobi", "l2norm", "attention", "stats", "wave", "cross_entropy")
SMALL = ("bool_operators", "pinned_extent", "integer_wraps", "size_zero_and_one", "time_swap")


def write(folder: Path, case: Case, target: str = "cpu", **options: Any) -> dict[str, Any]:
    """k.h, k.c and k.o (or k.ptx) of a case; its manifest."""
    (kernel,) = load_all(case.source, **options).values()
    artifact = kernel.compile(target, emit=("object",) if target == "cpu" else ("ptx",))
    for name, text in c_files(artifact.manifest, "k").items():
        (folder / name).write_text(text, "ascii")
    (folder / "k.o").write_bytes(artifact.object)
    return artifact.manifest


@pytest.mark.parametrize("name", [*RUN, *SMALL])
def test_c_programs_get_the_interpreters_bits(name: str, tmp_path: Path) -> None:
    case = EXAMPLES[name] if name in EXAMPLES else read_case(CASES / f"{name}.lf")
    (kernel,) = engines.read(case.source).kernels
    manifest = write(tmp_path, case, reassociate=False)
    for sizes in case.sizes:
        arguments = references.prepare(name, make_arguments(kernel, sizes, case.scalars, case.data))
        got = call_c(tmp_path, manifest, arguments, sizes, *SANITIZERS)
        assert_same(kernel, engines.interpret(kernel, arguments, sizes), got, f"{name} {sizes}")


@pytest.mark.parametrize(("name", "flags"), [("l2norm", ()), ("l2norm", ("-fopenmp",)), ("unsharp", ("-fopenmp",))])
def test_reassociated_and_threaded(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    case = EXAMPLES[name]
    (kernel,) = engines.read(case.source).kernels
    manifest = write(tmp_path, case)
    sizes = {"N": 40_000} if name == "l2norm" else case.sizes[0]
    arguments = make_arguments(kernel, sizes, case.scalars)
    got = call_c(tmp_path, manifest, arguments, sizes, *flags)
    expected = engines.run_plan(case.source, kernel, arguments, sizes, reassociate=True)
    assert_same(kernel, expected, got, f"{name} {flags}")


# --------------------------------------------------------------------------------- refusals


def test_what_is_wrong_has_a_code_and_a_text(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLES["unsharp"])
    (tmp_path / "main.c").write_text(
        """\
        #include <stdio.h>
        #include "k.h"
        static float data[64];
        static void say(int code) { puts(unsharp_error(code)); }
        int main(void)
        {
            say(unsharp(data, data + 32, 1.0f, 4, 8));
            say(unsharp(data, data + 31, 1.0f, 4, 8));
            say(unsharp(data, data + 31, 1.0f, 4, 0));
            say(unsharp(data, NULL, 1.0f, 4, 8));
            say(unsharp(NULL, data, 1.0f, 4, 8));
            say(unsharp(NULL, NULL, 1.0f, 0, 8));
            say(unsharp(data, data + 32, 1.0f, -4, 8));
            say(unsharp(data, data + 32, 1.0f, INT64_C(1) << 40, INT64_C(1) << 40));
            say(-1);
            say(1000);
            return 0;
        }
        """
    )
    compile_c(tmp_path, *STRICT, *SANITIZERS, "main.c", "k.c", "k.o", "-lm", "-o", "main")
    assert run_c(tmp_path).splitlines() == [
        "success",
        "an array that is written shares memory with another",
        "success",
        "sharp is null",
        "img is null",
        "success",
        "H is negative or too large",
        "the extents of img are negative or too large",
        "unknown error",
        "unknown error",
    ]


def test_preconditions_are_checked(tmp_path: Path) -> None:
    text = "kernel k(x: f32[N], out y: f32[M]):\n    for i in 0..M:\n        y[i] = x[2*i]\n"
    (tmp_path / "k.lf").write_text(text)
    assert _run(["compile", str(tmp_path / "k.lf"), "--target", "cpu", "--emit", "c", "-o", str(tmp_path)]) == 0
    manifest = json.loads((tmp_path / "k.json").read_text())
    assert manifest["preconditions"]
    (tmp_path / "main.c").write_text(
        """\
        #include <stdio.h>
        #include "k.h"
        int main(void)
        {
            float x[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, y[5];
            puts(k_error(k(x, y, 9, 5)));
            printf("%g\\n", y[4]);
            puts(k_error(k(x, y, 8, 5)));
            return 0;
        }
        """
    )
    compile_c(tmp_path, *STRICT, *SANITIZERS, "main.c", "k.c", "k.o", "-lm", "-o", "main")
    good, value, bad = run_c(tmp_path).splitlines()
    assert (good, value) == ("success", "8")
    (condition,) = manifest["preconditions"]
    assert condition["text"] in bad and condition["message"].replace("`", "'") in bad


def test_code_for_a_constant_refuses_others(tmp_path: Path) -> None:
    path = str(CASES / "const_parameter.lf")
    assert _run(["compile", path, "--target", "cpu", "--emit", "c", "--size", "S=3", "-o", str(tmp_path)]) == 0
    (tmp_path / "main.c").write_text(
        """\
        #include <stdio.h>
        #include "const_parameter.h"
        int main(void)
        {
            float x[20] = {0}, y[20];
            puts(const_parameter_error(const_parameter(x, y, 3, 20)));
            puts(const_parameter_error(const_parameter(x, y, 4, 20)));
            return 0;
        }
        """
    )
    compile_c(tmp_path, *STRICT, "main.c", "const_parameter.c", "const_parameter.o", "-lm", "-o", "main")
    assert run_c(tmp_path).splitlines() == ["success", "this code was compiled for 'S' = 3 (needs S == 3)"]


GATHER = """\
kernel gather(x: f32[N], index: i32[M], out y: f32[M], h: f16):
    for i in 0..M:
        y[i] = x[index[i]] * f32(h)
"""


def test_subscripts_are_checked_and_half_floats_passed(tmp_path: Path) -> None:
    (kernel,) = load_all(engines.Source("gather.lf", GATHER)).values()
    artifact = kernel.compile("cpu", emit=("object",))
    assert artifact.manifest["checks"]
    for name, text in c_files(artifact.manifest, "k").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "k.o").write_bytes(artifact.object)
    (tmp_path / "main.c").write_text(
        """\
        #include <stdio.h>
        #include "k.h"
        int main(void)
        {
            float x[3] = {1, 2, 3}, y[4];
            int32_t good[4] = {2, 0, 1, 2}, bad[4] = {2, -1, 3, 0};
            const uint16_t half = 0x4100; /* 2.5 */
            puts(gather_error(gather(x, good, y, half, 3, 4)));
            printf("%g %g %g %g\\n", y[0], y[1], y[2], y[3]);
            puts(gather_error(gather(x, bad, y, half, 3, 4)));
            printf("%g %g %g %g\\n", y[0], y[1], y[2], y[3]);
            return 0;
        }
        """
    )
    for flags in ((), ("-fopenmp",), ("-O2",)):
        compile_c(tmp_path, *STRICT, *flags, "main.c", "k.c", "k.o", "-lm", "-o", "main")
        assert run_c(tmp_path).splitlines() == [
            "success",
            "7.5 2.5 5 7.5",
            "a subscript of x in line 3 would read past it",
            "7.5 0 0 2.5",
        ]


def test_gpu_launchers_tell_of_subscripts(tmp_path: Path) -> None:
    (kernel,) = load_all(engines.Source("gather.lf", GATHER)).values()
    manifest = kernel.compile("sm_80", emit=("ptx",)).manifest
    for name, text in c_files(manifest, "k").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "cuda.h").write_text((HERE / "cuda_stub.h").read_text())
    (tmp_path / "main.c").write_text(
        """\
        #include "k.h"
        #include <stdio.h>
        #include <string.h>
        static int64_t memory[2];
        static int bytes[] = { WIDTHS };
        CUresult cuModuleLoadData(CUmodule *m, const void *i) { (void)m; (void)i; return 0; }
        CUresult cuModuleUnload(CUmodule m) { (void)m; return 0; }
        CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *n)
        { (void)f; (void)m; (void)n; return 0; }
        CUresult cuCtxSynchronize(void) { puts("wait"); return 0; }
        CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
        { *p = (CUdeviceptr)(uintptr_t)memory; return n == 8 ? 0 : CUDA_ERROR_INVALID_VALUE; }
        CUresult cuMemFree(CUdeviceptr p) { puts(p == (uintptr_t)memory ? "free" : "bad"); return 0; }
        CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n)
        { memset((void *)(uintptr_t)p, v, n); return 0; }
        CUresult cuMemcpyDtoH(void *to, CUdeviceptr p, size_t n)
        { memcpy(to, (void *)(uintptr_t)p, n); return 0; }
        CUresult cuGetErrorString(CUresult e, const char **t) { (void)e; *t = "cuda"; return 0; }
        CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
            unsigned by, unsigned bz, unsigned shared, CUstream s, void **arguments, void **extra)
        {
            int number = 0;
            (void)f; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared;
            (void)s; (void)extra;
            for (unsigned k = 0; k < sizeof bytes / sizeof *bytes; ++k)
                if (bytes[k] == 0 && !memcmp(arguments[k], &(uintptr_t){(uintptr_t)memory}, 8))
                    ++number;
            memory[0] = -5 * 65536 + number;
            return 0;
        }
        int main(void)
        {
            gather_code code;
            memory[0] = 77;
            if (gather_load(&code, "ptx") || gather_fault(&code))
                return 1;
            puts(gather_error(gather(&code, 16, 32, 64, 0x4100, 3, 4, NULL)));
            puts(gather_error(gather_fault(&code)));
            puts(gather_error(gather_fault(&code)));
            return gather_unload(&code);
        }
        """.replace("WIDTHS", ", ".join(str(int(one["kind"] != "error")) for one in launches(manifest["steps"])[0]["arguments"]))
    )
    compile_c(tmp_path, *STRICT, *SANITIZERS, "-I.", "main.c", "k.c", "-o", "main")
    fault = "a subscript of x in line 3 would read past it"
    assert run_c(tmp_path).splitlines() == ["wait", "success", "wait", fault, "wait", "success", "free"]


# ------------------------------------------------------------------------------- the command


def test_c_comes_with_the_code_it_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES["unsharp"].path)
    wanted = {"c": {"h", "c", "o"}, "object": {"o"}, "mlir,c": {"h", "c", "o", "mlir", "affine.mlir", "fused.mlir"}}
    for emit, endings in wanted.items():
        folder = tmp_path / emit
        assert _run(["compile", file, "--target", "cpu", "--emit", emit, "-o", str(folder)]) == 0
        assert {path.name for path in folder.iterdir()} == {f"unsharp.{end}" for end in {*endings, "json"}}
    folder = tmp_path / "gpu"
    assert _run(["compile", file, "--target", "sm_90", "--emit", "c", "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {f"unsharp.{end}" for end in ("c", "h", "ptx", "json")}
    assert "unsharp.h" in capsys.readouterr().out


# --------------------------------------------------------------------------------------- GPU

FAKE = """\
#include "k.h"
#include <stdio.h>
#include <string.h>
static const char *names[32];
static int count, spaces;
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{ *module = (CUmodule)&count; return strcmp(image, "ptx") ? CUDA_ERROR_INVALID_VALUE : 0; }
CUresult cuModuleUnload(CUmodule module) { (void)module; return 0; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{ (void)module; names[++count] = name; *f = (CUfunction)(names + count); return 0; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{ printf("%s attribute %d = %d\\n", *(const char **)f, attribute, value); return 0; }
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream s)
{ (void)s; *p = 0x700000 + 256 * ++spaces; printf("alloc %llx %zu\\n", *p, bytes); return 0; }
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { (void)s; printf("free %llx\\n", p); return 0; }
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t bytes, CUstream s)
{ (void)s; printf("set %llx %d %zu\\n", p, value, bytes); return 0; }
CUresult cuGetErrorString(CUresult error, const char **text)
{ *text = error == 1 ? "invalid value" : "out of memory"; return 0; }
static void show(const char *name, void **arguments)
{
    static const char *const widths[][2] = { WIDTHS };
    for (unsigned k = 0; k < sizeof widths / sizeof *widths; ++k)
        if (!strcmp(widths[k][0], name))
            for (const char *w = widths[k][1]; *w; ++w) {
                unsigned long long value = 0;
                memcpy(&value, *arguments++, *w - '0');
                printf(" %llx", value);
            }
    puts("");
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, CUstream s, void **arguments, void **extra)
{
    const char *name = *(const char **)f;
    if (s != (CUstream)&count || gy != 1 || gz != 1 || by != 1 || bz != 1 || extra)
        return CUDA_ERROR_INVALID_VALUE;
    printf("%s %u %u %u", name, gx, bx, shared);
    show(name, arguments);
    return FAILS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments, void **extra)
{
    printf("clusters of %u: ", config->attrs->value.clusterDim.x);
    return cuLaunchKernel(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, arguments, extra);
}
int main(void)
{
    NAME_code code;
    int failed = NAME_load(&code, "ptx");
    if (!failed)
        failed = NAME(&code, ARGUMENTS, (CUstream)&count);
    puts(NAME_error(failed));
    puts(NAME_error(NAME_load(&code, "not ptx")));
    return NAME_unload(&code);
}
"""


def fake_gpu(
    folder: Path, manifest: dict[str, Any], values: dict[str, Any], fails: str = "0"
) -> list[str]:
    """What the launcher asks of a driver that only prints."""
    (folder / "cuda.h").write_text((HERE / "cuda_stub.h").read_text())
    widths = {
        one["name"]: "".join("8" if a["kind"] == "pointer" else width_of(a) for a in one["arguments"])
        for one in launches(manifest["steps"])
    }
    table = ", ".join(f'{{"{name}", "{text}"}}' for name, text in widths.items())
    passed = [values[one["name"]] for one in manifest["parameters"]]
    passed += [values[name] for name in manifest["sizes"]]
    text = FAKE.replace("NAME", manifest["kernel"]).replace("WIDTHS", table).replace("FAILS", fails)
    (folder / "main.c").write_text(text.replace("ARGUMENTS", ", ".join(map(str, passed))))
    compile_c(folder, *STRICT, *SANITIZERS, "-I.", "main.c", "k.c", "-o", "main")
    return run_c(folder).splitlines()


def width_of(argument: dict[str, Any]) -> str:
    """Bytes of an argument, as a digit."""
    return {"f32": "4", "f64": "8", "i64": "8", "i32": "4", "bool": "1"}[argument["dtype"]]


def launches(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every launch, in text order."""
    return [
        one
        for step in steps
        for one in (launches(step["loop"]["body"]) if "loop" in step else [step["launch"]])
    ]


@pytest.mark.parametrize("name", ["unsharp", "jacobi", "l2norm", "attention", "scale_relu_add"])
def test_gpu_launchers_ask_the_driver_for_what_the_runtime_asks(name: str, tmp_path: Path) -> None:
    case = EXAMPLES[name]
    manifest = write(tmp_path, case, "sm_90")
    values: dict[str, Any] = {**case.sizes[0], **case.scalars}
    pointers = {
        one["name"]: 0x100000 * (number + 1)
        for number, one in enumerate(manifest["parameters"])
        if one["kind"] == "array"
    }
    said = fake_gpu(tmp_path, manifest, {**values, **pointers})
    expected: list[str] = []
    spaces: dict[str, int] = {}
    for number, buffer in enumerate(manifest["buffers"], 1):
        spaces[buffer["name"]] = 0x700000 + 256 * number
        bytes_ = {"f32": 4, "f64": 8, "i32": 4, "i64": 8}[buffer["dtype"]]
        for extent in buffer["extents"]:
            bytes_ *= evaluate(extent, values)
        expected.append(f"alloc {spaces[buffer['name']]:x} {bytes_}")
    for buffer, line in zip(manifest["buffers"], list(expected)):
        if buffer["zeroed"]:
            expected.append(f"set {spaces[buffer['name']]:x} 0 {line.split()[-1]}")

    def launch(one: Any, grid: int, block: ArgumentBlock) -> None:
        passed = [f"{word:x}" for word, _ in zip(block.words, one["arguments"])]
        expected.append(" ".join([f"{one['name']} {grid} {one['threads']} {one['shared_bytes']}", *passed]))

    run_steps(manifest, {**pointers, **spaces}, values, True, launch)
    expected += [f"free {place:x}" for place in spaces.values()]
    assert said == [*expected, "success", "invalid value"]


def test_gpu_failures_come_back_and_free_the_workspaces(tmp_path: Path) -> None:
    manifest = write(tmp_path, EXAMPLES["l2norm"], "sm_80")
    values = {"N": 100_000, "x": 0x1000000, "norm": 0x2000000}
    said = fake_gpu(tmp_path, manifest, values, "CUDA_ERROR_OUT_OF_MEMORY")
    assert len([line for line in said if line.startswith("l2norm")]) == 1
    assert len([line for line in said if line.startswith("free")]) == len(manifest["buffers"])
    assert said[-2] == "out of memory"
    assert fake_gpu(tmp_path, manifest, {**values, "norm": 0})[0] == "norm is null"


def test_shared_memory_and_clusters(tmp_path: Path) -> None:
    manifest = write(tmp_path, EXAMPLES["unsharp"], "sm_90")
    (one,) = launches(manifest["steps"])
    one["shared_bytes"], one["cluster"], one["grid"] = 100_000, 16, "32 if H > 1 else 16"
    for name, text in c_files(manifest, "k").items():
        (tmp_path / name).write_text(text)
    said = fake_gpu(tmp_path, manifest, {"img": 4096, "sharp": 8192, "amount": 1, "H": 8, "W": 8})
    assert said[0].endswith("attribute 8 = 100000")
    assert said[1].endswith("attribute 14 = 1")
    assert said[2].startswith("clusters of 16: unsharp_0 32 128 100000 1000 2000 8 8 ")


# ------------------------------------------------------------------------------- expressions

FORMULAS = st.recursive(
    st.one_of(st.sampled_from(["a", "b", "c"]), st.integers(0, 9).map(str), st.just("-7")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"-{t}"),
        inner.map(lambda t: f"abs({t})"),
        st.tuples(inner, st.sampled_from(["<", "<=", "==", "!="]), inner, inner, inner).map(
            lambda t: f"({t[3]} if {t[0]} {t[1]} {t[2]} else {t[4]})"
        ),
        st.tuples(inner, inner, inner, st.sampled_from(["and", "or"])).map(
            lambda t: f"(1 if not ({t[0]} < {t[1]} <= {t[2]} {t[3]} {t[0]} > 2) else 0)"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=3, deadline=None)
@given(st.lists(FORMULAS, min_size=80, max_size=80))
def test_formulas_mean_the_same_in_c(formulas: list[str]) -> None:
    import tempfile

    points = list(itertools.product((-7, -1, 0, 1, 2, 12), repeat=3))[::5]
    formulas = [f for f in formulas if all(abs(evaluate(f, dict(zip("abc", p)))) < 1 << 60 for p in points)]
    names = {name: name for name in "abc"}
    shown = "".join(f'    printf("%lld\\n", (long long)({to_c(f, names)}));\n' for f in formulas)
    text = "#include <stdint.h>\n#include <stdio.h>\n" + "".join(HELPERS.values())
    text += f"static void show(int64_t a, int64_t b, int64_t c)\n{{\n    (void)a; (void)b; (void)c;\n{shown}}}\nint main(void)\n{{\n"
    text += "".join(f"    show({a}, {b}, {c});\n" for a, b, c in points) + "    return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.c").write_text(text)
        subprocess.run(["gcc", "-w", "main.c", "-o", "main"], cwd=folder, check=True)
        got = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True).stdout
    expected = [evaluate(f, dict(zip("abc", p))) for p in points for f in formulas]
    assert list(map(int, got.split())) == [int(value) for value in expected]


@pytest.mark.parametrize("text", ["a +", "a ** 2", "f(a)", "x", "'a'", "a if b", "a / 2", "9223372036854775808"])
def test_what_is_no_formula_is_a_bug(text: str) -> None:
    with pytest.raises(InternalError, match="bad-manifest"):
        to_c(text, {"a": "a", "b": "b"})


def test_names_are_c_names() -> None:
    names = c_names(["x", "int", "int_", "lf_max", "_0", "norm.sum", "\N{GREEK SMALL LETTER PI}"])
    assert names == {
        "x": "x", "int": "int_", "int_": "int__", "lf_max": "xlf_max", "_0": "x_0",
        "norm.sum": "normu2esum", "\N{GREEK SMALL LETTER PI}": "u3c0",
    }  # fmt: skip


def test_strings_are_c_strings() -> None:
    assert c_string('a"b\\c\n??(é1') == '"a\\"b\\\\c\\012\\077\\077(\\303\\2511"'


def test_keywords_as_names(tmp_path: Path) -> None:
    text = "kernel double(int: f32[long], out code: f32[long], register: i32):\n    for i in 0..long:\n        code[i] = 2.0*int[i]\n"
    (kernel,) = load_all(engines.Source("k.lf", text)).values()
    for target in ("cpu", "sm_80"):
        for name, made in c_files(kernel.compile(target, emit=("object", "ptx")).manifest, "k").items():
            (tmp_path / name).write_text(made)
        (tmp_path / "cuda.h").write_text((HERE / "cuda_stub.h").read_text())
        compile_c(tmp_path, *STRICT, "-I.", "-c", "k.c")


# ------------------------------------------------------------------------------------ names

LIBRARY = ("memcpy", "exp", "index", "write", "sinf", "pthread_create", "cuInit", "int64_t", "errno", "isnan")
OFTEN = "".join(
    f"#include <{name}.h>\n"
    for name in ("assert", "complex", "errno", "math", "signal", "stdio", "stdlib", "string",
                 "strings", "time", "unistd", "pthread")
)  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_names_of_the_library_are_nobodys(target: str, tmp_path: Path) -> None:
    """Kernels, parameters and sizes may be called what C calls something else, whatever headers a
    program reads before."""
    for name in LIBRARY:
        size = "I" if name != "exp" else "SIZE_MAX"
        text = f"kernel {name}(size_t: f32[{size}], out INT8_MAX: f32[{size}], stdin: f32):\n"
        text += f"    for i in 0..{size}:\n        INT8_MAX[i] = size_t[i] * stdin\n"
        (kernel,) = load_all(Source("names.lf", text)).values()
        artifact = kernel.compile(target, emit=("object",) if target == "cpu" else ("ptx",))
        for file, content in c_files(artifact.manifest, "k").items():
            (tmp_path / file).write_text(content, "ascii")
        function = c_function(name)
        assert function != name and f"{function}_error" in (tmp_path / "k.h").read_text()
        if target == "cpu":
            (tmp_path / "main.c").write_text(
                f"#define _GNU_SOURCE\n{OFTEN}#include \"k.h\"\n"
                f"int main(void) {{ float a[2] = {{1, 2}}, b[2]; return {function}(a, b, 2.0f, 2) || b[1] != 4.0f; }}\n"
            )
            (tmp_path / "k.o").write_bytes(artifact.object)
            compile_c(tmp_path, *STRICT, "main.c", "k.c", "k.o", "-lm", "-o", "main")
            run_c(tmp_path)


def test_other_names_are_kept() -> None:
    """What C has no use for stays as it is, however much it looks like something of C's."""
    for name in ("unsharp", "blur", "softmax", "jacobi", "EDGE", "x_t", "cumsum", "curl", "N", "half"):
        assert c_function(name) == name
