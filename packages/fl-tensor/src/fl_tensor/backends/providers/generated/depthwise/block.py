"""The micro-kernel of depthwise convolutions: some neighbouring pixels of the result.

    for some vectors of channels:
      for plane, row, column of the kernel that the pixels see:
        w = panels[plane, row, column]                    vectors of channels
        for u in pixels:
          sums[u] += source[u + column, ...] * w          stay in registers
      target[u] = sums[u]

Channels may be in groups of 2, 4 or 8, each a sum over the channels of its group: then there are as
many rows of weights at every place, and for each of them a vector of the source has one channel of
every group in the lanes of all.

As machine code, for each number of pixels up to ``MOST``:

    void block(ptr words, ptr source, ptr panels, ptr target,
               i64 planes, i64 rows, i64 columns, i64 channels)

``words`` say how far apart pixels and places are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.depthwise.words import WORDS
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.backends.providers.generated.tile import registers
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64, pointer
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer] * 4 + [i64] * 4)
#: Pixels of a block at most.
MOST = 8
_REACH = 4


def addresses(dtype: DType, group: int, pixels: Iterable[int]) -> dict[int, int]:
    """Where the code of blocks of so many pixels begins, for groups of so many channels."""
    return dict(_addresses(dtype, group, tuple(sorted(set(pixels))), target.host()))


@compile.once
def _addresses(
    dtype: DType, group: int, pixels: tuple[int, ...], machine: Target
) -> dict[int, int]:
    # The code lives as long as this process: kernels keep its address.
    about = f"{group} {dtype} {compile.sources(FOLDER)}"
    made = compile.load_functions(
        {f"block{count}": f"block{count} {about}" for count in pixels},
        lambda names: assembly(dtype, group, [n for n in pixels if f"block{n}" in names], machine),
        machine,
    )
    _alive.append(made)
    return {count: made[f"block{count}"].address(f"block{count}") for count in pixels}


_alive: list[object] = []


def assembly(dtype: DType, group: int, pixels: Sequence[int], machine: Target) -> str:
    """A module in LLVM IR with a function ``block`` for each number of pixels."""
    module = ir.Module("blocks")
    module.triple = target.triple()
    for count in pixels:
        function = ir.Function(module, SIGNATURE, f"block{count}")
        _Block(function, count, group, machine, dtype)
    return str(module)


class _Block(Emitter):
    def __init__(
        self, function: IR, pixels: int, group: int, machine: Target, dtype: DType
    ) -> None:
        super().__init__(function, machine, dtype)
        words, self.source, self.panels, self.target, *counts = function.args
        self.counts, channels = counts[:3], counts[3]
        self.pixels, self.group = pixels, group
        self.words = self.named(words, WORDS)
        # As many sums as hide the time that an addition takes, and leave registers for weights.
        most = 16 if registers(machine) >= 32 and group == 1 else 8
        vectors = max(min(most // pixels, 4), 1)
        step = 1 << (vectors * self.of.lanes).bit_length() - 1
        vectors = step // self.of.lanes
        whole = self.b.and_(channels, i64(-step))
        with self.loop(i64(0), whole, step) as channel:
            self._sums(channel, vectors, None)
        with self.loop(whole, channels, self.of.lanes) as channel:
            self._sums(channel, 1, self.of.first(self.b.sub(channels, channel)))
        self.b.ret_void()

    def _sums(self, channel: IR, vectors: int, mask: IR | None) -> None:
        b, words = self.b, self.words
        kind = self.of.of(self.element)
        sums = {(u, v): self.variable(kind) for u in range(self.pixels) for v in range(vectors)}
        for total in sums.values():
            b.store(self.of.constant(self.element, 0), total)
        here = b.mul(channel, i64(self.itemsize))
        source, panels, to = (self.at(p, here) for p in (self.source, self.panels, self.target))
        sides = (("source", source), ("panels", panels))
        with self.loop(i64(0), self.counts[0]) as plane:
            planes_at = [self.at(p, b.mul(plane, words[f"{n}_plane_tap"])) for n, p in sides]
            pairs = list(zip(("source", "panels"), planes_at, strict=True))
            with self.loop(i64(0), self.counts[1]) as row:
                rows_at = [self.at(p, b.mul(row, words[f"{n}_row_tap"])) for n, p in pairs]
                pairs = list(zip(("source", "panels"), rows_at, strict=True))
                with self.loop(i64(0), self.counts[2]) as column:
                    x, w = (self.at(p, b.mul(column, words[f"{n}_tap"])) for n, p in pairs)
                    self._add(x, w, sums, vectors, mask)
        for (u, v), total in sums.items():
            pixel = self.at(to, b.mul(words["target_pixel"], i64(u)))
            self.of.store(b.load(total, typ=kind), self.at(pixel, v * self.wide), mask)

    def _add(self, x: IR, w: IR, sums: dict[tuple[int, int], IR], vectors: int, mask: IR) -> None:
        # What a place of the kernel adds to the sums of all pixels.
        b, kind, size = self.b, self.of.of(self.element), self.group
        pitch = self.words["source_pixel"]
        # Of an address a processor reaches a, a + p, a + 2p and a + 3p itself, with p and 3p.
        reached = {u: self.at(x, b.mul(pitch, i64(u))) for u in range(0, self.pixels, _REACH)}
        for k in range(size):
            row = self.at(w, b.mul(self.words["packed_inner"], i64(k))) if size > 1 else w
            weights = [
                self.of.load(self.element, self.at(row, v * self.wide), mask)
                for v in range(vectors)
            ]
            lanes = [lane // size * size + k for lane in range(self.of.lanes)]
            for (u, v), variable in sums.items():
                pixel = self.at(reached[u - u % _REACH], b.mul(pitch, i64(u % _REACH)))
                found = self.of.load(self.element, self.at(pixel, v * self.wide), mask)
                if size > 1:
                    found = self.of.shuffle(found, found, lanes)
                total = b.load(variable, typ=kind)
                b.store(self.of.fma(found, weights[v], total), variable)
