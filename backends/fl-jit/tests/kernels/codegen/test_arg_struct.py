"""Blocks of named fields: as Python writes them, so machine code reads them."""

from __future__ import annotations

import ctypes

import pytest
from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.arg_struct import ArgStruct, address, array
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import i64, pointer

FIELDS = ArgStruct("rows columns", per_call="x scale", floating={"scale"})


def test_fields_of_a_call_come_first():
    assert FIELDS.names == ("x", "scale", "rows", "columns")
    assert len(FIELDS) == 4 and FIELDS.per_call == 2
    assert ArgStruct(("rows", "columns"), ("x", "scale")).names == FIELDS.names
    block = (ctypes.c_int64 * 5)(*[7] * 5)
    FIELDS.pack_into(block, 8, -3, 0.5)
    assert list(block)[:2] == [7, -3] and list(block)[3:] == [7, 7]
    assert ctypes.c_double.from_buffer(block, 16).value == 0.5


def test_values_and_blocks():
    assert FIELDS.values({"columns": 4}) == [0, 0, 0, 4]
    assert list(FIELDS.block(columns=4, rows=3, scale=2, x=1)) == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="no fields .'depth'. in the struct"):
        FIELDS.values({"depth": 1})
    with pytest.raises(TypeError, match="no values for the fields .'scale', 'x'."):
        FIELDS.block(columns=4, rows=3)
    assert list(array(())) == [0], "an address needs memory"


@pytest.mark.parametrize("where_used", [False, True])
def test_machine_code_reads_what_python_wrote(where_used):
    """The fields are used in a loop that changes one of them."""

    class Sum(Loops):
        def __init__(self, module):
            function = ir.Function(module, ir.FunctionType(i64, [pointer]), "sum")
            self.b = b = Builder(function.append_basic_block("entry"))
            (block,) = function.args
            fields, total = FIELDS.fields(b, block, where_used), self.variable(i64)
            b.store(i64(0), total)
            with self.loop(i64(0), fields["rows"]):
                b.store(b.add(b.load(total, typ=i64), fields["columns"]), total)
                b.store(b.add(fields["columns"], i64(1)), FIELDS.at(b, block, "columns"))
            found = b.load(FIELDS.load_pointer(b, block, "x"), typ=i64)
            b.ret(b.add(b.load(total, typ=i64), found))

    def assembly():
        module = ir.Module("sum")
        module.triple = target.triple()
        Sum(module)
        return str(module)

    code = compile.load(f"test of argument structs {where_used}", assembly, target.host())
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("sum"))
    x = array([1000])
    block = FIELDS.block(x=address(x), scale=0, rows=3, columns=10)
    once, each = 3 * 10, 10 + 11 + 12
    assert function(address(block)) == 1000 + (each if where_used else once)
