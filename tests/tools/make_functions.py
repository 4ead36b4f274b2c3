"""Writes the lists of functions into docs: between two marks of a page, from `lang.ops`.

    python tests/tools/make_functions.py [--check]

`--check` changes nothing and exits 1 if a page is not current (a test runs it).
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the checkout that this file is in, installed or not

from loopfuse.base.dtypes import DType  # noqa: E402
from loopfuse.lang import native, nodes, ops, price  # noqa: E402

START = "<!-- functions: tests/tools/make_functions.py -->"
END = "<!-- end of functions -->"
ARGUMENTS = {"fma": "a, b, c", "clip": "x, low, high", "copysign": "size, sign", "atan2": "y, x"}


def words(found: list[str]) -> str:
    """Names in a row, as code."""
    return " ".join(f"`{each}`" for each in found)


def paragraph(text: str) -> str:
    """Lines of the page's width."""
    return "\n".join(textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False))


def language() -> str:
    """What `.lf` calls, by the number of operands."""
    parts: list[str] = []
    for arity, title in ((1, "Of one number"), (2, "of two"), (3, "of three")):
        found = [each for each in ops.OPERATIONS if each.function and each.arity == arity]
        names = [f"{each.name}({ARGUMENTS[each.name]})" if each.name in ARGUMENTS else each.name for each in found]
        parts.append(f"{title}: {words(names)}")
    return paragraph("; ".join(parts) + ".")


def python() -> str:
    """The names of each library, one row each."""
    rows = {
        "`np.`, in the type of their operands (tests give a bool)": "numpy",
        "`np.`, which are operators, but for that they never give a Python number": "operators",
        "`math.`, which give a Python float (or a bool)": "math",
        "`math.`, which give a Python int": "whole",
        "Python's own": "python",
        "`loopfuse.`": "own",
    }
    lines = ["| | |", "|---|---|"]
    for title, library in rows.items():
        others = {"own": ["erf", "rsqrt"], "operators": [*ops.NUMPY_OPERATORS]}
        found = others.get(library) or [
            name for each in ops.OPERATIONS for name in getattr(each, library)
        ]
        found += ops.MATH_ANGLES if library == "math" else ()
        lines.append(f"| {title} | {words(found)} |")
    return "\n".join(lines)


def costs() -> str:
    """Bounds and costs of each function."""
    lines = [
        "| function | ulps in f32, f64 | on a GPU | on a CPU | MLIR |",
        "|---|---|---|---|---|",
    ]
    for each in ops.OPERATIONS:
        if not each.function:
            continue
        bound = "exact" if each.ulps is None else "{}, {}".format(*each.ulps)
        if each.name in ("sqrt", "fma"):
            bound = "rounded once"
        if each.meaning:
            bound = f"as `{each.meaning}`"
        lines.append(
            f"| `{each.name}` | {bound} | {each.gpu.single:g}, {each.gpu.double:g} | "
            f"{each.cpu.single:g}, {each.cpu.double:g} | "
            f"{words([f'math.{word}' for word in each.mlir])} |"
        )
    return "\n".join(lines)


NATIVE_START = "<!-- native: tests/tools/make_functions.py -->"
NATIVE_END = "<!-- end of native -->"


def natives() -> str:
    """What `fp="native"` makes of what is approximated: the PTX, its bound, and instructions of an element beside the default's."""
    x, w = (nodes.Load(name, (nodes.Iter("i"),), DType.F32) for name in "xw")
    lines = ["| | PTX | ulps | instructions | by default |", "|---|---|---|---|---|"]
    for name, found in ops.NATIVE.items():
        two = ops.BY_NAME[name].arity == 2
        expr: nodes.Expr = nodes.Binary(name, x, w, DType.F32) if two else nodes.Call(name, (x,), DType.F32)
        loads = (1 + two) * price.OPERATION
        default, after = (price.expression_price(each, "gpu") - loads for each in (expr, native.approximated_value(expr)))
        spelled = "x / y" if name == "div" else f"{name}({'x, y' if two else 'x'})"
        bound = found.words.removesuffix(" ulp").replace("|", "\\|")
        lines.append(f"| `{spelled}` | `{found.instruction}` | {bound} | {after:g} | {default:g} |")
    return "\n".join(lines)


PAGES = {"language.md": language, "python.md": python, "types.md": costs}


def make_page(name: str) -> tuple[str, str]:
    """A page as it is and as it should be."""
    page = (ROOT / "docs" / name).read_text("utf-8")
    before, _, rest = page.partition(START)
    _, mark, after = rest.partition(END)
    assert mark, f"docs/{name} lacks its marks"
    made = f"{before}{START}\n{PAGES[name]()}\n{END}{after}"
    if NATIVE_START in made:
        before, _, rest = made.partition(NATIVE_START)
        _, mark, after = rest.partition(NATIVE_END)
        assert mark, f"docs/{name} lacks its marks"
        made = f"{before}{NATIVE_START}\n{natives()}\n{NATIVE_END}{after}"
    return page, made


def main() -> int:
    """Write the pages, or compare with them."""
    for name in PAGES:
        page, wanted = make_page(name)
        if "--check" in sys.argv and page != wanted:
            return 1
        (ROOT / "docs" / name).write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
