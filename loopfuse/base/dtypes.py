"""Element types: names, kinds, widths and their NumPy twins."""

from __future__ import annotations

import enum


class DType(enum.Enum):
    """An element type. The value is its name in source text."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def bits(self) -> int:
        """Width in bits; a bool counts 8, as it is stored."""
        match self:
            case DType.BOOL:
                return 8
            case DType.BF16:
                return 16
            case _:
                return int(self.value[1:])

    @property
    def bytes(self) -> int:
        """Width in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """One of f16, bf16, f32, f64."""
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @property
    def is_narrow_float(self) -> bool:
        """f16 or bf16: stored, and computed with in f32."""
        return self in (DType.F16, DType.BF16)

    @property
    def is_signed(self) -> bool:
        """A signed integer."""
        return self.value[0] == "i"

    @property
    def is_unsigned(self) -> bool:
        """An unsigned integer."""
        return self.value[0] == "u"

    @property
    def is_integer(self) -> bool:
        """A signed or unsigned integer; bool is neither."""
        return self.is_signed or self.is_unsigned

    @property
    def numpy_name(self) -> str:
        """The dtype's name in NumPy (bfloat16 is ml_dtypes')."""
        match self:
            case DType.BOOL:
                return "bool"
            case DType.BF16:
                return "bfloat16"
            case _:
                kind = {"i": "int", "u": "uint", "f": "float"}[self.value[0]]
                return kind + self.value[1:]


def from_numpy_name(name: str) -> DType | None:
    """The DType whose `numpy_name` is `name`, or None."""
    return next((dtype for dtype in DType if dtype.numpy_name == name), None)
