"""The words of the loop nest of gradients of weights (``nest.py``): numbers of things, and
distances in bytes. Their addresses come first; then those that depend on the number of threads."""

from __future__ import annotations

#: Axes that are summed over: the batch and three of space.
AXES = 4
#: Words that each axis has.
_OF_AXIS = (
    "blocks",  # strips along it, of
    "step",  # so many places of the result of the convolution; all in all
    "size",
    "stride",
    "low",  # padding before the first
    "dilation",
    "reach",  # places of x that a place of the result sees
    "extent",  # places of x
    "x",  # distances: in x,
    "gradient",  # in the gradient,
    "strip",  # in the copy of x
)


def axes() -> list[str]:
    """The words of all axes."""
    return [f"{name} {axis}" for axis in range(AXES) for name in _OF_AXIS]


#: Tables that have a number for each place of the kernel.
OF_TAPS = (
    *("tap_in_strip", "tap_in_copies", "tap_in_sums"),  # distances
    "tap_steps",  # along a line
    *("first_row", "end_row"),  # of the result, that see the image
)

FIELDS = (
    # addresses
    *("x", "gradient", "bias", "out", "workspace"),
    # how work is divided
    *("panel_splits", "tile_splits", "shared_at"),
    *("parts", "strips", "panels", "tiles", "tile_size", "longer", "taps"),
    *("channels", "features", "width", "panel_pitch"),
    *("long_kernel", "short_kernel", "long_tail_kernel", "short_tail_kernel"),
    *axes(),
    # distances
    *("x_group", "gradient_group", "bias_group", "out_group"),
    *("x_channel", "gradient_feature", "bias_feature", "out_feature", "out_item"),
    *("worker_bytes", "gradient_at", "sums_at", "strip_pixels"),
    *("tile_pitch", "row_pitch"),  # from tile to tile, or from row to row, of the strip
    *("group_sums", "part_sums", "panel_sums", "tile_sums", "row_sums", "tap_sums"),
    *("copies", "copy_bytes"),  # of the strip of the gradient: how many, how far apart
    *("bias_sums_at", "bias_group_sums", "bias_part_sums"),
    # tables: distances of the rows of pixels of a strip, and for places of the kernel; of what
    # copies have of a line, the first pixel and the end; of where sums go
    *("strip_rows", "last_strip_rows"),
    *OF_TAPS,
    *("copy_ranges", "tap_in_out", "row_in_out"),
    # flags
    *("joined", "dense", "in_place", "local", "has_bias", "by_rows", "runs"),
    *("x_direct", "gradient_direct"),
    # functions of ``planes.py``
    *("x_move", "gradient_move", "pairs_move", "out_move"),
    # functions of ``sweeps.py``
    *("column_sums", "add_up", "pair_up"),
)
