"""The builder of instructions: the same machine code as llvmlite's builder gives, and mistakes are
found where they are made."""

from __future__ import annotations

import pytest
from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.vectors import f32, f64, i1, i8, i32, i64, pointer

FOUR = ir.VectorType(i32, 4)
FLOATS = ir.VectorType(f32, 4)
#: (ptr, i64, i64, i32, double, double, <4 x i32>, <4 x float>)
SIGNATURE = ir.FunctionType(i64, [pointer, i64, i64, i32, f64, f64, FOUR, FLOATS])


def function(builder, body):
    """A function whose result is what ``body`` gives, made by a kind of builder."""
    module = ir.Module("module")
    module.triple = target.triple()
    made = ir.Function(module, SIGNATURE, "f")
    b = builder(made.append_basic_block("entry"))
    found = body(b, module, *made.args)
    b.ret(i64(0) if found is None else found)
    return str(module)


def integer(name):
    return lambda b, m, p, x, y, *rest: getattr(b, name)(x, y)


def floating(name):
    return lambda b, m, p, x, y, n, a, c, *rest: b.bitcast(getattr(b, name)(a, c), i64)


def compared(name, how):
    return lambda b, m, p, x, y, *rest: b.zext(getattr(b, name)(how, x, y), i64)


def in_blocks(b, module, p, x, y, *rest):
    before = b.block
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    with b.goto_entry_block():
        room = b.alloca(i64)
        b.store(i64(0), room)
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(i64)
    index.add_incoming(i64(0), before)
    b.cbranch(b.icmp_signed("<", index, x), body, after)
    b.position_at_end(body)
    with b.if_then(b.icmp_unsigned(">", index, y)):
        b.store(b.add(b.load(room, typ=i64), index), room)
    with b.goto_entry_block():  # before the branch that ends it
        twice = b.add(y, y)
    b.store(b.sub(b.load(room, typ=i64), twice), room)
    index.add_incoming(b.add(index, i64(1)), b.block)
    b.branch(head)
    b.position_at_end(after)
    return b.load(room, typ=i64)


def of_vectors(b, module, p, x, y, n, a, c, four, floats):
    some = b.insert_element(four, n, i32(2))
    turned = b.shuffle_vector(some, four, ir.Constant(FOUR, [3, 2, 5, 0]))
    chosen = b.select(b.icmp_signed("<", turned, four), b.not_(turned), four)
    whole = b.fptosi(b.fadd(floats, b.sitofp(chosen, FLOATS)), FOUR)
    return b.sext(b.extract_element(whole, i32(1)), i64)


def of_memory(b, module, p, x, y, *rest):
    place = b.gep(p, [b.mul(x, i64(3))], source_etype=i8)
    found = b.load(place, typ=f32, align=1)
    b.store(b.fneg(found), b.gep(place, [x], source_etype=f32), align=4)
    return b.ptrtoint(b.inttoptr(b.add(b.ptrtoint(place, i64), y), pointer), i64)


def of_calls(b, module, p, x, y, n, a, c, *rest):
    most = ir.Function(module, ir.FunctionType(f64, [f64, f64]), "llvm.maxnum.f64")
    nothing = ir.Function(module, ir.FunctionType(ir.VoidType(), [i1]), "llvm.assume")
    b.call(nothing, [b.icmp_signed(">", x, y)])
    kind = ir.FunctionType(i64, [i64])
    same = b.asm(kind, "", "=r,0", [b.neg(x)], side_effect=False)
    return b.add(b.bitcast(b.call(most, [a, c]), i64), same)


BODIES = {
    **{n: integer(n) for n in ("add", "sub", "mul", "sdiv", "srem", "udiv", "urem", "and_", "or_")},
    **{n: integer(n) for n in ("xor", "shl", "lshr", "ashr")},
    **{n: floating(n) for n in ("fadd", "fsub", "fmul", "fdiv")},
    **{f"signed {how}": compared("icmp_signed", how) for how in ("<", "<=", ">", ">=", "==", "!=")},
    **{f"unsigned {how}": compared("icmp_unsigned", how) for how in ("<", "<=", ">", ">=")},
    "narrower and wider": lambda b, m, p, x, *rest: b.zext(b.trunc(x, i8), i64),
    "the same width": lambda b, m, p, x, *rest: b.trunc(x, i64),
    "floats": lambda b, m, p, x, y, n, a, *rest: b.fptosi(b.fpext(b.fptrunc(a, f32), f64), i64),
    "blocks": in_blocks,
    "vectors": of_vectors,
    "memory": of_memory,
    "calls": of_calls,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_machine_code_is_that_of_llvmlites_builder(body):
    ours, theirs = (
        compile.listing(function(builder, body), target.host())
        for builder in (Builder, ir.IRBuilder)
    )
    assert ours == theirs


@pytest.mark.parametrize(
    "mistake",
    [
        lambda b, m, p, x, y, n, *rest: b.add(x, n),
        lambda b, m, p, x, y, n, *rest: b.icmp_signed("<", x, n),
        lambda b, m, p, x, y, n, *rest: b.select(i1(1), x, n),
        lambda b, m, p, x, y, n, a, c, four, floats: b.shuffle_vector(four, floats, four),
        lambda b, m, p, x, *rest: b.asm(ir.FunctionType(i64, [i32]), "", "=r,0", [x], False),
    ],
    ids=["sum", "comparison", "choice", "shuffle", "call"],
)
def test_operands_of_other_types_are_refused(mistake):
    with pytest.raises(TypeError, match="i32"):
        function(Builder, mistake)


def test_metadata_stands_behind_an_instruction():
    def body(b, module, p, x, *rest):
        b.store(x, p, align=64).set_metadata("nontemporal", module.add_metadata([i32(1)]))

    assert "align 64, !nontemporal !" in function(Builder, body)
