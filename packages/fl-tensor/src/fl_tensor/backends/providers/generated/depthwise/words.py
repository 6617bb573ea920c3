"""The words of the loop nest of depthwise convolutions (``nest.py``). Distances are in bytes."""

from __future__ import annotations

WORDS = (
    *("source", "weights", "target", "workspace", "epilogue_words", "epilogue"),
    *("row_groups", "row_step", "rows", "channel_groups", "channel_step", "channels"),
    *("row_table", "column_table", "columns", "line"),
    # distances
    *("source_image", "target_image", "source_pixel", "target_pixel"),
    *("source_plane_tap", "source_row_tap", "source_tap"),
    *("panels_plane_tap", "panels_row_tap", "panels_tap"),
    # copies: of the weights, of the source, of the target
    *(
        "packed_plane",
        "packed_row",
        "packed_column",
        "panels_direct",
        "kernel_planes",
        "kernel_rows",
        "kernel_columns",
        "weights_move",
    ),
    *("weights_plane", "weights_row", "weights_column", "weights_group"),
    # groups of channels: how many, of so many; within one
    *("groups", "group", "weights_feature", "weights_channel", "packed_group", "packed_inner"),
    *("worker_bytes", "workers_at", "buffer_at"),
    *("source_move", "source_planes", "source_rows", "source_columns"),
    *("source_plane", "source_row", "source_column", "source_channel", "copied_pixel"),
    *("copied_line", "copied_before", "copied_behind"),
    *("target_move", "target_rows", "target_column", "target_channel", "buffer_pixel"),
)
