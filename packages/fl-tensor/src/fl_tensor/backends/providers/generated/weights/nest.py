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

from fl_tensor.backends.providers.generated.nest import computed
from fl_tensor.backends.providers.generated.weights import lanes
from fl_tensor.backends.providers.generated.weights.results import Bias, ColumnSums, Store
from fl_tensor.backends.providers.generated.weights.strips import Strips
from fl_tensor.backends.providers.generated.weights.words import WORDS
from fl_tensor.codegen import target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64
from fl_tensor.dtypes import DType, int32


def assembly(given: DType, result: DType, machine: Target, pairs: bool = False) -> str:
    """The module of ``first`` and ``second``, for images of ``given``, weights of ``result``."""
    module = ir.Module("weights")
    module.triple = target.triple()
    dtype = computed(given)
    copy = lanes.define(module, machine, int32 if pairs else dtype, given)
    in_pairs = lanes.define_pairs(module, machine) if pairs else None
    store = Store(module, machine, result).function
    bias = Bias(module, machine, result).function
    add_up = ColumnSums(module, machine, dtype, pairs).function
    _First(module, machine, (dtype, given), copy, in_pairs, store, bias, add_up)
    _Second(module, machine, dtype, store, bias)
    return str(module)


class _Tiles(Strips):
    # What both functions have in common: where tiles and panels are.

    def __init__(
        self,
        module: IR,
        name: str,
        machine: Target,
        dtype: DType,
        store: IR,
        given: DType | None = None,
    ) -> None:
        super().__init__(module, name, WORDS, machine, dtype, given)
        self.shared = self.b.add(self.words["workspace"], self.words["shared_at"])
        self.store = store
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
        words = self.words
        out = self.sum(
            words["out"],
            (group, words["out_group"]),
            (self.b.mul(panel, self.width), words["out_feature"]),
        )
        self.b.call(self.store, [self.arguments, self.address(out), sums, columns, row, rows])


