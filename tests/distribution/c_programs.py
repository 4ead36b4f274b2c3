"""Compiling and running C programs around launchers, in a folder of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loopfuse.distribution.c_names import c_function

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
READ = """\
#include <stdio.h>
#include <stdlib.h>
static void *read_file(const char *path, size_t bytes)
{
    void *data = malloc(bytes ? bytes : 1);
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, bytes, file) != bytes)
        exit(99);
    fclose(file);
    return data;
}
static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes)
        exit(98);
    fclose(file);
}
"""


def compile_c(folder: Path, *words: str) -> None:
    """`gcc` in `folder`; what it says where it refuses."""
    done = subprocess.run(["gcc", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"gcc {' '.join(words)}\n{done.stderr}"


def run_c(folder: Path) -> str:
    """What `./main` prints; it must end with 0."""
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def main_for(
    manifest: Mapping[str, Any], header: str, arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> str:
    """A C program that reads every array from `NAME.in`, calls the kernel, and writes `NAME.out`."""
    lines, passed, after = list[str](), list[str](), list[str]()
    for number, one in enumerate(manifest["parameters"]):
        value = arguments[one["name"]]
        if one["kind"] == "array":
            size, name = value.nbytes, one["name"]
            lines.append(f'    void *a{number} = read_file("{name}.in", {size});')
            after.append(f'    write_file("{name}.out", a{number}, {size}); free(a{number});')
            passed.append(f"a{number}")
        else:
            passed.append(float(value).hex() if one["dtype"][0] == "f" else str(int(value)))
    passed += [str(sizes[name]) for name in manifest["sizes"]]
    name = c_function(manifest["kernel"])
    return "\n".join(
        [
            READ,
            f'#include "{header}"\n\nint main(void)\n{{',
            *lines,
            f"    int code = {name}({', '.join(passed)});",
            f"    if (code) {{ puts({name}_error(code)); return code; }}",
            *after,
            "    return 0;\n}\n",
        ]
    )


def call_c(
    folder: Path,
    manifest: Mapping[str, Any],
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int],
    *flags: str,
) -> dict[str, np.ndarray]:
    """What the arrays hold after the kernel in `folder` (k.h, k.c, k.o) ran from a C program."""
    arrays = [one["name"] for one in manifest["parameters"] if one["kind"] == "array"]
    for name in arrays:
        arguments[name].tofile(folder / f"{name}.in")
    (folder / "main.c").write_text(main_for(manifest, "k.h", arguments, sizes))
    compile_c(folder, *STRICT, *flags, "main.c", "k.c", "k.o", "-lm", "-o", "main")
    run_c(folder)
    return {
        name: np.fromfile(folder / f"{name}.out", arguments[name].dtype).reshape(
            arguments[name].shape
        )
        for name in arrays
    }
