"""The records of the module that is compiled: types by identity, operations in blocks."""

from __future__ import annotations

from loopfuse.codegen.build import Builder, intrinsic_suffix, lane_values, like
from loopfuse.codegen.ir import (
    F32,
    I32,
    I64,
    INDEX,
    Block,
    BlockArgument,
    Operation,
    bytes_of,
    memref_type,
    module_of,
    vector_type,
)
from loopfuse.codegen.mlir.print import print_module, print_type


def test_types_are_made_once() -> None:
    assert vector_type(F32, 4) is vector_type(F32, 4) and vector_type(F32, 4) is not vector_type(F32, 8)
    assert memref_type(F32) is memref_type(F32) and memref_type(F32, 3, "workgroup") is not memref_type(F32, 3)
    assert like(vector_type(F32, 4), I32) is vector_type(I32, 4) and like(F32, I32) is I32
    assert [bytes_of(kind) for kind in (F32, I64, INDEX)] == [4, 8, 8]
    assert intrinsic_suffix(vector_type(I32, 4)) == "v4i32" and intrinsic_suffix(INDEX) == "i64"
    assert print_type(memref_type(F32, 3, "workgroup")) == "memref<3xf32, #gpu.address_space<workgroup>>"


def test_operations_know_where_they_stand() -> None:
    block = Block((I64, I64))
    builder = Builder(block)
    first, last = block.args
    total = builder.binary("addi", first, last)
    inside: list[Operation] = []

    def body(iterator: object) -> None:
        inside.append(builder.binary("muli", total, total).owner)  # type: ignore[arg-type]

    builder.loop(first, last, builder.constant(1, I64), body)
    loop = block.ops[-1]
    assert isinstance(first, BlockArgument) and first.owner is block
    assert inside[0].parent_op() is loop and loop.parent_op() is None
    module = module_of([Operation("func.func", properties={"sym_name": "f", "outputs": ()}, blocks=(block,))])
    assert [each.name for each in module.walk()] == [
        "builtin.module", "func.func", "arith.addi", "scf.for", "arith.muli", "scf.yield",
    ]  # fmt: skip
    block.insert(0, [Operation("arith.constant", (), (I64,), {"value": 7})])
    block.remove(total.owner)  # type: ignore[arg-type]
    assert [each.name for each in block.ops] == ["arith.constant", "scf.for"]


def test_constants_are_one_of_each_and_stand_first() -> None:
    block = Block((vector_type(F32, 4),))
    builder = Builder(block)
    tenth = builder.constant(0.1, vector_type(F32, 4))
    assert tenth is builder.constant(0.1, vector_type(F32, 4)) and tenth is not builder.constant(0.1, F32)
    assert builder.constant(-1, I32) is not builder.constant(255, I32)
    builder.binary("addf", block.args[0], tenth)
    builder.close()
    assert [each.name for each in block.ops] == ["arith.constant"] * 4 + ["arith.addf"]
    assert lane_values(block.ops[0]) == (0.10000000149011612,) * 4  # as an f32 has it
    assert list(lane_values(builder.iota(vector_type(I32, 4)).owner)) == [0, 1, 2, 3]  # type: ignore[arg-type]
    text = print_module(module_of([Operation("func.func", properties={"sym_name": "f", "outputs": ()}, blocks=(block,))]))
    assert "arith.constant dense<0.10000000149011612> : vector<4xf32>" in text
