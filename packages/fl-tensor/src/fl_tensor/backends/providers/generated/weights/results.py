"""What becomes of sums in the loop nest of gradients of weights: tiles of them are written as the
weights lie, and those of biases are made and written. Functions of the nest's own module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
        self.words = {name: self.entry(function.args[0], i64(i)) for i, name in enumerate(WORDS)}
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


class Store(_Part):
    """store(words, out, sums, columns, row, rows): a tile's sums, as the weights lie. ``out`` is
    where the panel's first feature is."""

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "store", [pointer, pointer, i64, i64, i64], machine, given)
        _, self.out, self.sums, self.columns, self.row, self.rows = self.function.args
        order = self.words["order"]
        writers = (self._features, self._by_rows, self._numbers)
        for number, write in enumerate(writers):
            with self.when(self.b.icmp_signed("==", order, i64(number))):
                write()
        self.b.ret_void()

    def _features(self) -> None:
        b, lanes = self.b, self.of.lanes
        with self._rows() as (sums, out):
            with self.loop(i64(0), self.columns, lanes) as column:
                left = b.sub(self.columns, column)
                found = self.of.load(self.element, self.at(sums, b.mul(column, i64(self.itemsize))))
                place = self.at(out, b.mul(column, i64(self.given.itemsize)))
                self.write(found, place, self.of.first(left))

    def _numbers(self) -> None:
        b = self.b
        with self._rows() as (sums, out):
            with self.loop(i64(0), self.columns) as column:
                place = self.at(sums, b.mul(column, i64(self.itemsize)))
                found = b.load(place, typ=self.element, align=self.itemsize)
                to = self.at(out, b.mul(column, self.words["out_feature"]))
                self.write_one(found, to)

    @contextmanager
    def _rows(self) -> Iterator[tuple[IR, IR]]:
        # Where each row of sums is, and where it goes.
        b, words = self.b, self.words
        tap_in_out, row_in_out = (self.address(words[n]) for n in ("tap_in_out", "row_in_out"))
        with (
            self.loop(i64(0), words["taps"]) as tap,
            self.loop(i64(0), self.rows) as row,
        ):
            sums = self.at(self.sums, self.sum((tap, words["tap_sums"]), (row, words["row_sums"])))
            within = b.add(
                self.entry(tap_in_out, tap), self.entry(row_in_out, b.add(self.row, row))
            )
            yield sums, self.at(self.out, within)

    def _by_rows(self) -> None:
        # Runs of rows of sums go side by side: squares are transposed.
        b, words, lanes = self.b, self.words, self.of.lanes
        pitch = words["panel_pitch"]
        single = b.icmp_signed("==", words["runs"], i64(1))
        length = b.select(single, b.mul(self.rows, words["taps"]), self.rows)
        start = self.entry(self.address(words["row_in_out"]), self.row)
        with self.loop(i64(0), words["runs"]) as run:
            sums = self.at(self.sums, b.mul(run, words["tap_sums"]))
            in_out = self.entry(self.address(words["tap_in_out"]), run)
            out = self.at(self.out, b.add(start, in_out))
            with self.loop(i64(0), length, lanes) as row:
                left = b.sub(length, row)
                rows = [
                    self.minimum(b.add(row, i64(k)), b.sub(length, i64(1))) for k in range(lanes)
                ]
                with self.loop(i64(0), self.columns, lanes) as first:
                    begin = self.at(sums, b.mul(first, i64(self.itemsize)))
                    square = [
                        self.of.load(self.element, self.at(begin, b.mul(r, pitch))) for r in rows
                    ]
                    for k, vector in enumerate(self.of.transposed(square)):
                        column = b.add(first, i64(k))
                        with self.when(b.icmp_signed("<", column, self.columns)):
                            place = self.sum(
                                (column, words["out_feature"]), (row, i64(self.given.itemsize))
                            )
                            self.write(vector, self.at(out, place), self.of.first(left))


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
