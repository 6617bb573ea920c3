"""Kernel arguments of a wgrad (``loop_nest.py``), and how its functions read them.

Counts, and strides in bytes. The *columns* of the result are features, in panels of ``width``. The
*rows* are channels, in tiles. In a wgrad of small groups (``depthwise/groups.py``) the columns are
groups, of ``group_channels`` channels and ``group_features`` features each, and rows are turns.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm import launcher
from fl_jit.kernels.llvm.loop_nest import Emitter, LoopNestBuilder
from fl_jit.kernels.llvm.padded_input import TileAxis

#: Reduction axes: the batch and three spatial axes.
AXES = 4
#: Fields of each axis.
_OF_AXIS = (
    "blocks",  # number of input tiles along it
    "step",  # positions of an input tile, of the convolution's output; then all of them
    "size",
    "stride",
    "low",  # padding before the first
    "reach",  # extent of the positions of x that an output position reads
    "extent",  # size of x
    "x",  # strides: in x,
    "gradient",  # in the gradient,
    "input",  # in the input tile
)
#: Tables with one number for each kernel position.
OF_POSITIONS = (
    *("position_in_input", "position_in_copies", "position_in_acc"),  # offsets
    "position_steps",  # steps along a line
    *("first_row", "end_row"),  # rows of the output that read the image, not padding
)

_CONSTANT = (
    # division of work
    *("panel_splits", "tile_splits", "shared_at"),
    *("parts", "input_tiles", "panels", "tiles", "tile_size", "longer", "positions"),
    *("channels", "columns", "width", "group_channels", "group_features"),
    *("long_kernel", "short_kernel", "long_tail_kernel", "short_tail_kernel"),
    *(f"{name} {axis}" for axis in range(AXES) for name in _OF_AXIS),
    # strides
    *("x_group", "gradient_group", "bias_group", "out_group"),
    *("x_panel", "gradient_panel", "bias_panel", "out_panel"),
    *("x_channel", "gradient_feature", "bias_feature", "out_column", "out_item"),
    *("worker_bytes", "gradient_at", "acc_at", "input_pixels"),
    *(
        "tile_pitch",
        "row_pitch",
        "kernel_row_pitch",
    ),  # of tiles, rows, kernel rows in the input tile
    # accumulators: strides, bytes of a row, and the stride of a run that is copied at once
    *(
        "acc_group",
        "acc_part",
        "acc_panel",
        "acc_tile",
        "acc_row",
        "acc_kernel_row",
        "acc_position",
    ),
    *("acc_column", "acc_row_bytes", "acc_run"),
    *("copies", "copy_bytes"),  # number and size of the copies of the gradient
    *("bias_acc_at", "bias_acc_group", "bias_acc_part", "bias_acc_panel"),
    # tables: offsets of the rows of pixels of an input tile, and of kernel positions; ranges of a
    # line in each copy of the gradient; offsets in the result; blocks of kernel positions
    *("input_rows", "last_input_rows"),
    *OF_POSITIONS,
    *("copy_ranges", "position_in_out", "row_in_out", "blocks", "block_table"),
    # flags
    *("joined", "dense", "in_place", "local", "has_bias", "by_rows", "runs"),
    *("x_direct", "gradient_direct"),
    # functions of ``strided_copy.py``
    *("x_move", "gradient_move", "pairs_move", "out_move"),
    # functions of ``vector_loops.py``
    *("column_sums", "add_up", "pair_up"),
)
#: The kernel arguments.
FIELDS = launcher.arguments("x gradient bias out", _CONSTANT)


class WgradFunction(Emitter):
    """A builder of a function with these fields, and addresses of tiles and accumulators."""

    @property
    def shared(self) -> IR:
        """The address of the shared memory, as an integer."""
        return self.b.add(self.args["workspace"], self.args["shared_at"])

    def rows_of(self, tile: IR) -> tuple[IR, IR, IR]:
        """The first row of a tile, its number of rows, and whether it is a longer one."""
        b, args = self.b, self.args
        longer = b.icmp_signed("<", tile, args["longer"])
        before = self.minimum(tile, args["longer"])
        first = b.add(b.mul(tile, args["tile_size"]), before)
        return first, b.add(args["tile_size"], b.zext(longer, i64)), longer

    def columns_of(self, panel: IR) -> IR:
        """The number of columns of a panel."""
        b, width = self.b, self.args["width"]
        return self.minimum(b.sub(self.args["columns"], b.mul(panel, width)), width)

    def features_of(self, columns: IR) -> IR:
        """The number of features of so many columns."""
        return self.b.mul(columns, self.args["group_features"])

    def accumulators_of(self, group: IR, part: IR, panel: IR, row: IR) -> IR:
        """The offset of a tile's accumulators."""
        args = self.args
        return self.sum(
            (group, args["acc_group"]),
            (part, args["acc_part"]),
            (panel, args["acc_panel"]),
            (row, args["acc_tile"]),
        )


class InputTiles(LoopNestBuilder):
    """A builder of a loop nest over input tiles."""

    #: The first position of the gradient in the current input tile, along each axis, and the
    #: number.
    starts: list[IR]
    extents: list[IR]

    def split(self, number: IR, by: IR) -> tuple[IR, IR]:
        """``divmod``."""
        return self.b.sdiv(number, by), self.b.srem(number, by)

    def locate(self, input_tile: IR) -> None:
        """Set ``starts`` and ``extents`` of the input tile of this number."""
        b, args = self.b, self.args
        self.starts, self.extents = [], []
        for axis in reversed(range(AXES)):
            input_tile, block = self.split(input_tile, args[f"blocks {axis}"])
            step = args[f"step {axis}"]
            start = b.mul(block, step)
            self.starts.insert(0, start)
            self.extents.insert(0, self.minimum(step, b.sub(args[f"size {axis}"], start)))

    def tile_axes(self) -> list[TileAxis]:
        """The positions of x that the current input tile reads."""
        b, args, found = self.b, self.args, []
        for axis, (start, extent) in enumerate(zip(self.starts, self.extents, strict=True)):
            stride = args[f"stride {axis}"]
            first = b.sub(b.mul(start, stride), args[f"low {axis}"])
            count = self.sum((b.sub(extent, i64(1)), stride), args[f"reach {axis}"])
            rest = (args[f"{name} {axis}"] for name in ("extent", "x", "input"))
            found.append(TileAxis(first, count, *rest))
        return found
