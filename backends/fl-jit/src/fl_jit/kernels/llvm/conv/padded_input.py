"""Input tiles: zero-padded copies of the source rows that some output rows of a convolution read.

    planes x rows x pixels of the source,           the input tile: rows of pixels, channels of a
    from (plane, row, pixel) on:                    pixel contiguous, stride ``pixel_pitch``
          0 0 0 0 0 0                                   | p p p p p p |
          0 + - - - -      source: zero outside    ->   | p x x x x x |   x copied, p zero
          0 |  image                                    | p x x x x x |

In an input tile every window of the kernel is complete. A micro-kernel therefore reads the tile
itself as its matrix A (row i: the pixels of result i), without an im2col copy. The tile is a block
that stays in L2 while all features are computed from it. The source may have any strides. Channels
of the input tile are contiguous.

    void strip(ptr words, ptr source, ptr strip, i64 plane, i64 row, i64 pixel,
               i64 planes, i64 rows, i64 pixels)

copies from one image and group, to which ``source`` points. ``words`` is a block of ``INPUT_TILE``.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.arg_struct import ArgStruct
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import IR, i1, i8, i64, pointer
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.loop_nest import zero
from fl_tensor.dtypes import DType

#: Sizes of the source and of the input tile, pitches in bytes. ``plane_step``: source planes from
#: one plane of the tile to the next. ``whole``: pixels are contiguous on both sides, so that a row
#: is one copy. ``clear``: zeros follow the channels of each pixel.
INPUT_TILE = ArgStruct(
    "depth height width channels source_plane source_row source_pixel source_channel "
    "plane_step plane_pitch row_pitch pixel_pitch itemsize whole clear move"
)
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer] * 3 + [i64] * 6)


def block(
    size: tuple[int, int, int],
    channels: int,
    strides: tuple[int, int, int, int],
    dtypes: tuple[DType, DType],
    pitches: tuple[int, int, int],
    plane_step: int = 1,
    clear: bool = False,
) -> object:
    """A block of ``INPUT_TILE``.

    ``size``: depth, height and width of the source. ``strides`` of its planes, rows, pixels and
    channels, in elements. ``dtypes`` of source and input tile. ``pitches`` of the planes, rows and
    pixels of the input tile, in bytes. ``clear``: zeros follow the channels.
    """
    source, result = dtypes
    *outer, pixel, channel = strides
    channel = 1 if channels == 1 else channel
    which = strided_copy.kind(pitches[2], 1, pixel, channel)
    whole = channel == 1 and pixel == channels and pitches[2] == channels * result.itemsize
    depth, height, width = size
    step = source.itemsize
    return INPUT_TILE.block(
        depth=depth,
        height=height,
        width=width,
        channels=channels,
        source_plane=outer[0] * step,
        source_row=outer[1] * step,
        source_pixel=pixel * step,
        source_channel=channel * step,
        plane_step=plane_step,
        plane_pitch=pitches[0],
        row_pitch=pitches[1],
        pixel_pitch=pitches[2],
        itemsize=result.itemsize,
        whole=int(whole),
        clear=int(clear),
        move=strided_copy.address(which, source, result),
    )


def define(module: IR) -> IR:
    """Add the function ``strip`` to a module."""
    function = ir.Function(module, SIGNATURE, "strip")
    function.attributes.add("nounwind")
    function.linkage = "internal"
    _Strip(function)
    return function


class _Strip(Loops):
    def __init__(self, function: IR) -> None:
        self.b = b = Builder(function.append_basic_block("entry"))
        words, self.source, input_tile, plane, row, self.pixel, planes_, rows, self.pixels = (
            function.args
        )
        self.word = {
            name: INPUT_TILE.load(b, words, name) for name in INPUT_TILE.names if name != "move"
        }
        self.move = INPUT_TILE.load_pointer(b, words, "move")
        self._columns()
        self.row_bytes = b.mul(self.pixels, self.word["pixel_pitch"])
        with self.loop(i64(0), planes_) as i:
            z = b.add(plane, b.mul(i, self.word["plane_step"]))
            to_plane = self._at(input_tile, i, "plane_pitch")
            from_plane = self._at(self.source, z, "source_plane")
            within = b.icmp_unsigned("<", z, self.word["depth"])
            with self.loop(i64(0), rows) as j:
                y = b.add(row, j)
                to_row = self._at(to_plane, j, "row_pitch")
                from_row = self._at(from_plane, y, "source_row")
                here = b.and_(within, b.icmp_unsigned("<", y, self.word["height"]))
                with b.if_else(here) as (inside, outside):
                    with inside:
                        self._row(from_row, to_row)
                    with outside:
                        zero(b, to_row, self.row_bytes)
        b.ret_void()

    def _columns(self) -> None:
        # The padding in front of the pixels of a row, and the end of the pixels of the source.
        b = self.b
        end = self.minimum(b.add(self.pixel, self.pixels), self.word["width"])
        low = b.neg(self.minimum(self.pixel, i64(0)))
        self.before = self.minimum(low, self.pixels)
        stop = b.sub(end, self.pixel)
        self.stop = b.select(b.icmp_signed("<", stop, self.before), self.before, stop)

    def _row(self, source: IR, input_tile: IR) -> None:
        b, word = self.b, self.word
        count = b.sub(self.stop, self.before)
        first = b.add(self.pixel, self.before)
        clears = b.trunc(word["clear"], i1)
        zero(b, input_tile, b.mul(b.select(clears, self.stop, self.before), word["pixel_pitch"]))
        whole = b.trunc(word["whole"], i1)
        rows = b.select(whole, i64(1), count)
        columns = b.select(whole, b.mul(count, word["channels"]), word["channels"])
        with b.if_then(b.icmp_signed(">", count, i64(0))):
            to = self._at(input_tile, self.before, "pixel_pitch")
            start = self._at(source, first, "source_pixel")
            arguments = [to, word["pixel_pitch"], word["itemsize"]]
            arguments += [start, word["source_pixel"], word["source_channel"], rows, columns]
            b.call_at(self.move, strided_copy.SIGNATURE, arguments)
        behind = b.sub(self.pixels, self.stop)
        zero(b, self._at(input_tile, self.stop, "pixel_pitch"), b.mul(behind, word["pixel_pitch"]))

    def _at(self, address: IR, index: IR, pitch: str) -> IR:
        return self.b.gep(address, [self.b.mul(index, self.word[pitch])], source_etype=i8)
