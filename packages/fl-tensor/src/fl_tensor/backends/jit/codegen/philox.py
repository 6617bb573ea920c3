"""Random words: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011), in the order of the contract's ``random_bits``, one block per lane."""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.jit.codegen.target import Target
from fl_tensor.backends.jit.codegen.vectors import IR, Vectors, i32, i64, pointer

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def define(module: IR, target: Target, lanes: int) -> IR:
    """``draw(out, seed, block, count)``: the words of blocks ``block, block + 1, ...``, at least
    ``count`` blocks, and at most ``lanes - 1`` more."""
    kind = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
    function = ir.Function(module, kind, "draw")
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    out, seed, first, count = function.args
    entry = function.append_basic_block("entry")
    b = ir.IRBuilder(entry)
    of = Vectors(b, target, lanes)
    keys = [of.splat(b.trunc(b.lshr(seed, i64(shift)), i32)) for shift in (0, 32)]
    body, done = b.append_basic_block("body"), b.append_basic_block("done")
    b.cbranch(b.icmp_signed("<", i64(0), count), body, done)
    b.position_at_end(body)
    index = b.phi(i64)
    index.add_incoming(i64(0), entry)
    block = b.add(of.splat(b.add(first, index)), of.iota(i64))
    words = _block(of, block, keys)
    address = b.gep(out, [b.mul(index, i64(4))], source_etype=i32)
    b.store(_interleaved(of, words), address, align=4)
    following = b.add(index, i64(lanes))
    index.add_incoming(following, body)
    b.cbranch(b.icmp_signed("<", following, count), body, done)
    b.position_at_end(done)
    b.ret_void()
    return function


def _block(of: Vectors, block: IR, keys: list[IR]) -> list[IR]:
    b = of.b
    c0, c1 = _halves(of, block)
    c2 = c3 = of.constant(i32, 0)
    k0, k1 = keys
    for _ in range(_ROUNDS):
        low0, high0 = _product(of, c0, _MULTIPLIERS[0])
        low1, high1 = _product(of, c2, _MULTIPLIERS[1])
        c0, c1 = b.xor(b.xor(high1, c1), k0), low1
        c2, c3 = b.xor(b.xor(high0, c3), k1), low0
        k0, k1 = b.add(k0, of.constant(i32, _WEYL[0])), b.add(k1, of.constant(i32, _WEYL[1]))
    return [c0, c1, c2, c3]


def _halves(of: Vectors, x: IR) -> tuple[IR, IR]:
    narrow = of.of(i32)
    high = of.b.lshr(x, of.constant(i64, 32))
    return of.b.trunc(x, narrow), of.b.trunc(high, narrow)


def _product(of: Vectors, x: IR, multiplier: int) -> tuple[IR, IR]:
    # The low and high halves of 64 bits.
    return _halves(of, of.b.mul(of.b.zext(x, of.of(i64)), of.constant(i64, multiplier)))


def _interleaved(of: Vectors, words: list[IR]) -> IR:
    # Word j of lane l goes to 4 l + j.
    lanes, both = of.lanes, (0, 1)
    pairs = [
        of.shuffle(x, y, [lane + lanes * second for lane in range(lanes) for second in both])
        for x, y in (words[:2], words[2:])
    ]
    order = [
        2 * lane + word + 2 * lanes * second
        for lane in range(lanes)
        for second in both
        for word in both
    ]
    return of.shuffle(pairs[0], pairs[1], order)
