"""What is done about each message of a call: Python programs that end in one."""

from __future__ import annotations

import ast
import re

from tests.fixes.said import ByMachine, ByUser, Entry, Hand, Said, in_text, template

_KERNEL = """@loopfuse.kernel
def k(x: loopfuse.f32["N"], y: loopfuse.f32["N"], s: {s} = {one}):
    for i in range(len(x)):
        y[i] = s * x[i]


x, y = np.ones(8, np.float32), np.ones(8, np.float32)
"""
_SQUARE = """def f(a: {0}, y: {1}) -> None:
    for i in range(len(y)):
        y[i] = a[i, i]


k = loopfuse.kernel(f)
k(np.zeros((3, 4)), np.zeros(3))
"""
_LF = 'k = loopfuse.loads("""{}""")\n{}\n'
_SIZED = "kernel k(x: f32[2*N + 1], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[2*i]\n"
_GATHER = (
    "kernel k(x: f32[N], idx: i32[M], out y: f32[M]):\n    for i in 0..M:\n        y[i] = x[idx[i]]\n"
)
_READ = 'x, idx = np.ones(8, np.float32), np.full(3, 9, np.int32)\nk(x, idx)'
DEVICE = ByUser("it takes a GPU, or another one")


def call(arguments: str, one: str = "1.0", s: str = "float") -> str:
    """A program that calls a kernel of `x`, `y` and a number."""
    return _KERNEL.format(s=s, one=one) + f"k({arguments})\n"


def argument(said: Said) -> str:
    """What the fix makes of the argument that the message names, in the last line's call."""
    lines = said.text.rstrip("\n").split("\n")
    found = ast.parse(lines[-1]).body[0]
    assert isinstance(found, ast.Expr) and isinstance(found.value, ast.Call)
    names = re.findall(r"(\w+): ", re.search(r"def k\((.*)\):", said.text)[1])  # type: ignore[index]
    name = re.search(r"(?:expects|writes|elements of) `(\w+)`", said.diagnostic.message)
    assert name is not None
    old = found.value.args[names.index(name[1])]
    given = ast.unparse(old)
    code = said.codes[0]
    if code.startswith("."):
        code = name[1] + code
    new = re.sub(rf"\b{name[1]}\b|\.\.\.", lambda _: given, code)
    found.value.args[names.index(name[1])] = ast.parse(new, mode="eval").body
    return "\n".join([*lines[:-1], ast.unparse(found.value), ""])


def last_line(pattern: str, make: str) -> Hand:
    """The last line with `make`, whose `{}` is the fix's first code, instead of the pattern."""

    def hand(said: Said) -> str:
        lines = said.text.rstrip("\n").split("\n")
        lines[-1], count = re.subn(pattern, lambda m: make.format(*said.codes, m[0]), lines[-1], count=1)
        assert count == 1
        return "\n".join(lines) + "\n"

    return hand


def _given_size(said: Said) -> str:
    assert "by name" in said.fix
    return said.text.replace("k(x)", f"k(x, {template(said.codes[0], **{'...': '2'})})")


def _declared(said: Said) -> str:
    """`declare the extents apart: `a: f64[N, M]``, in the caller's spelling."""
    name = said.codes[0].split(":")[0]
    changed, count = re.subn(
        rf"\b{name}: [\w.]+\[[^\]]*\]", lambda _: said.codes[0], said.text, count=1
    )
    assert count == 1
    return changed


CALLS: dict[str, Entry] = {
    "cannot-allocate": ByUser("the array is to be made by another library"),
    "cuda-error": DEVICE,
    "doubled-argument": ByMachine(
        lambda s: re.sub(r", x=x", "", s.text) if s.fix == "give it once" else "?", call("x, y, x=x")
    ),
    "grid-too-large": DEVICE,
    "missing-argument": ByMachine(
        lambda s: s.text.replace("k(x)", f"k(x, {template(s.codes[0], **{'...': 'y'})})"), call("x")
    ),
    "missing-size": ByMachine(_given_size, _LF.format(_SIZED, "x = np.ones(5, np.float32)\nk(x)")),
    "mixed-devices": DEVICE,
    "name-of-a-stride": ByUser("the new name is the user's choice"),
    "no-gpu": DEVICE,
    "not-an-array": ByMachine(argument, call("[1.0] * 8, y")),
    "not-contiguous": ByUser("it is said of code that was compiled ahead"),
    "out-of-memory": ByUser("the machine has no more memory"),
    "overlap": ByMachine(
        lambda s: s.text.replace("k(x, x)", "k(x.copy(), x)") if "a copy of one" in s.fix else "?",
        call("x, x"),
    ),
    "read-only": ByMachine(argument, call("x, np.broadcast_to(y, 8)")),
    "scalar-range": ByUser("which number was meant is not known"),
    "scalar-type": ByMachine(argument, call("x, y, 1.5", "1", "loopfuse.i32")),
    "self-overlap": ByMachine(
        argument, call("x, np.lib.stride_tricks.as_strided(y, (8,), (0,))")
    ),
    "size-mismatch": ByMachine(
        _declared, _SQUARE.format('loopfuse.f64["N", "N"]', 'loopfuse.Out[loopfuse.f64["N"]]')
    ),
    "size-too-large": ByUser("which size was meant is not known"),
    "subscript-out-of-range": ByMachine(
        in_text(r"x\[idx\[i\]\]", lambda s, m: template(s.codes[0], **{"...": "idx[i]"})),
        _LF.format(_GATHER, _READ),
    ),
    "bad-check": ByMachine(
        lambda s: re.sub(r'"no"', next(iter(re.findall(r'"\w+"', s.fix))), s.text),
        call("x, y") + 'loopfuse.kernel(k.reference, check="no")(x, y)\n',
    ),
    "too-many-arguments": ByUser("which argument is too many is not known"),
    "unaligned": DEVICE,
    "unaligned-copy": ByUser("it is a warning, which tests/runtime has with what it proposes"),
    "uneven-strides": DEVICE,
    "tuning-differs": ByUser("it is a fault of ours, and asks for a report"),
    "tuning-memory": ByUser("the machine has no more memory"),
    "unknown-argument": ByUser("what the name was to be is not known"),
    "wrong-dtype": ByMachine(argument, call("x.astype(np.float64), y")),
    "wrong-rank": ByMachine(argument, call("x.reshape(2, 4), y")),
    "torch-op-result": ByUser("what the operator's callers do with a number is not known"),
    "other-python": ByUser("the function has to be put in a module"),
}
MORE: list[tuple[str, str, ByMachine]] = [
    ("calls", "size-mismatch", ByMachine(
        _declared,
        _LF.format(
            "kernel k(a: f64[N, N], out y: f64[N]):\n    for i in 0..N:\n        y[i] = a[i, i]\n",
            "k(np.zeros((3, 4)), np.zeros(3))",
        ),
    )),
    ("calls", "size-mismatch", ByMachine(
        last_line(r"y\[:5\]", "np.ones({0}, np.float32)"), call("x, y[:5]")
    )),
    ("calls", "scalar-type", ByMachine(argument, call("x, y, True"))),
    ("calls", "scalar-type", ByMachine(argument, call("x, y, 1j"))),
]
"""Other programs of codes that have an entry."""
