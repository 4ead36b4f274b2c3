"""What both launchers have in common: the parameters of the C function, the checks before anything
runs, the error texts, the host loops.

    before: {"parameters": [{"name": "x", "kind": "array", "extents": ["N"], ...}], "sizes": ["N"]}
    after:  const float *x, int64_t N
            if (N < 0 || N > lf_most) return 2; ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.distribution.c_expressions import to_c, used_helpers
from loopfuse.distribution.c_names import C_TYPES, c_function, c_names, c_string

OUT_OF_MEMORY = 1

_BYTES = """\
/* The bytes of an array; -1 where an extent is negative, or there are too many. */
static int64_t lf_bytes(int64_t total, int rank, const int64_t *extents)
{
    for (int k = 0; k < rank; ++k)
        if (extents[k] < 0)
            return -1;
    for (int k = 0; k < rank; ++k) {
        if (extents[k] > 0 && total > lf_most / extents[k])
            return -1;
        total *= extents[k];
    }
    return total;
}
"""
_CHECK = """\
typedef struct { uint64_t start; int64_t bytes; int written; } lf_array;

/* 0, or which of the codes from `code` on says what is wrong with the arrays. */
static int lf_check(int count, const lf_array *arrays, int code)
{
    for (int j = 0; j < count; ++j) {
        if (arrays[j].bytes < 0)
            return code + 2 * j;
        if (arrays[j].bytes > 0 && !arrays[j].start)
            return code + 2 * j + 1;
        for (int k = 0; k < j; ++k)
            if ((arrays[j].written || arrays[k].written) && arrays[j].bytes && arrays[k].bytes
                && arrays[j].start < arrays[k].start + (uint64_t)arrays[k].bytes
                && arrays[k].start < arrays[j].start + (uint64_t)arrays[j].bytes)
                return code + 2 * count;
    }
    return 0;
}
"""


@dataclass(slots=True)
class Draft:
    """A launcher being written: names, error texts so far, and the lines of the function."""

    manifest: Mapping[str, Any]
    names: dict[str, str]
    loops: dict[str, str]
    """The C names of parameters and sizes, and of the variables of host loops."""
    values: dict[str, str]
    """The C expression of type int64_t for each name that a formula may read."""
    failures: list[str] = field(default_factory=lambda: ["out of memory"])
    lines: list[str] = field(default_factory=list[str])

    @property
    def function(self) -> str:
        """The name of the C function."""
        return c_function(self.manifest["kernel"])

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        """What is checked while it runs."""
        return self.manifest.get("checks", [])

    @property
    def arrays(self) -> list[Mapping[str, Any]]:
        """The array parameters."""
        return [one for one in self.manifest["parameters"] if one["kind"] == "array"]

    def formula(self, text: object) -> str:
        """A formula of the manifest as C."""
        return to_c(str(text), self.values)

    def failure(self, text: str) -> int:
        """The code for a way to fail."""
        self.failures.append(text)
        return len(self.failures)

    def add(self, *lines: str, depth: int = 1) -> None:
        """Lines of the function."""
        self.lines += ["    " * depth + line for line in lines]


def start(manifest: Mapping[str, Any]) -> Draft:
    """The draft for a manifest."""
    parameters = [one["name"] for one in manifest["parameters"]]
    scalars = [one for one in manifest["parameters"] if one["kind"] == "scalar"]
    public = [*parameters, *manifest["sizes"]]
    every = c_names(dict.fromkeys([*public, *_loop_variables(manifest["steps"])]))
    names = {name: every[name] for name in public}
    values = {name: names[name] for name in manifest["sizes"]}
    for one in scalars:
        dtype = DType(one["dtype"])
        if dtype is DType.I64:
            values[one["name"]] = names[one["name"]]
        elif dtype.is_integer or dtype is DType.BOOL:
            values[one["name"]] = f"(int64_t){names[one['name']]}"
    return Draft(manifest, names, every, values)


def _loop_variables(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        name
        for step in steps
        if "loop" in step
        for name in (step["loop"]["var"], *_loop_variables(step["loop"]["body"]))
    ]


def dtype_of(one: Mapping[str, Any]) -> str:
    """The C type of a parameter's, buffer's or argument's elements."""
    return C_TYPES[DType(one["dtype"])]


