"""The loop nest of the gradient of a convolution's weights, as machine code.

    for part of the pixels                                threads share these,
     for panel, for tile: some of each                    and these
      for strip of pixels                                 some hundred, of neighbouring rows
        copy the strip of x, a tile's channels side by side, with zeros around the image
        for panel                                         32 features
          copy the strip of the gradient, 32 features side by side
          for tile                                        14 channels
            for tap                                       place of the kernel
              micro-kernel: sums[tap, channels, features] +=
                            x[pixels + tap, channels] * gradient[pixels, features]
            after the last strip: write the sums as the weights lie

Pixels are what is summed over: the k of the micro-kernel, whose taps are the rows of pixels of the
strip. x is read where the tap lies, which costs nothing: places of a strip are at equal distances.
Where there are few channels, those of all neighbouring taps of a row lie side by side in an image
with channels last, and count as channels.

Parts are as many as the problem asks for, not as there are threads, and are added in their order.

In pairs of bfloat16 the k of the micro-kernel are pairs of neighbouring pixels. Those of the
gradient are brought together while it is copied, a last one that is alone with zero. In the strip
of x there is a pair for every pixel, of that and of the one that the next place of the gradient
sees, because a tap may begin at an odd pixel: the micro-kernel reads every second one.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated.weights.results import Bias, ColumnSums
from fl_tensor.backends.providers.generated.weights.strips import PairUp, Strips
from fl_tensor.backends.providers.generated.weights.words import WORDS
from fl_tensor.backends.providers.generated.words import zero
from fl_tensor.codegen import target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64
from fl_tensor.dtypes import DType


def assembly(dtype: DType, result: DType, machine: Target, pairs: bool = False) -> str:
    """The module of ``first`` and ``second``, for sums of ``dtype``, weights of ``result``."""
    module = ir.Module("weights")
    module.triple = target.triple()
    bias = Bias(module, machine, result).function
    add_up = ColumnSums(module, machine, dtype, pairs).function
    pair_up = PairUp(module, machine).function if pairs else None
    _First(module, machine, dtype, pair_up, bias, add_up)
    _Second(module, machine, dtype, bias)
    return str(module)


class _Tiles(Strips):
    # What both functions have in common: where tiles and panels are.

    def __init__(self, module: IR, name: str, machine: Target, dtype: DType) -> None:
        super().__init__(module, name, WORDS, machine, dtype)
        self.shared = self.b.add(self.words["workspace"], self.words["shared_at"])
        self.width = self.words["width"]

    def rows_of(self, tile: IR) -> tuple[IR, IR, IR]:
        """The first row of a tile, how many it has, and whether it is a longer one."""
        b, words = self.b, self.words
        longer = b.icmp_signed("<", tile, words["longer"])
        before = self.minimum(tile, words["longer"])
        first = b.add(b.mul(tile, words["tile_size"]), before)
        return first, b.add(words["tile_size"], b.zext(longer, i64)), longer

    def columns_of(self, panel: IR) -> IR:
        """How many features a panel has."""
        b = self.b
        return self.minimum(b.sub(self.words["features"], b.mul(panel, self.width)), self.width)

    def sums_of(self, group: IR, part: IR, panel: IR, row: IR) -> IR:
        """Where a tile's sums are, as a number."""
        words = self.words
        return self.sum(
            (group, words["group_sums"]),
            (part, words["part_sums"]),
            (panel, words["panel_sums"]),
            (row, words["tile_sums"]),
        )

    def put(self, group: IR, panel: IR, sums: IR, columns: IR, row: IR, rows: IR) -> None:
        """Write a tile's sums as the weights lie."""
        b, words = self.b, self.words
        out = self.sum(
            words["out"],
            (group, words["out_group"]),
            (b.mul(panel, self.width), words["out_feature"]),
        )
        by_rows = b.icmp_signed("!=", words["by_rows"], i64(0))
        with b.if_else(by_rows) as (together, one_by_one):
            with together:
                self._put_runs(out, sums, columns, row, rows)
            with one_by_one:
                self._put_rows(out, sums, columns, row, rows)

    def _put_runs(self, out: IR, sums: IR, columns: IR, row: IR, rows: IR) -> None:
        # Runs of rows of sums go side by side.
        b, words = self.b, self.words
        single = b.icmp_signed("==", words["runs"], i64(1))
        length = b.select(single, b.mul(rows, words["taps"]), rows)
        start = b.add(out, self.entry(self.address(words["row_in_out"]), row))
        in_out = self.address(words["tap_in_out"])
        with self.loop(i64(0), words["runs"]) as run:
            to = b.add(start, self.entry(in_out, run)), words["out_feature"], words["out_item"]
            source = b.add(sums, b.mul(run, words["tap_sums"]))
            self.move(
                "out_move", to, (source, i64(self.itemsize), words["panel_pitch"]), columns, length
            )

    def _put_rows(self, out: IR, sums: IR, columns: IR, row: IR, rows: IR) -> None:
        b, words = self.b, self.words
        tap_in_out, row_in_out = (self.address(words[n]) for n in ("tap_in_out", "row_in_out"))
        with self.loop(i64(0), words["taps"]) as tap, self.loop(i64(0), rows) as i:
            source = self.sum(sums, (tap, words["tap_sums"]), (i, words["row_sums"]))
            within = b.add(self.entry(tap_in_out, tap), self.entry(row_in_out, b.add(row, i)))
            sides = (b.add(out, within), i64(0), words["out_feature"])
            self.move("out_move", sides, (source, i64(0), i64(self.itemsize)), i64(1), columns)


