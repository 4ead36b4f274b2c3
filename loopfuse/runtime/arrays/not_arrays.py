"""What to pass instead of a value that is no array of memory: the same words in every door."""

from __future__ import annotations

from typing import Any

from loopfuse.runtime.arrays.views import problem_of


def what_to_pass(name: str, value: Any, writes: bool, otherwise: str) -> tuple[str, str]:
    """Why `value`, given for `name`, is no array (empty where there is nothing to say), and the fix;
    `otherwise` for what we know nothing of. `writes`: the kernel changes it, so that what it leaves in
    a copy must get back."""
    problem, fix = problem_of(value)
    fix = fix.replace("{}", name) or _loading(name, value) or otherwise
    head, quote, rest = fix.partition("`")
    copy, _, rest = rest.partition("`")
    if not writes or not quote or not copy.startswith(f"{name}.") or copy.endswith(".detach()"):
        return problem, fix
    back = {"resolve_neg": f"{name}.copy_(t)", "resolve_conj": f"{name}.copy_(t)",
            "cpu": f"{name}.copy_(t)", "filled": f"{name}[...] = t"}  # fmt: skip
    method = copy.removeprefix(f"{name}.").partition("(")[0]
    if method in back:
        return problem, f"copy it in and out: `t = {copy}`, pass `t`, then `{back[method]}`"
    return problem, f"{head.removeprefix('pass ')}`t = {copy}`, pass `t`, which then holds the result"


def _loading(name: str, value: Any) -> str:
    """Dask's and xarray's arrays may lie on a disk, or in parts."""
    match type(value).__module__.partition(".")[0]:
        case "dask":
            return f"load all of it: `{name}.compute()`"
        case "xarray":
            return f"load all of it: `{name}.to_numpy()`"
        case _:
            return ""
