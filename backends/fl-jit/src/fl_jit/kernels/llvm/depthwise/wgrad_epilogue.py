"""Reduction of the partial wgrads of depthwise convolutions.

It adds the accumulators of all parts, in a fixed order, and writes them in the layout of the
weights. The loop nest is ``wgrad_loop_nest.py``.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv_wgrad.padded_input import InputTiles
from fl_jit.kernels.llvm.depthwise.wgrad_kernel_args import FIELDS
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import DType


class Second(InputTiles):
    """The function ``second``. An item is a vector of channels."""

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "second", FIELDS, machine, computed(given), given)
        b, words = self.b, self.words
        shared = b.add(words["workspace"], words["shared_at"])
        channels, features = words["channels"], words["features"]
        with self.loop(self.begin, self.end) as vector:
            first = b.mul(vector, words["held"])
            count = self.minimum(b.sub(words["groups"], first), words["held"])
            accumulators = b.add(shared, b.mul(vector, i64(self.wide)))
            out = b.add(words["out"], b.mul(first, words["out_group"]))
            with self.loop(i64(0), words["taps"]) as tap, self.loop(i64(0), features) as turn:
                self._add(
                    self.sum(accumulators, (tap, words["tap_sums"]), (turn, words["turn_sums"]))
                )
            with self.loop(i64(0), channels) as channel, self.loop(i64(0), features) as turn:
                feature = b.srem(b.add(channel, turn), features)
                self._put(
                    self.sum(
                        accumulators, (turn, words["turn_sums"]), (channel, i64(self.itemsize))
                    ),
                    self.sum(out, (feature, words["out_feature"]), (channel, words["out_channel"])),
                    count,
                )
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                place = self.sum(
                    *(shared, words["bias_sums"]), (b.mul(vector, words["results"]), i64(self.wide))
                )
                with self.loop(i64(0), words["results"]) as result:
                    self._add(b.add(place, b.mul(result, i64(self.wide))))
                to = self.sum(words["bias"], (b.mul(first, features), words["bias_channel"]))
                with self.loop(i64(0), b.mul(count, features)) as lane:
                    here = self.address(b.add(place, b.mul(lane, i64(self.itemsize))))
                    found = b.load(here, typ=self.element, align=self.itemsize)
                    there = self.sum(to, (lane, words["bias_channel"]))
                    self.write_one(found, self.address(there))
        b.ret_void()

    def _add(self, accumulators: IR) -> None:
        # Adds all parts of a vector in their order.
        b, kind = self.b, self.of.of(self.element)
        total = self.variable(kind)
        b.store(self.of.load(self.element, self.address(accumulators)), total)
        with self.loop(i64(1), self.words["parts"]) as part:
            there = self.address(b.add(accumulators, b.mul(part, self.words["part_sums"])))
            b.store(b.fadd(b.load(total, typ=kind), self.of.load(self.element, there)), total)
        self.of.store(b.load(total, typ=kind), self.address(accumulators))

    def _put(self, accumulators: IR, to: IR, groups: IR) -> None:
        # Writes the sums of a channel for a feature, of ``groups`` groups, at all places of the
        # kernel.
        b, words = self.b, self.words
        with (
            self.loop(i64(0), words["out_planes"]) as plane,
            self.loop(i64(0), words["out_rows"]) as row,
        ):
            before = b.mul(b.add(b.mul(plane, words["out_rows"]), row), words["out_columns"])
            source = self.sum(accumulators, (before, words["tap_sums"]))
            there = self.sum(to, (plane, words["out_plane"]), (row, words["out_row"]))
            self.move(
                "out_move",
                (there, words["out_group"], words["out_column"]),
                (source, b.mul(words["channels"], i64(self.itemsize)), words["tap_sums"]),
                groups,
                words["out_columns"],
            )
