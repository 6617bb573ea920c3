"""Generated functions that write accumulators of a wgrad to the result.

They add the accumulators of parts, and write them in the layout of the weights. They also add and
write those of biases. All are functions of the loop nest's own module.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import FIELDS
from fl_jit.kernels.llvm.conv_wgrad.tiles import Tiles
from fl_jit.kernels.llvm.conv_wgrad.vector_loops import ADD_UP
from fl_jit.kernels.llvm.loop_nest import LoopNestBuilder, computed
from fl_tensor.dtypes import DType


class _Part(Tiles):
    # A function of the same module, whose first argument are the kernel arguments.

    def __init__(
        self, module: IR, name: str, arguments: list[IR], machine: Target, given: DType
    ) -> None:
        signature = ir.FunctionType(ir.VoidType(), [pointer, *arguments])
        function = ir.Function(module, signature, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        super().__init__(function, machine, computed(given), given)
        self.args = FIELDS.fields(self.b, function.args[0])


class Put(OuterLoops, _Part):
    """put(arguments, group, panel, tile, accumulators): write a tile's accumulators in the layout
    of the weights."""

    def __init__(self, module: IR, machine: Target, dtype: DType) -> None:
        super().__init__(module, "put", [i64] * 4, machine, dtype)
        b, words = self.b, self.words
        _, group, panel, tile, self.accumulators = self.function.args
        self.row, self.rows, _ = self.rows_of(tile)
        self.columns = self.columns_of(panel)
        out = self.sum(
            words["out"],
            (group, words["out_group"]),
            (b.mul(panel, words["width"]), words["out_feature"]),
        )
        by_rows = b.icmp_signed("!=", words["by_rows"], i64(0))
        with b.if_else(by_rows) as (together, one_by_one):
            with together:
                self._put_runs(out)
            with one_by_one:
                self._put_rows(out)
        b.ret_void()

    def _put_runs(self, out: IR) -> None:
        # Runs of rows of accumulators are copied at once.
        b, words = self.b, self.words
        single = b.icmp_signed("==", words["runs"], i64(1))
        length = b.select(single, b.mul(self.rows, words["taps"]), self.rows)
        start = b.add(out, self.entry(self.address(words["row_in_out"]), self.row))
        in_out = self.address(words["tap_in_out"])
        with self.loop(i64(0), words["runs"]) as run:
            to = b.add(start, self.entry(in_out, run)), words["out_feature"], words["out_item"]
            source = b.add(self.accumulators, b.mul(run, words["tap_sums"]))
            distances = i64(self.itemsize), words["panel_pitch"]
            self.move("out_move", to, (source, *distances), self.columns, length)

    def _put_rows(self, out: IR) -> None:
        b, words = self.b, self.words
        tap_in_out, row_in_out = (self.address(words[n]) for n in ("tap_in_out", "row_in_out"))
        with self.loop(i64(0), words["taps"]) as tap, self.loop(i64(0), self.rows) as i:
            source = self.sum(self.accumulators, (tap, words["tap_sums"]), (i, words["row_sums"]))
            within = self.entry(row_in_out, b.add(self.row, i))
            sides = b.add(out, b.add(self.entry(tap_in_out, tap), within)), i64(0)
            item = i64(self.itemsize)
            to = *sides, words["out_feature"]
            self.move("out_move", to, (source, i64(0), item), i64(1), self.columns)


class Bias(_Part):
    """bias(arguments, group, panel): write the sum of all parts in the layout of the bias."""

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


class Second(Tiles, LoopNestBuilder):
    """second(arguments, first item, last item + 1, worker): add the parts of tiles, in order."""

    def __init__(self, module: IR, machine: Target, dtype: DType, put: IR, bias: IR) -> None:
        super().__init__(module, "second", FIELDS, machine, dtype)
        b, words = self.b, self.words
        with self.loop(self.begin, self.end) as item:
            rest, tile = b.sdiv(item, words["tiles"]), b.srem(item, words["tiles"])
            group, panel = b.sdiv(rest, words["panels"]), b.srem(rest, words["panels"])
            first, rows, _ = self.rows_of(tile)
            accumulators = b.add(self.shared, self.sums_of(group, i64(0), panel, first))
            nbytes = b.mul(self.columns_of(panel), i64(self.itemsize))
            with (
                self.loop(i64(0), words["taps"]) as tap,
                self.loop(i64(0), rows) as row,
            ):
                place = self.sum(accumulators, (tap, words["tap_sums"]), (row, words["row_sums"]))
                parts = words["part_sums"], words["parts"]
                self.call(words["add_up"], ADD_UP, self.address(place), *parts, nbytes)
            b.call(put, [self.arguments, group, panel, tile, accumulators])
            is_first = b.icmp_signed("==", tile, i64(0))
            with self.when(b.and_(is_first, b.icmp_signed("!=", words["has_bias"], i64(0)))):
                b.call(bias, [self.arguments, group, panel])
        b.ret_void()
