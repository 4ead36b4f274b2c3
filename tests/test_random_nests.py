"""Random loop nests (`fuzz.nests`): compiled code beside the interpreter, with every launch shared among threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz import nests, seeds
from fuzz.choices import RandomChoices
from fuzz.program import Program

FOUND = {
    "one name for parts of a loop that do and do not move": """
kernel k(x: f64[N, N], inout y: f64[N, N]):
    for i in N - 1..1 step -1:
        y[i, i] -= x[i, i]
        for j in i + 1..N - 1:
            y[j, j - 3] = x[i, i]
            y[j, i] max= x[j, j]
""",
    "the same, in an element that others write": """
kernel k(x: i32[N, N], inout y: i32[N, N], inout z: i32[N, N]):
    for i in 0..N - 1:
        for j in i - 1..-1 step -1:
            y[i, i] = 1
            let v = x[i, j]
            z[j, j] = v
""",
    "a sum that is overwritten": """
kernel k(x: i64[N], inout y: i64[M, N]):
    for i in 0..M:
        for j in N - 1..-1 step -1:
            y[0, 0] += x[0]
            y[i, j] = x[j]
""",
    "a sum that is overwritten, and read": """
kernel k(x: i64[N], inout y: i64[N], inout z: i64[N]):
    for i in N - 1..-1 step -1:
        y[0] += x[i]
        y[i] = x[0]
        z[i] = z[i] + y[i]
""",
    "partial results of a loop around an empty one": """
kernel k(x: i32[N, N], inout y: i32[N], inout z: i32[N]):
    for i in 2..N:
        for j in i + 1..N:
            z[i] = y[N - 1 - j]
        for j in 2..i:
            for k in i + 1..N:
                y[i - 1] -= 5
                z[j] = x[j, 0]
""",
    "partial results of two loops of which each is empty": """
kernel k(x: i32[N], inout y: i32[N, 2 * N], inout z: i32[N, N]):
    for i in 0..N step 2:
        for j in 1..i + 1:
            y[N - 1 - i, j] max= z[j, i] - z[N - 1 - j, N - 1 - j] - 5 * y[i, j + i]
            let v = y[j, j + j] * x[i] - z[N - 1 - j, 0]
            z[j, 0] = v + y[0, i + j]
        for j in i..N - 1:
            y[0, i + i] += 5 * z[0, N - 1 - j] - z[j, 0] - x[0]
""",
    "the last of several writes, where the analysis gave up": """
kernel k(x: i32[N], inout y: i32[N, N]):
    for i in N - 2..0 step -1:
        if i % 3 == 0:
            for j in max(i - 2, 2)..N:
                y[0, 0] = x[i]
""",
    "a sum that a host's iteration may not have": """
kernel k(x: i32[N], inout y: i32[N], inout z: i32[N]):
    for i in 0..N:
        z[0] += x[i]
        for j in N - 1..-1 step -1:
            if i % 2 == 0:
                y[i] = y[j]
                var s: i32 = 0
                for k in 0..N:
                    s -= y[i]
                y[i] = s
""",
    "a sum into an element that is there where there are terms": """
kernel k(x: i32[N], inout y: i32[N], inout z: i32[N]):
    for i in 0..N:
        z[0] = 3 * z[0] + y[0]
        for j in 0..i:
            y[i - 1] += x[j]
        y[0] += z[0]
""",
    "a number that all sums of a triangle share": """
kernel k(inout y: f32[N], x: f32[N, N]):
    for i in 0..N:
        for j in i + 1..N:
            var s: f32 = 0.0
            for k in 1..N:
                s += x[k, N - 1 - j] - 0.25 * x[k, i] - 0.25 * y[0]
            y[j] = s
""",
}
"""What random nests were planned wrongly, as the checker noticed: each in the fewest lines."""


@pytest.mark.parametrize("machine", ["usual", "tiny"])
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, machine: str) -> None:
    text = FOUND[name].lstrip()
    sizes = {size: 7 for size in "NM" if f"{size}]" in text or f"[{size}" in text}
    checked = nests.check_program(Program(text, sizes, machine=machine))
    assert checked.status == "ok", checked


@pytest.mark.parametrize("number", range(24))
def test_random_nests(number: int) -> None:
    """The first of the campaign `tests/loopfuse-fuzz --generator nests`."""
    checked = nests.check(number)
    assert checked.status != "failed", (checked, nests.text(number, ""))


def test_nests_have_what_their_name_says() -> None:
    """Triangles, loops that count down and by two, accumulators, conditions, loops of time; most are accepted."""
    texts = [nests.generate(RandomChoices(f"nest:{number}")).text for number in range(300)]
    for part in ("..j1:", "step -1", "step 2", "var s", "if ", "for t in", "max(", "let v", "+ j1", "max="):
        assert sum(part in text for text in texts) > 10, part
    assert sum(text.count("for ") > 3 for text in texts) > 60


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_nests(tmp_path: Path) -> None:
    """500 for each width of vectors."""
    settings = seeds.Settings("nests", 1_000_000, 1_001_500, ("x86-64-v2", "x86-64-v3", "native"), 2, failures=tmp_path)
    totals = seeds.run_seeds(settings)
    assert not totals.kinds and len(totals.done) == 1500, totals.summary(settings)
