"""Text mutations of real programs: what a slipping hand, a broken disk or an enemy makes of them."""

from __future__ import annotations

import random
import re

HUGE = (
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
    "99999999999999999999999999", "0", "-1", "2147483648", "1e400", "1.0e308", "0.0", "inf", "nan",
    "0xffffffffffffffff", "1_000_000", "4294967296", "1" * 400,
)  # fmt: skip
WORDS = (
    "kernel", "func", "const", "temp", "let", "var", "for", "in", "if", "elif", "else", "step",
    "out", "inout", "swap", "assume", "fuse:", "nofuse:", "parallel", "sum", "max", "argmin", "any",
    "and", "or", "not", "f32", "f16", "bf16", "i8", "u64", "bool", "i64", ".clamp", ".wrap", ".zero",
    "..", ":", ",", "[", "]", "(", ")", "{", "}", "->", "=", "+=", "min=", "**", "//", "%", "<<", ">>",
    "==", "<=", "~", "^", "@", "\\", "'", '"', "return", "lambda", "pi", "exp", "N", "i", "x", "a",
    "é", "変", "\u202e", "\u200b", "\ufeff", "\x00", "\x07", "\x0c", "\r", "\r\n", "\t", "\ud7ff",
    "\U0001f600", "\u2028",
)  # fmt: skip
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def mutate(text: str, generator: random.Random, times: int | None = None) -> str:
    """`text` after a few random changes to tokens, lines, numbers, names and characters."""
    for _ in range(times or generator.choice((1, 1, 1, 2, 3, 6))):
        text = generator.choice(_CHANGES)(text, generator)
    return text[:100_000]


def _tokens(text: str, generator: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return generator.choice(WORDS)
    place, other = generator.randrange(len(tokens)), generator.randrange(len(tokens))
    match generator.randrange(5):
        case 0:
            del tokens[place]
        case 1:
            tokens.insert(other, tokens[place])
        case 2:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        case 3:
            tokens[place] = generator.choice(WORDS)
        case _:
            tokens.insert(place, f" {generator.choice(WORDS)} ")
    return "".join(tokens)


def _lines(text: str, generator: random.Random) -> str:
    lines = text.split("\n")
    place, other = generator.randrange(len(lines)), generator.randrange(len(lines))
    match generator.randrange(5):
        case 0:
            del lines[place]
        case 1:
            lines.insert(other, lines[place])
        case 2:
            lines[place], lines[other] = lines[other], lines[place]
        case 3:
            lines[place] = " " * generator.randrange(9) + lines[place].strip()
        case _:
            return "\n".join(lines[:place])
    return "\n".join(lines)


def _numbers(text: str, generator: random.Random) -> str:
    found = list(re.finditer(r"\b\d+(\.\d+)?\b", text))
    if not found:
        return text
    one = generator.choice(found)
    return text[: one.start()] + generator.choice(HUGE) + text[one.end() :]


def _names(text: str, generator: random.Random) -> str:
    names = sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)))
    if not names:
        return text
    old, new = generator.choice(names), generator.choice([*names, *WORDS[:40]])
    if generator.randrange(2):
        return re.sub(rf"\b{old}\b", lambda _: new, text)
    found = list(re.finditer(rf"\b{old}\b", text))
    one = generator.choice(found)
    return text[: one.start()] + new + text[one.end() :]


def _characters(text: str, generator: random.Random) -> str:
    place = generator.randrange(len(text) + 1)
    match generator.randrange(3):
        case 0:
            return text[:place] + text[place + 1 :]
        case 1:
            return text[:place] + chr(generator.randrange(1, 0x3000)) + text[place:]
        case _:
            return text[:place] + generator.choice(("(", "[", "-", "not ", " ")) * 300 + text[place:]


def _whole(text: str, generator: random.Random) -> str:
    match generator.randrange(4):
        case 0:
            return "\ufeff" + text
        case 1:
            return text.replace("\n", "\r\n")
        case 2:
            return text.replace("    ", "\t")
        case _:
            return text + text


_CHANGES = (_tokens, _tokens, _tokens, _lines, _numbers, _numbers, _names, _names, _characters, _whole)
