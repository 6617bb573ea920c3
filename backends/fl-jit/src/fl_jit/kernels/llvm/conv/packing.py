"""Generated code that packs weights into panels (``panels.py``), and unpacks them."""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.conv.kernel_args import PASS, OfPass
from fl_jit.kernels.llvm.loop_nest import zero


class Pack(OfPass):
    """Packs some rows of one panel at one kernel position, or unpacks them."""

    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack_one")
        b = self.b
        part, place, panel, group = self.split(
            self.number, "pack_parts", "pack_places", "panels_count"
        )
        row, rows = self.part(part, "pack_rows", "channels")
        column, columns = self.part(panel, "panel_width", "features")
        partial = b.icmp_signed("<", columns, self.word("panel_width"))
        pitch = b.select(partial, self.word("tail_row"), self.word("panels_row"))
        start = self.moved(
            self.address("weights"),
            *((group, "weights_group"), (row, "weights_row"), (column, "weights_column")),
        )
        self.offsets = PASS.load_pointer(b, self.words, "place_offsets")
        self.panel, self.row, self.rows, self.columns = (
            self.panel_at(group, panel),
            row,
            rows,
            columns,
        )
        self.pitch, self.partial = pitch, partial
        with b.if_else(b.icmp_signed("==", self.word("woven"), i64(0))) as (plain, woven):
            with plain:
                self._at_place(place, self.shifted(start, self._offset(place)))
            with woven:
                self._woven(start)
        b.ret_void()

    def _offset(self, place: IR) -> IR:
        return self.b.load(self.b.gep(self.offsets, [place], source_etype=i64), typ=i64)

    def _to(self, place: IR) -> IR:
        """The address of the rows of the panel at a kernel position."""
        b = self.b
        k = b.add(b.mul(place, self.word("channels")), self.row)
        return self.shifted(self.panel, b.mul(k, self.pitch))

    def _fill(self, to: IR) -> None:
        with self.b.if_then(self.partial):
            zero(self.b, to, self.b.mul(self.rows, self.pitch))

    def _move(self, name: str, *arguments: IR) -> None:
        PASS.call(self.b, self.words, name, strided_copy.SIGNATURE, arguments)

    def _at_place(self, place: IR, weights: IR) -> None:
        b = self.b
        to = self._to(place)
        unpack = self.word("unpack")
        end = b.icmp_signed("==", b.add(self.row, self.rows), self.word("channels"))
        alone = b.and_(end, b.icmp_signed("!=", self.word("odd"), i64(0)))
        whole = b.sub(self.rows, b.zext(alone, i64))
        panel_side = to, self.pitch, self.word("itemsize")
        weights_side = weights, self.word("weights_row"), self.word("weights_column")
        swapped = b.icmp_signed("==", unpack, i64(2))
        with b.if_else(b.icmp_signed("==", unpack, i64(0))) as (packing, unpacking):
            with packing:
                self._fill(to)
                self._move("pack_move", *panel_side, *weights_side, whole, self.columns)
                with b.if_then(alone):
                    last = self._last(whole, panel_side, weights_side)
                    zero(b, last[0], self.pitch)
                    self._move("lone_move", *last, i64(1), self.columns)
            with unpacking, b.if_else(swapped) as (turned, straight):
                with turned:
                    (out, *out_steps), (source, *steps) = weights_side, panel_side
                    steps = [*out_steps[::-1], source, *steps[::-1]]
                    self._move("pack_move", out, *steps, self.columns, self.rows)
                with straight:
                    self._move("pack_move", *weights_side, *panel_side, whole, self.columns)
                    with b.if_then(alone):
                        last = self._last(whole, weights_side, panel_side)
                        self._move("lone_move", *last, i64(1), self.columns)

    def _last(self, row: IR, *sides: tuple[IR, IR, IR]) -> list[IR]:
        # Both sides of a pair of a channel and a zero, from this row on.
        found: list[IR] = []
        for start, pitch, column in sides:
            found += [self.shifted(start, self.b.mul(row, pitch)), pitch, column]
        return found

    def _woven(self, start: IR) -> None:
        """Pack all kernel positions at once, where these are contiguous. Their number is the stride
        of channels (``woven`` 1) or of features (``woven`` 2). Contiguous elements are copied into
        the worker's scratch memory, and from there to each position."""
        b, word = self.b, self.word
        of_channels = b.icmp_signed("==", word("woven"), i64(1))

        def either(one: IR, other: IR) -> IR:
            return b.select(of_channels, one, other)

        mine = self.scratch()
        step, pitch, itemsize = word("weights_step"), word("woven_row"), word("itemsize")
        near = either(self.rows, self.columns)
        far = either(self.columns, self.rows)
        apart = either(word("weights_column"), word("weights_row"))
        near = b.mul(near, word("places"))
        self._move("woven_move", mine, pitch, itemsize, start, step, apart, near, far)
        wide = b.mul(pitch, word("places"))
        steps = either(wide, itemsize), either(itemsize, wide)
        with self.loop(i64(0), word("places")) as place:
            to = self._to(place)
            self._fill(to)
            source = self.shifted(mine, self._offset(place))
            arguments = to, self.pitch, itemsize, source, *steps, self.rows, self.columns
            self._move("pack_move", *arguments)
