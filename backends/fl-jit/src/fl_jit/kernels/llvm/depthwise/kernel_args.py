"""Kernel arguments of the loop nest of depthwise convolutions (``loop_nest.py``).

Distances are in bytes.
"""

from __future__ import annotations

from fl_jit.kernels.llvm import launcher

#: Arguments of the weights (``forward.Panels``).
PANELS = (
    # steps of blocks over places of the kernel, and from turn to turn
    *("panels_kernel_plane", "panels_kernel_row", "panels_kernel_column", "packed_inner"),
    # whether they are read in place; if not, how they are packed
    *("panels_direct", "weights_move", "pack_step"),
    *("kernel_planes", "kernel_rows", "kernel_columns"),
    *("packed_plane", "packed_row", "packed_column", "packed_channel", "packed_group"),
    *("weights_plane", "weights_row", "weights_column", "weights_group"),
    *("weights_feature", "weights_channel"),
    # channels of a group in the source and in the target; groups
    *("source_channels", "target_channels", "groups", "workers_at"),
)
#: Arguments of the images and of their copies (``images.py``).
IMAGES = (
    # items of work: some rows, some groups
    *("row_groups", "row_step", "rows", "line", "slices", "slice"),
    # from image to image, from group to group
    *("source_image", "target_image", "source_group", "target_group"),
    # steps of blocks over rows, pixels and places of the kernel
    *("source_line", "target_line", "source_pixel", "target_pixel"),
    *("source_kernel_plane", "source_kernel_row", "source_kernel_column"),
    # from place to place of either, and of the kernel
    *("source_place", "target_place", "panels_column"),
    # the copy of the source
    *("source_move", "source_planes", "source_rows", "source_columns"),
    *("source_plane", "source_row", "source_column", "source_channel"),
    *("copied_pixel", "copied_line", "copied_before", "copied_columns"),
    # the buffer of results
    *("target_move", "target_column", "target_channel", "buffer_pixel", "buffer_at"),
    "worker_bytes",
)
#: Tables of the bounds of rows and blocks of pixels (``bounds.py``).
TABLES = "run_table", "first_runs", "target_rows", "column_table", "columns"

#: The kernel arguments.
FIELDS = launcher.arguments("source weights target", ("epilogue", *PANELS, *IMAGES, *TABLES))
