"""Random words by Philox 4x32-10, one block per lane, in the order of the contract's
``random_bits``.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

The four counters of a block are in lanes of 64 bits. Only products use the upper halves. x86
multiplies 32 bits by 32 bits in such lanes without shuffles.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, i32, i64, pointer

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_MASK = 0xFFFFFFFF


def define(module: IR, target: Target, lanes: int) -> IR:
    """``draw(out, seed, block, count)``: the words of blocks ``block, block + 1, ...``.

    It writes at least ``count`` blocks, and at most ``lanes - 1`` more.
    """
    kind = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
    function = ir.Function(module, kind, "draw")
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    out, seed, first, count = function.args
    entry = function.append_basic_block("entry")
    b = Builder(entry)
    of = Vectors(b, target, lanes)
    keys = _keys(of, seed)
    body, done = b.append_basic_block("body"), b.append_basic_block("done")
    b.cbranch(b.icmp_signed("<", i64(0), count), body, done)
    b.position_at_end(body)
    index = b.phi(i64)
    index.add_incoming(i64(0), entry)
    block = b.add(of.splat(b.add(first, index)), of.iota(i64))
    random_words = _block(of, block, keys)
    address = b.gep(out, [b.mul(index, i64(4))], source_etype=i32)
    b.store(random_words, address, align=4)
    next_index = b.add(index, i64(lanes))
    index.add_incoming(next_index, body)
    b.cbranch(b.icmp_signed("<", next_index, count), body, done)
    b.position_at_end(done)
    b.ret_void()
    return function


def _keys(of: Vectors, seed: IR) -> list[tuple[IR, IR]]:
    # The keys of every round.
    b, mask = of.b, i64(_MASK)
    halves = b.and_(seed, mask), b.lshr(seed, i64(32))
    return [
        (
            of.splat(b.and_(b.add(halves[0], i64(_WEYL[0] * i)), mask)),
            of.splat(b.and_(b.add(halves[1], i64(_WEYL[1] * i)), mask)),
        )
        for i in range(_ROUNDS)
    ]


def _block(of: Vectors, block: IR, keys: list[tuple[IR, IR]]) -> IR:
    # The words in memory order, two per 64-bit integer.
    b = of.b
    mask, half = of.constant(i64, _MASK), of.constant(i64, 32)
    c0, c1 = block, b.lshr(block, half)
    c2 = c3 = of.constant(i64, 0)
    for k0, k1 in keys:
        product0 = b.mul(b.and_(c0, mask), of.constant(i64, _MULTIPLIERS[0]))
        product1 = b.mul(b.and_(c2, mask), of.constant(i64, _MULTIPLIERS[1]))
        c0, c1 = b.xor(b.xor(b.lshr(product1, half), c1), k0), product1
        c2, c3 = b.xor(b.xor(b.lshr(product0, half), c3), k1), product0
    first = b.or_(b.and_(c0, mask), b.shl(c1, half))
    second = b.or_(b.and_(c2, mask), b.shl(c3, half))
    lanes = of.lanes
    return of.shuffle(first, second, [lane + lanes * i for lane in range(lanes) for i in (0, 1)])
