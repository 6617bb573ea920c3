"""Generated functions that write accumulators of a wgrad to the result.

They add the accumulators of parts, and write them in the layout of the weights. They also add and
write those of biases. All are functions of the loop nest's own module.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import FIELDS, WgradFunction
from fl_jit.kernels.llvm.conv_wgrad.vector_loops import ADD_UP
from fl_jit.kernels.llvm.loop_nest import LoopNestBuilder, computed
from fl_tensor.dtypes import DType


class _Part(WgradFunction):
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
        b, args = self.b, self.args
        _, group, panel, tile, accumulators = self.function.args
        self.row, self.rows, _ = self.rows_of(tile)
        self.columns = self.columns_of(panel)
        out = self.sum(args["out"], (group, args["out_group"]), (panel, args["out_panel"]))
        by_rows = self.is_set("by_rows")
        with self.loop(i64(0), args["group_channels"]) as channel:
            source = self.sum(accumulators, (channel, i64(self.itemsize)))
            with b.if_else(by_rows) as (together, one_by_one):
                with together:
                    self._put_runs(out, source, channel)
                with one_by_one:
                    self._put_rows(out, source, channel)
        b.ret_void()

    def _put_runs(self, out: IR, accumulators: IR, channel: IR) -> None:
        # Runs of rows of accumulators are copied at once.
        b, args = self.b, self.args
        single = b.icmp_signed("==", args["runs"], i64(1))
        length = b.select(single, b.mul(self.rows, args["positions"]), self.rows)
        start = b.add(out, self._row_in_out(self.row, channel))
        in_out = self.address(args["position_in_out"])
        with self.loop(i64(0), args["runs"]) as run:
            to = b.add(start, self.entry(in_out, run)), args["out_column"], args["out_item"]
            source = self.sum(accumulators, (run, args["acc_position"]))
            distances = args["acc_column"], args["acc_run"]
            self.move("out_move", to, (source, *distances), self.columns, length)

    def _put_rows(self, out: IR, accumulators: IR, channel: IR) -> None:
        b, args = self.b, self.args
        in_out = self.address(args["position_in_out"])
        with self.loop(i64(0), args["positions"]) as position, self.loop(i64(0), self.rows) as i:
            source = self.sum(accumulators, (position, args["acc_position"]), (i, args["acc_row"]))
            to = self.sum(
                out, self.entry(in_out, position), self._row_in_out(b.add(self.row, i), channel)
            )
            sides = (to, i64(0), args["out_column"]), (source, i64(0), args["acc_column"])
            self.move("out_move", *sides, i64(1), self.columns)

    def _row_in_out(self, row: IR, channel: IR) -> IR:
        index = self.sum((row, self.args["group_channels"]), channel)
        return self.entry(self.address(self.args["row_in_out"]), index)


class Bias(_Part):
    """bias(arguments, group, panel): write the sum of all parts in the layout of the bias."""

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "bias", [i64, i64], machine, given)
        b, args = self.b, self.args
        _, group, panel = self.function.args
        begin = self.sum(
            *(self.shared, args["bias_acc_at"]),
            *((group, args["bias_acc_group"]), (panel, args["bias_acc_panel"])),
        )
        out = self.sum(args["bias"], (group, args["bias_group"]), (panel, args["bias_panel"]))
        total = self.variable(self.element)
        with self.loop(i64(0), self.features_of(self.columns_of(panel))) as feature:
            b.store(ir.Constant(self.element, 0), total)
            with self.loop(i64(0), args["parts"]) as part:
                place = self.sum(
                    begin, (part, args["bias_acc_part"]), (feature, i64(self.itemsize))
                )
                found = b.load(self.address(place), typ=self.element, align=self.itemsize)
                b.store(b.fadd(b.load(total, typ=self.element), found), total)
            place = self.sum(out, (feature, args["bias_feature"]))
            self.write_one(b.load(total, typ=self.element), self.address(place))
        b.ret_void()


class Second(WgradFunction, LoopNestBuilder):
    """second(arguments, first item, last item + 1, worker): add the parts of tiles, in order."""

    def __init__(self, module: IR, machine: Target, dtype: DType, put: IR, bias: IR) -> None:
        super().__init__(module, "second", FIELDS, machine, dtype)
        b, args = self.b, self.args
        with self.loop(self.begin, self.end) as item:
            rest, tile = b.sdiv(item, args["tiles"]), b.srem(item, args["tiles"])
            group, panel = b.sdiv(rest, args["panels"]), b.srem(rest, args["panels"])
            first, rows, _ = self.rows_of(tile)
            accumulators = b.add(self.shared, self.accumulators_of(group, i64(0), panel, first))
            with (
                self.loop(i64(0), args["positions"]) as position,
                self.loop(i64(0), rows) as row,
            ):
                place = self.sum(
                    accumulators, (position, args["acc_position"]), (row, args["acc_row"])
                )
                rest = args["acc_part"], args["parts"], args["acc_row_bytes"]
                self.call(args["add_up"], ADD_UP, self.address(place), *rest)
            b.call(put, [self.arguments, group, panel, tile, accumulators])
            is_first = b.icmp_signed("==", tile, i64(0))
            with self.when(b.and_(is_first, self.is_set("has_bias"))):
                b.call(bias, [self.arguments, group, panel])
        b.ret_void()
