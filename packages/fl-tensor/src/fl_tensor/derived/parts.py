"""Pieces of compositions that gradient rules and layers use as well."""

from fl_tensor.derived.attention import attention_weights, grouped, scaled
from fl_tensor.derived.repetition import PAD_MODES
from fl_tensor.derived.sequence import columns, masks, row, rows, scales

__all__ = [
    "PAD_MODES",
    "attention_weights",
    "columns",
    "grouped",
    "masks",
    "row",
    "rows",
    "scaled",
    "scales",
]