class _First(_Tiles):
    # An item is a part of the pixels, for some of the panels and some of the tiles of a group.

    def __init__(
        self,
        module: IR,
        machine: Target,
        dtypes: tuple[DType, DType],
        copy: IR,
        in_pairs: tuple[IR, IR] | None,
        store: IR,
        bias: IR,
        add_up: IR,
    ) -> None:
        super().__init__(module, "first", machine, dtypes[0], store, dtypes[1])
        self.copy, self.bias, self.add_up = copy, bias, add_up
        #: The functions ``copy_pairs`` and ``pair_up``, where pixels are multiplied in pairs.
        self.in_pairs = in_pairs
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
        if self.in_pairs:
            self.steps = b.ashr(b.add(extents[3], i64(1)), i64(1))
        self.strip_rows = b.select(whole, words["strip_rows"], words["last_strip_rows"])
        self.planes = b.mul(extents[0], extents[1])
        with self.loop(*self.panels) as panel:
            columns = self.columns_of(panel)
            vectors = b.sdiv(b.add(columns, i64(self.of.lanes - 1)), i64(self.of.lanes))
            pitch = b.mul(vectors, i64(self.wide))
            there = self._gradient_at(panel)
            with self.when(b.not_(direct)):
                self._copy_gradient(there, columns, vectors, pitch)
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
        b = self.b
        joined = b.icmp_signed("!=", self.words["joined"], i64(0))
        with b.if_else(joined) as (together, by_tiles):
            with together:
                self._copy_joined(to, source, low, high, end)
                self._pair_up(to, end)
            with by_tiles, self.loop(*self.tiles) as tile:
                self._copy_tile(tile, to, source, low, high, end)
                self._pair_up(b.add(to, b.mul(tile, self.words["tile_pitch"])), end)

    def _pair_up(self, to: IR, end: IR) -> None:
        # Each pixel of a row with the one that the next place of the gradient sees.
        if self.in_pairs:
            pitch = self.words["strip 3"]
            nbytes, distance = (self.b.mul(pitch, n) for n in (end, self.words["stride 3"]))
            self.b.call(self.in_pairs[1], [self.address(to), nbytes, distance])

    def _copy_tile(self, tile: IR, to: IR, source: IR, low: IR, high: IR, end: IR) -> None:
        # A row of pixels, of a tile's channels.
        b, words, lanes = self.b, self.words, self.of.lanes
        first, rows, _ = self.rows_of(tile)
        to = b.add(to, b.mul(tile, words["tile_pitch"]))
        source = b.add(source, b.mul(first, words["x_channel"]))
        with self.loop(i64(0), rows, lanes) as lane:
            here = b.add(to, b.mul(lane, i64(self.itemsize)))
            there = b.add(source, b.mul(lane, words["x_channel"]))
            count = self.minimum(b.sub(rows, lane), i64(lanes))
            self.copy_channels(here, there, count, low, high, end)

    def _copy_joined(self, to: IR, source: IR, low: IR, high: IR, end: IR) -> None:
        # A row of pixels whose channels lie side by side. What is written too much is written over.
        b, words = self.b, self.words
        pitch = words["strip 3"]
        self._copy_dense(to, source, b.mul(low, words["channels"]), 0)
        middle = b.add(to, b.mul(low, pitch))
        count = b.sub(high, low)
        with b.if_else(b.icmp_signed("!=", words["dense"], i64(0))) as (dense, strided):
            with dense:
                self._copy_dense(middle, source, b.mul(count, words["channels"]), 1)
            with strided:
                self._copy_strided(middle, source, count)
        behind = b.mul(b.sub(end, high), words["channels"])
        self._copy_dense(b.add(to, b.mul(high, pitch)), source, behind, 0)

    def _copy_strided(self, to: IR, source: IR, count: IR) -> None:
        # Pixel by pixel where their channels are more than a vector.
        b, words, pitch = self.b, self.words, self.words["strip 3"]
        channels, lanes = words["channels"], i64(self.of.lanes)
        many = b.select(b.icmp_signed("<=", channels, lanes), count, i64(1))
        with self.loop(i64(0), count, many) as place, self.loop(i64(0), channels, lanes) as lane:
            here = self.sum(to, (place, pitch), (lane, i64(self.itemsize)))
            there = self.sum(source, (place, words["x 3"]), (lane, words["x_channel"]))
            given = self.address(here), pitch, self.address(there), many
            wanted = self.minimum(b.sub(channels, lane), lanes)
            b.call(self.copy, [*given, wanted, words["x 3"], words["x_channel"]])

    def _copy_dense(self, to: IR, source: IR, count: IR, reads: int) -> None:
        b, lanes = self.b, self.of.lanes
        whole = b.sdiv(count, i64(lanes))
        rest = b.srem(count, i64(lanes))
        any_rest = b.zext(b.icmp_signed(">", rest, i64(0)), i64)
        done = b.mul(whole, i64(self.wide))
        item = self.given.itemsize
        read = i64(lanes * item)
        last = b.add(source, b.mul(whole, read))
        for here, there, many, wanted in (
            (to, source, whole, i64(lanes * reads)),
            (b.add(to, done), last, any_rest, b.mul(rest, i64(reads))),
        ):
            given = self.address(here), i64(self.wide), self.address(there), many
            b.call(self.copy, [*given, wanted, read, i64(item)])

    def _copy_gradient(self, source: IR, columns: IR, vectors: IR, pitch: IR) -> None:
        # Rows in the order of ``strip_rows``: rows of a place in all images lie side by side.
        b, words = self.b, self.words
        feature = words["gradient_feature"]
        row_bytes = b.mul(self.steps, pitch)
        to = self.packed
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
            with self.loop(i64(0), vectors) as j:
                lane = b.mul(j, i64(self.of.lanes))
                count = self.minimum(b.sub(columns, lane), i64(self.of.lanes))
                goal = b.add(here, b.mul(j, i64(self.wide)))
                begin = b.add(there, b.mul(lane, feature))
                self._copy_pixels(goal, pitch, begin, (count, words["gradient 3"], feature))

    def _copy_pixels(self, to: IR, pitch: IR, source: IR, lanes: tuple[IR, IR, IR]) -> None:
        # ``lanes``: how many, from pixel to pixel, from lane to lane.
        b, pixels = self.b, self.extents[3]
        if self.in_pairs is None:
            b.call(self.copy, [self.address(to), pitch, self.address(source), pixels, *lanes])
            return
        count, pixel, lane = lanes
        pairs = b.ashr(pixels, i64(1))
        given = self.address(to), pitch, self.address(source), pairs
        twice = b.shl(pixel, i64(1))
        b.call(self.in_pairs[0], [*given, count, twice, lane])
        last = b.add(to, b.mul(pairs, pitch)), b.add(source, b.mul(pairs, twice))
        given = self.address(last[0]), pitch, self.address(last[1]), b.and_(pixels, i64(1))
        b.call(self.copy, [*given, count, pixel, lane])

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
        x_pitch = b.shl(x_pitch, i64(1)) if self.in_pairs else x_pitch
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
            self.put(self.group, panel, self.address(sums), columns, first, count)


class _Second(_Tiles):
    # Adds the parts of a tile, in their order.

    def __init__(self, module: IR, machine: Target, dtype: DType, store: IR, bias: IR) -> None:
        super().__init__(module, "second", machine, dtype, store)
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
            self.put(group, panel, self.address(sums), columns, first, rows)
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