def signature(draft: Draft, array: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """The function's parameters: the kernel's in order, then the sizes."""
    found = [
        array(one) if one["kind"] == "array" else f"{dtype_of(one)} {draft.names[one['name']]}"
        for one in draft.manifest["parameters"]
    ]
    return [*found, *(f"int64_t {draft.names[name]}" for name in draft.manifest["sizes"])]


def wrapped(head: str, items: Sequence[str], tail: str) -> str:
    """`head(items)tail`, broken over lines of 100 columns."""
    lines, line = list[str](), f"{head}("
    for number, item in enumerate(items):
        text = item + ("," if number < len(items) - 1 else "")
        if len(line) + len(text) > 96 and not line.endswith("("):
            lines.append(line.rstrip())
            line = "    "
        line += text + " "
    return "\n".join([*lines, line.rstrip()]) + f"){tail}"


def add_checks(draft: Draft, address: Callable[[str], str]) -> None:
    """Everything that is checked before anything runs; `address` turns a pointer into a number.

    Sizes are below 2**48 (2**31 for code with 32-bit indices), and so are the bytes of every
    array, as the compiler assumed. Declares `lf_code`, which is 0 afterwards.
    """
    manifest = draft.manifest
    for name in manifest["sizes"]:
        code = draft.failure(f"{name} is negative or too large")
        size = draft.names[name]
        draft.add(f"if ({size} < 0 || {size} > lf_most)", f"    return {code};")
    for condition in manifest["preconditions"]:
        text = f"{condition['message']} (needs {condition['text']})".replace("`", "'")
        code = draft.failure(text)
        draft.add(f"if (!({draft.formula(condition['text'])}))", f"    return {code};")
    if not draft.arrays:
        draft.add("int lf_code = 0;")
        return
    draft.add("const lf_array lf_arrays[] = {")
    first = len(draft.failures) + 1
    for one in draft.arrays:
        written = int(one["mode"] != "in")
        text = f"{{{address(draft.names[one['name']])}, {bytes_of(draft, one)}, {written}}},"
        draft.add(text, depth=2)
        draft.failure(f"the extents of {one['name']} are negative or too large")
        draft.failure(f"{one['name']} is null")
    draft.failure("an array that is written shares memory with another")
    draft.add(
        "};",
        f"int lf_code = lf_check({len(draft.arrays)}, lf_arrays, {first});",
        "if (lf_code)",
        "    return lf_code;",
    )


def fault_codes(draft: Draft) -> int:
    """A code for each subscript that is checked when it runs; the first of them.

    The code sets its error word to index * 65536 + number, numbers starting at 1.
    """
    first = len(draft.failures) + 1
    for check in draft.checks:
        what = "write past it" if check["writes"] else "read past it"
        draft.failure(f"a subscript of {check['array']} in line {check['line']} would {what}")
    return first


def bytes_of(draft: Draft, one: Mapping[str, Any], clip: bool = False) -> str:
    """The bytes of an array as C, -1 for none; with `clip` negative extents count as 0."""
    width = DType(one["dtype"]).bytes
    if not one["extents"]:
        return str(width)
    extents = [draft.formula(f"max(0, {text})" if clip else text) for text in one["extents"]]
    return f"lf_bytes({width}, {len(extents)}, (const int64_t[]){{{', '.join(extents)}}})"


def add_steps(
    draft: Draft,
    steps: Sequence[Mapping[str, Any]],
    launch: Callable[[Mapping[str, Any], int], None],
    depth: int = 1,
) -> None:
    """The host loops, with `launch(description, depth)` writing the launches in them."""
    for step in steps:
        if "launch" in step:
            launch(step["launch"], depth)
            continue
        loop = step["loop"]
        name = draft.loops[loop["var"]]
        by = int(loop["step"])
        compare = "<" if by > 0 else ">"
        draft.add("{", depth=depth)
        # Python takes a range's bounds once.
        draft.add(
            f"const int64_t lf_end_{name} = {draft.formula(loop['upper'])};",
            f"for (int64_t {name} = {draft.formula(loop['lower'])}; {name} {compare} lf_end_{name}; "
            f"{name} += {by}) {{",
            depth=depth + 1,
        )
        before = draft.values.get(loop["var"])
        draft.values[loop["var"]] = name
        add_steps(draft, loop["body"], launch, depth + 2)
        del draft.values[loop["var"]]
        if before is not None:
            draft.values[loop["var"]] = before
        draft.add("}", depth=depth + 1)
        draft.add("}", depth=depth)


def value_of(draft: Draft, argument: Mapping[str, Any]) -> str:
    """The variable that holds a launch's argument of kind `value`."""
    name = argument["name"]
    if name in draft.names:
        return draft.names[name]
    if name in draft.values:
        return draft.values[name]
    raise InternalError(Diagnostic("bad-manifest", f"the manifest passes `{name}`, which is nothing"))


def unused(draft: Draft) -> list[str]:
    """Lines that keep compilers quiet about parameters that nothing reads."""
    text = "\n".join(draft.lines)
    return [
        f"    (void){name};" for name in draft.names.values() if not re.search(rf"\b{name}\b", text)
    ]


def helpers(draft: Draft) -> str:
    """The definitions of the helper functions that the function's lines call."""
    text = "\n".join(draft.lines)
    bits = 31 if draft.manifest["index_bits"] == 32 else 48
    parts: list[str] = []
    if "lf_most" in text or "lf_bytes" in text:
        parts.append(f"static const int64_t lf_most = (INT64_C(1) << {bits}) - 1;\n")
    parts += used_helpers(text)
    parts += [_BYTES] if "lf_bytes(" in text else []
    parts += [_CHECK] if "lf_check(" in text else []
    return "\n".join(parts)


def error_function(draft: Draft, extra: Iterable[str] = ()) -> str:
    """`const char *NAME_error(int code)`."""
    texts = ["success", *draft.failures]
    lines = [
        f"const char *{draft.function}_error(int code)",
        "{",
        "    static const char *const texts[] = {",
        *(f"        {c_string(text)}," for text in texts),
        "    };",
        *extra,
        f'    return code >= 0 && code < {len(texts)} ? texts[code] : "unknown error";',
        "}",
    ]
    return "\n".join(lines) + "\n"


def header(draft: Draft, guard: str, include: str, declarations: str, comment: str) -> str:
    """The text of the header."""
    shapes = [
        f" *   {draft.names[one['name']]:<12} {one['mode']:<6} {one['dtype']}"
        f"[{', '.join(map(str, one['extents']))}]"
        for one in draft.arrays
    ]
    arrays = "\n".join([" * Arrays are packed, in C order:", *shapes, " *"]) if shapes else " *"
    return f"""\
/* {comment}
 * Made by loopfuse.
 *
{arrays}
 * Every function gives 0, or a code that {draft.function}_error turns into words.
 */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>
{include}
#ifdef __cplusplus
extern "C" {{
#endif

{declarations}
#ifdef __cplusplus
}}
#endif

#endif
"""
