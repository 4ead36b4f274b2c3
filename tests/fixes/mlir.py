"""What is done about each message of the MLIR door."""

from __future__ import annotations

import re

from tests.fixes.said import ByMachine, ByUser, Entry, Said


def _type(said: Said) -> str:
    """`use `i64``, for the type that the message names."""
    wrong = re.search(r"type `(\w+)`", said.diagnostic.message)
    assert wrong is not None
    return said.text.replace(wrong[1], said.codes[0])


_LOOP = """func.func @f(%x: memref<?x{0}>, %y: memref<?x{0}>, %n: index) {{
  affine.for %i = 0 to %n {{
    %v = affine.load %x[%i] : memref<?x{0}>
    affine.store %v, %y[%i] : memref<?x{0}>
  }}
  return
}}
"""

MLIR: dict[str, Entry] = {
    "mlir-syntax": ByUser("what was meant by the text is not known"),
    "mlir-operation": ByUser("the pass is one of mlir-opt's"),
    "mlir-invalid": ByUser("what the operation was to be given is not known"),
    "mlir-unread": ByMachine(_type, _LOOP.format("i128")),
    "mlir-step": ByUser("the value of the step is the user's"),
    "mlir-function": ByUser("branches become structured loops in many ways"),
    "mlir-result": ByUser("the caller has to pass the memref"),
    "mlir-attribute": ByMachine(
        lambda s: s.text.replace('["1 +"]', s.codes[0]),
        _LOOP.format("f32").replace("%x: memref<?xf32>", '%x: memref<?xf32> {loopfuse.extents = ["1 +"]}'),
    ),
    "mlir-limit": ByUser("another operation or memref is the user's choice"),
}
