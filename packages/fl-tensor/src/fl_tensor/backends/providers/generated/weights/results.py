"""What becomes of sums in the loop nest of gradients of weights: tiles of them are written as the
weights lie, and those of biases are made and written. Functions of the nest's own module."""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated.nest import Emitter, computed
from fl_tensor.backends.providers.generated.weights.words import WORDS
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i32, i64, pointer
from fl_tensor.dtypes import DType


class _Part(Emitter):
    # A function of the module's own, whose first argument is the words.

    def __init__(
        self, module: IR, name: str, arguments: list[IR], machine: Target, given: DType
    ) -> None:
        signature = ir.FunctionType(ir.VoidType(), [pointer, *arguments])
        function = ir.Function(module, signature, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        super().__init__(function, machine, computed(given), given)
        self.words = self.named(function.args[0], WORDS)
        self.shared = self.b.add(self.words["workspace"], self.words["shared_at"])


class ColumnSums(Emitter):
    """column_sums(to, from, pitch, count, lanes, add): a vector, the sum of ``count``, or of both
    numbers of so many ``pairs``."""

    def __init__(self, module: IR, machine: Target, dtype: DType, pairs: bool = False) -> None:
        signature = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64, i64, i64])
        function = ir.Function(module, signature, "column_sums")
        function.linkage = "internal"
        super().__init__(function, machine, dtype)
        to, source, pitch, count, lanes, add = function.args
        b, most, mask = self.b, 4, self.of.first(lanes)
        zero = self.of.constant(self.element, 0)
        sums = [self.variable(zero.type) for _ in range(most)]
        for total in sums:
            b.store(zero, total)
        whole = b.and_(count, i64(-most))
        for low, high, step in ((i64(0), whole, most), (whole, count, 1)):
            with self.loop(low, high, step) as i:
                for k in range(step):
                    place = self.at(source, b.mul(b.add(i, i64(k)), pitch))
                    found = self._pair(place, mask) if pairs else self.read(place, mask)
                    b.store(b.fadd(b.load(sums[k], typ=zero.type), found), sums[k])
        first, second, third, fourth = (b.load(total, typ=zero.type) for total in sums)
        total = b.fadd(b.fadd(first, second), b.fadd(third, fourth))
        old = b.select(b.icmp_signed("!=", add, i64(0)), self.of.load(self.element, to), zero)
        self.of.store(b.fadd(old, total), to)
        b.ret_void()

    def _pair(self, place: IR, mask: IR) -> IR:
        b, of = self.b, self.of
        found = of.load(i32, place, mask)
        halves = b.shl(found, of.constant(i32, 16)), b.and_(found, of.constant(i32, -1 << 16))
        return b.fadd(*(b.bitcast(half, of.of(self.element)) for half in halves))


class Bias(_Part):
    """bias(words, group, panel): the sums of all parts, as the bias lies."""

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "bias", [i64, i64], machine, given)
        b, words = self.b, self.words
        _, group, panel = self.function.args
        width = words["width"]
        first = b.mul(panel, width)
        columns = self.minimum(b.sub(words["features"], first), width)
        begin = self.sum(self.shared, words["bias_sums_at"], (group, words["bias_group_sums"]))
        total = self.variable(self.element)
        with self.loop(first, b.add(first, columns)) as feature:
            b.store(ir.Constant(self.element, 0), total)
            with self.loop(i64(0), words["parts"]) as part:
                place = self.sum(
                    begin, (part, words["bias_part_sums"]), (feature, i64(self.itemsize))
                )
                found = b.load(self.address(place), typ=self.element, align=self.itemsize)
                b.store(b.fadd(b.load(total, typ=self.element), found), total)
            place = self.sum(
                words["bias"], (group, words["bias_group"]), (feature, words["bias_feature"])
            )
            self.write_one(b.load(total, typ=self.element), self.address(place))
        b.ret_void()