class _First(_Tiles):
    # An item is a part of the pixels, for some of the panels and some of the tiles of a group.

    def __init__(
        self,
        module: IR,
        machine: Target,
        dtype: DType,
        pair_up: IR | None,
        bias: IR,
        add_up: IR,
    ) -> None:
        super().__init__(module, "first", machine, dtype)
        self.bias, self.add_up = bias, add_up
        #: Where pixels are multiplied in pairs.
        self.pair_up = pair_up
        b, words = self.b, self.words
        mine = b.mul(self.worker, words["worker_bytes"])
        self.strip = b.add(words["workspace"], mine)
        self.packed = b.add(self.strip, words["gradient_at"])
        local = b.icmp_signed("!=", words["local"], i64(0))
        own = b.add(self.strip, words["sums_at"])
        self.all_sums = b.select(local, own, self.shared)
        with self.loop(self.begin, self.end) as item:
            rest, tile_split = self.split(item, words["tile_splits"])
            rest, panel_split = self.split(rest, words["panel_splits"])
            self.group, self.part = self.split(rest, words["parts"])
            self.tiles = self.share(tile_split, words["tile_splits"], words["tiles"])
            self.panels = self.share(panel_split, words["panel_splits"], words["panels"])
            counts_bias = b.icmp_signed("==", tile_split, i64(0))
            has_bias = b.icmp_signed("!=", words["has_bias"], i64(0))
            self.counts_bias = b.and_(counts_bias, has_bias)
            strips = self.share(self.part, words["parts"], words["strips"])
            with self.loop(*strips) as strip:
                self.adds = b.zext(b.icmp_signed(">", strip, strips[0]), i64)
                last = b.icmp_signed("==", b.add(strip, i64(1)), strips[1])
                alone = b.icmp_signed("==", words["parts"], i64(1))
                self.is_last = b.and_(last, alone)
                self._strip(strip)
        b.ret_void()

    def _strip(self, strip: IR) -> None:
        b, words = self.b, self.words
        self.locate(strip)
        extents = self.extents
        x_direct = b.icmp_signed("!=", words["x_direct"], i64(0))
        direct = b.icmp_signed("!=", words["gradient_direct"], i64(0))
        with self.when(b.not_(x_direct)):
            image = b.add(words["x"], b.mul(self.group, words["x_group"]))
            self.copy_x(image, self.strip, self._copy_row)
        self.x_now = b.select(x_direct, self._x_at(self.starts), self.strip)
        rows = b.mul(b.mul(extents[0], extents[1]), extents[2])
        whole = b.icmp_signed("==", b.mul(rows, extents[3]), words["strip_pixels"])
        #: Steps of a micro-kernel along a line.
        self.steps = extents[3]
        if self.pair_up:
            self.steps = b.ashr(b.add(extents[3], i64(1)), i64(1))
        self.strip_rows = b.select(whole, words["strip_rows"], words["last_strip_rows"])
        self.planes = b.mul(extents[0], extents[1])
        with self.loop(*self.panels) as panel:
            columns = self.columns_of(panel)
            vectors = b.sdiv(b.add(columns, i64(self.of.lanes - 1)), i64(self.of.lanes))
            pitch = b.mul(vectors, i64(self.wide))
            there = self._gradient_at(panel)
            with self.when(b.not_(direct)):
                self._copy_gradient(there, columns, pitch)
            pitch = b.select(direct, words["gradient 3"], pitch)
            self.gradient_now = b.select(direct, there, self.packed)
            with self.when(self.counts_bias):
                self._sum_bias(panel, columns, vectors, pitch, b.mul(rows, self.steps))
            with self.loop(*self.tiles) as tile:
                self._tile(panel, tile, columns, pitch)

    def _x_at(self, starts: list[IR]) -> IR:
        b, words = self.b, self.words
        strided = [b.mul(start, words[f"stride {axis}"]) for axis, start in enumerate(starts)]
        return self.sum(
            words["x"],
            (self.group, words["x_group"]),
            *((start, words[f"x {axis}"]) for axis, start in enumerate(strided)),
        )

    def _gradient_at(self, panel: IR) -> IR:
        words = self.words
        return self.sum(
            words["gradient"],
            (self.group, words["gradient_group"]),
            (self.b.mul(panel, self.width), words["gradient_feature"]),
            *((start, words[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )

    def _copy_row(self, to: IR, source: IR, low: IR, high: IR, end: IR) -> None:
        b, words = self.b, self.words
        joined = b.icmp_signed("!=", words["joined"], i64(0))
        # Joined, all channels are copied at once.
        tiles = [b.select(joined, i64(bound), of) for bound, of in enumerate(self.tiles)]
        with self.loop(*tiles) as tile:
            first, rows, _ = self.rows_of(tile)
            count = b.select(joined, words["channels"], rows)
            here = b.add(to, b.mul(tile, words["tile_pitch"]))
            there = b.add(source, b.mul(first, words["x_channel"]))
            self.copy_channels(here, there, count, low, high, end)
            if self.pair_up:
                # Each pixel with the one that the next place of the gradient sees.
                nbytes, distance = (b.mul(words["strip 3"], n) for n in (end, words["stride 3"]))
                b.call(self.pair_up, [self.address(here), nbytes, distance])

    def _copy_gradient(self, source: IR, columns: IR, pitch: IR) -> None:
        # Rows in the order of ``strip_rows``: rows of a place in all images lie side by side.
        b, words = self.b, self.words
        row_bytes = b.mul(self.steps, pitch)
        to = self.packed
        partial = b.icmp_signed("<", b.mul(columns, i64(self.itemsize)), pitch)
        with (
            self.loop(i64(0), self.extents[0]) as n,
            self.loop(i64(0), self.extents[1]) as depth,
            self.loop(i64(0), self.extents[2]) as row,
        ):
            before = b.add(b.mul(row, self.extents[0]), n)
            before = b.add(b.mul(before, self.extents[1]), depth)
            here = b.add(to, b.mul(before, row_bytes))
            there = self.sum(
                source, *((i, words[f"gradient {a}"]) for a, i in enumerate((n, depth, row)))
            )
            with self.when(partial):
                zero(b, self.address(here), row_bytes)
            self._copy_pixels((here, pitch), (there, words["gradient 3"]), columns)

    def _copy_pixels(self, to: tuple[IR, IR], source: tuple[IR, IR], columns: IR) -> None:
        # A row of the gradient: where it is, from pixel to pixel.
        b, pixels, between = self.b, self.extents[3], self.words["gradient_feature"]
        (here, pitch), (there, pixel), item = to, source, i64(self.itemsize)
        if not self.pair_up:
            self.move("gradient_move", (*to, item), (*source, between), pixels, columns)
            return
        pairs, twice = b.ashr(pixels, i64(1)), b.shl(pixel, i64(1))
        self.move("pairs_move", (*to, item), (there, twice, between), pairs, columns)
        last = b.add(here, b.mul(pairs, pitch)), pitch, item
        alone = b.add(there, b.mul(pairs, twice)), pixel, between
        self.move("gradient_move", last, alone, b.and_(pixels, i64(1)), columns)

    def _sum_bias(self, panel: IR, columns: IR, vectors: IR, pitch: IR, steps: IR) -> None:
        b, words = self.b, self.words
        to = self.sum(
            *(self.shared, words["bias_sums_at"]),
            (self.group, words["bias_group_sums"]),
            (self.part, words["bias_part_sums"]),
            (panel, words["panel_pitch"]),
        )
        with self.loop(i64(0), vectors) as j:
            within = b.mul(j, i64(self.wide))
            self.b.call(
                self.add_up,
                [
                    self.address(b.add(to, within)),
                    self.address(b.add(self.gradient_now, within)),
                    *(pitch, steps, b.sub(columns, b.mul(j, i64(self.of.lanes))), self.adds),
                ],
            )
        with self.when(self.is_last):
            self.b.call(self.bias, [self.arguments, self.group, panel])

    def _tile(self, panel: IR, tile: IR, columns: IR, pitch: IR) -> None:
        b, words = self.b, self.words
        first, count, longer = self.rows_of(tile)
        whole = b.icmp_signed("==", columns, self.width)
        kernels = [
            b.select(longer, words[f"long{kind}_kernel"], words[f"short{kind}_kernel"])
            for kind in ("", "_tail")
        ]
        kernel = b.select(whole, *kernels)
        x = self.sum(self.x_now, (tile, words["tile_pitch"]), (first, words["row_pitch"]))
        sums = b.add(self.all_sums, self.sums_of(self.group, self.part, panel, first))
        in_strip, first_row, end_row = (
            self.address(words[name]) for name in ("tap_in_strip", "first_row", "end_row")
        )
        x_pitch = b.mul(words["strip 3"], words["stride 3"])
        x_pitch = b.shl(x_pitch, i64(1)) if self.pair_up else x_pitch
        row_bytes = b.mul(self.steps, pitch)
        with self.loop(i64(0), words["taps"]) as tap:
            # Rows that see nothing but padding are left out.
            low, high = (
                self.maximum(b.sub(self.entry(table, tap), self.starts[2]), i64(0))
                for table in (first_row, end_row)
            )
            high = self.minimum(high, self.extents[2])
            low = b.mul(self.minimum(low, high), self.planes)
            rows = b.sub(b.mul(high, self.planes), low)
            self.micro(
                kernel,
                *(rows, self.address(b.add(self.strip_rows, b.mul(low, i64(8)))), self.steps),
                *(self.address(b.add(x, self.entry(in_strip, tap))), x_pitch),
                *(self.address(b.add(self.gradient_now, b.mul(low, row_bytes))), pitch),
                *(self.address(b.add(sums, b.mul(tap, words["tap_sums"]))), words["row_sums"]),
                *(self.adds, columns),
            )
        with self.when(self.is_last):
            self.put(self.group, panel, sums, columns, first, count)


class _Second(_Tiles):
    # Adds the parts of a tile, in their order.

    def __init__(self, module: IR, machine: Target, dtype: DType, bias: IR) -> None:
        super().__init__(module, "second", machine, dtype)
        b, words = self.b, self.words
        with self.loop(self.begin, self.end) as item:
            rest, tile = b.sdiv(item, words["tiles"]), b.srem(item, words["tiles"])
            group, panel = b.sdiv(rest, words["panels"]), b.srem(rest, words["panels"])
            first, rows, _ = self.rows_of(tile)
            columns = self.columns_of(panel)
            sums = b.add(self.shared, self.sums_of(group, i64(0), panel, first))
            with (
                self.loop(i64(0), words["taps"]) as tap,
                self.loop(i64(0), rows) as row,
            ):
                place = self.sum(sums, (tap, words["tap_sums"]), (row, words["row_sums"]))
                nbytes = b.mul(columns, i64(self.itemsize))
                with self.loop(i64(0), nbytes, self.wide) as within:
                    self._add(b.add(place, within))
            self.put(group, panel, sums, columns, first, rows)
            is_first = b.icmp_signed("==", tile, i64(0))
            with self.when(b.and_(is_first, b.icmp_signed("!=", words["has_bias"], i64(0)))):
                b.call(bias, [self.arguments, group, panel])
        b.ret_void()

    def _add(self, place: IR) -> None:
        b, words = self.b, self.words
        total = self.variable(self.of.of(self.element))
        b.store(self.of.load(self.element, self.address(place)), total)
        with self.loop(i64(1), words["parts"]) as part:
            there = self.address(b.add(place, b.mul(part, words["part_sums"])))
            found = b.load(total, typ=self.of.of(self.element))
            b.store(b.fadd(found, self.of.load(self.element, there)), total)
        self.of.store(b.load(total, typ=self.of.of(self.element)), self.address(place))
