"""Generated code that packs weights into panels (``panels.py``), and unpacks them."""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv.kernel_args import PassFunction
from fl_jit.kernels.llvm.loop_nest import zero


class Pack(PassFunction):
    """Packs some rows of one panel at one kernel position, or unpacks them."""

    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack_one")
        b = self.b
        part, place, panel, group = self.split(
            self.number, "pack_parts", "pack_positions", "panels_count"
        )
        row, rows = self.part(part, "pack_rows", "channels")
        column, columns = self.part(panel, "panel_width", "features")
        partial = b.icmp_signed("<", columns, self.args["panel_width"])
        pitch = b.select(partial, self.args["tail_row"], self.args["panels_row"])
        start = self.moved(
            self.job["weights"],
            *((group, "weights_group"), (row, "weights_row"), (column, "weights_column")),
        )
        self.offsets = self.address(self.args["kernel_offsets"])
        self.panel, self.pitch, self.partial = self.panel_at(group, panel), pitch, partial
        self.row, self.rows, self.columns = row, rows, columns
        with b.if_else(self.is_set("interleaved")) as (interleaved, plain):
            with interleaved:
                self._interleaved(start)
            with plain:
                self._at_place(place, b.add(start, self.entry(self.offsets, place)))
        b.ret_void()

    def _to(self, place: IR) -> IR:
        """The address of the rows of the panel at a kernel position."""
        b = self.b
        k = b.add(b.mul(place, self.args["channels"]), self.row)
        return self.b.add(self.panel, b.mul(k, self.pitch))

    def _fill(self, to: IR) -> None:
        with self.b.if_then(self.partial):
            zero(self.b, self.address(to), self.b.mul(self.rows, self.pitch))

    def _at_place(self, place: IR, weights: IR) -> None:
        b, args = self.b, self.args
        to, packs = self._to(place), b.not_(self.is_set("unpack"))
        with b.if_then(packs):
            self._fill(to)
        panel = to, self.pitch, args["itemsize"]
        sides = [*zip(panel, (weights, args["weights_row"], args["weights_column"]), strict=True)]
        out = [b.select(packs, *side) for side in sides]
        source = [b.select(packs, *side[::-1]) for side in sides]
        end = b.icmp_signed("==", b.add(self.row, self.rows), args["channels"])
        alone = b.and_(end, self.is_set("odd"))
        whole = b.sub(self.rows, b.zext(alone, i64))
        swapped = b.icmp_signed("==", args["unpack"], i64(2))

        def ordered(rows: IR, columns: IR) -> tuple[IR, IR]:
            return b.select(swapped, columns, rows), b.select(swapped, rows, columns)

        to_side, from_side = ([start, *ordered(*steps)] for start, *steps in (out, source))
        self.move("pack_move", to_side, from_side, *ordered(whole, self.columns))
        with b.if_then(alone):  # the last row: pairs of a channel and a zero
            out, source = ([self.sum(s[0], (whole, s[1])), *s[1:]] for s in (out, source))
            zero(b, self.address(out[0]), b.select(packs, self.pitch, i64(0)))
            self.move("lone_move", out, source, i64(1), self.columns)

    def _interleaved(self, start: IR) -> None:
        """Pack all kernel positions at once, where these are contiguous. Their number is the stride
        of channels (``interleaved`` 1) or of features (2). Contiguous elements are copied into the
        worker's scratch memory, and from there to each position."""
        b, args = self.b, self.args
        of_channels = b.icmp_signed("==", args["interleaved"], i64(1))

        def either(one: IR, other: IR) -> IR:
            return b.select(of_channels, one, other)

        mine = self.scratch()
        step, pitch, itemsize = args["weights_step"], args["interleaved_row"], args["itemsize"]
        near = either(self.rows, self.columns)
        far = either(self.columns, self.rows)
        apart = either(args["weights_column"], args["weights_row"])
        near = b.mul(near, args["kernel_size"])
        self.move("interleaved_move", (mine, pitch, itemsize), (start, step, apart), near, far)
        wide = b.mul(pitch, args["kernel_size"])
        steps = either(wide, itemsize), either(itemsize, wide)
        with self.loop(i64(0), args["kernel_size"]) as place:
            to = self._to(place)
            self._fill(to)
            source = self.b.add(mine, self.entry(self.offsets, place))
            sides = (to, self.pitch, itemsize), (source, *steps)
            self.move("pack_move", *sides, self.rows, self.columns)
