"""Fields of the kernel arguments of a wgrad (``loop_nest.py``): counts, and strides in bytes.

Addresses of operands come first, then the fields that depend on the number of threads.
"""

from __future__ import annotations

from fl_jit.kernels.llvm import launcher

#: Reduction axes: the batch and three spatial axes.
AXES = 4
#: Fields of each axis.
_OF_AXIS = (
    "blocks",  # number of input tiles along it
    "step",  # positions of an input tile, of the convolution's output; then all of them
    "size",
    "stride",
    "low",  # padding before the first
    "dilation",
    "reach",  # extent of the positions of x that an output position reads
    "extent",  # size of x
    "x",  # strides: in x,
    "gradient",  # in the gradient,
    "strip",  # in the copy of x
)


def axes() -> list[str]:
    """The fields of all axes."""
    return [f"{name} {axis}" for axis in range(AXES) for name in _OF_AXIS]


#: Tables with one number for each kernel position.
OF_TAPS = (
    *("tap_in_strip", "tap_in_copies", "tap_in_sums"),  # offsets
    "tap_steps",  # steps along a line
    *("first_row", "end_row"),  # rows of the output that read the image, not padding
)

_CONSTANT = (
    # division of work
    *("panel_splits", "tile_splits", "shared_at"),
    *("parts", "strips", "panels", "tiles", "tile_size", "longer", "taps"),
    *("channels", "features", "width", "panel_pitch"),
    *("long_kernel", "short_kernel", "long_tail_kernel", "short_tail_kernel"),
    *axes(),
    # strides
    *("x_group", "gradient_group", "bias_group", "out_group"),
    *("x_channel", "gradient_feature", "bias_feature", "out_feature", "out_item"),
    *("worker_bytes", "gradient_at", "sums_at", "strip_pixels"),
    *("tile_pitch", "row_pitch"),  # of tiles, or of rows, in the input tile
    *("group_sums", "part_sums", "panel_sums", "tile_sums", "row_sums", "tap_sums"),
    *("copies", "copy_bytes"),  # number and size of the copies of the gradient
    *("bias_sums_at", "bias_group_sums", "bias_part_sums"),
    # tables: offsets of the rows of pixels of an input tile, and of kernel positions; ranges of a
    # line in each copy of the gradient; offsets in the result
    *("strip_rows", "last_strip_rows"),
    *OF_TAPS,
    *("copy_ranges", "tap_in_out", "row_in_out"),
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
