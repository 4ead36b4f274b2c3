"""C names and types for what a manifest speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from loopfuse.base.dtypes import DType
from loopfuse.distribution.c_library import is_of_the_library

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
        const constexpr continue default delete do double dynamic_cast else enum explicit export
        extern false float for friend goto if inline int long mutable namespace new not not_eq
        nullptr operator or or_eq private protected public register reinterpret_cast restrict
        return short signed sizeof static static_assert static_cast struct switch template this
        throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
        while xor xor_eq NULL linux unix main malloc calloc free memset code stream image
        """,
    )
)
"""What a parameter or a function of a launcher cannot be called: keywords of C and C++, and the
names that the launcher itself uses besides those in `lf_`."""

_MACROS = re.compile(
    r"U?INT(8|16|32|64|MAX|PTR|_(FAST|LEAST)(8|16|32|64))?_(C|MAX|MIN)|"
    r"(SIZE|SSIZE|PTRDIFF|WCHAR|WINT|CHAR|SCHAR|UCHAR|SHRT|USHRT|LONG|ULONG|LLONG|ULLONG|PATH|NAME|"
    r"RAND|MB_CUR|MB_LEN|SIG_ATOMIC)_(MAX|MIN|BIT)|"
    r"EXIT_(SUCCESS|FAILURE)|SEEK_(SET|CUR|END)|FD_\w+|FP_\w+|HUGE_VAL[FL]?|M_\w+|CUDA_\w+|CU_\w+|"
    r"cu[A-Z]\w*|(I|INFINITY|NAN|EOF|EDOM|ERANGE|EILSEQ|BUFSIZ|CMPLX[FL]?|stdin|stdout|stderr|errno|"
    r"assert|complex|offsetof|alloca|signbit|fpclassify|is(finite|inf|nan|normal|unordered))|"
    r"u?int\w*_t|(s?size|ptrdiff|wchar|time|off|l?l?div|max_align|float|double|clock|locale|sigset|"
    r"[ugp]?id|key|mode|dev|ino)_t"
)
"""Macros and types of the headers that a launcher includes, or that a program is likely to include
before it: they are no names for parameters either."""

C_TYPES = {
    DType.BOOL: "bool", DType.I8: "int8_t", DType.I16: "int16_t", DType.I32: "int32_t",
    DType.I64: "int64_t", DType.U8: "uint8_t", DType.U16: "uint16_t", DType.U32: "uint32_t",
    DType.U64: "uint64_t", DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.F32: "float",
    DType.F64: "double",
}  # fmt: skip
"""f16 and bf16 are passed as their bits: C has no type for them that every compiler knows."""


def c_name(name: str) -> str:
    """`name` as a C identifier that is no keyword and does not start with `lf_` or `_`."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name)
    if text.startswith(("lf_", "_")):
        text = f"x{text}"
    return f"{text}_" if text in _KEYWORDS or _MACROS.fullmatch(text) else text


def c_function(name: str) -> str:
    """`name` as that of a C function: neither is it one of the C library or of CUDA."""
    text = c_name(name)
    return f"{text}_" if is_of_the_library(text) else text


def c_names(names: Iterable[str]) -> dict[str, str]:
    """A C identifier for each name, no two alike."""
    found: dict[str, str] = {}
    for name in names:
        text = c_name(name)
        while text in found.values():
            text += "_"
        found[name] = text
    return found


def c_string(text: str) -> str:
    """A C string literal: ASCII, other characters as the bytes of UTF-8."""
    out: list[str] = []
    for byte in text.encode():
        character = chr(byte)
        if character in '"\\':
            out.append(f"\\{character}")
        elif character == "?" or not 32 <= byte < 127:
            # Three octal digits always end the escape; `??` could start a trigraph.
            out.append(f"\\{byte:03o}")
        else:
            out.append(character)
    return f'"{"".join(out)}"'
