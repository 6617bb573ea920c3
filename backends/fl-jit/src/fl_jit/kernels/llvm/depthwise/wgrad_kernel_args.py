"""Kernel arguments of the wgrad loop nest of depthwise convolutions (``wgrad_loop_nest.py``).

Distances are in bytes.
"""

from __future__ import annotations

from fl_jit.kernels.llvm import launcher
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import axes

_CONSTANT = (
    *("splits", "shared_at", "parts", "strips", "vectors"),
    # groups: all, those of a vector; channels and features of one; vectors of the gradient
    *("groups", "held", "channels", "features", "results"),
    *axes(),
    # distances
    *("x_channel", "gradient_channel", "bias_channel"),
    *("out_group", "out_feature", "out_channel"),
    *("worker_bytes", "packed_at", "packed_pixel"),
    *("part_sums", "tap_row_sums", "tap_sums", "turn_sums", "bias_sums"),
    # blocks of places of the kernel, and all places
    *("blocks", "block_table", "taps"),
    # places of the kernel in the result: planes, rows and columns
    *("out_planes", "out_rows", "out_columns", "out_plane", "out_row", "out_column"),
    # flags
    *("has_bias", "x_direct", "gradient_direct", "dense"),
    # functions of ``strided_copy.py``, of ``copies.py`` and of ``conv_wgrad/vector_loops.py``
    *("x_move", "gradient_move", "out_move", "copy_plane", "column_sums"),
)
#: The kernel arguments.
FIELDS = launcher.arguments("x gradient bias out", _CONSTANT)
#: Numbers of an entry of the table of blocks: the code, the offset of its places in the input tile,
#: the row there, and the offset in the accumulators.
BLOCK = 4
