"""Samples of sound as NumPy arrays on the host, for algorithms of the host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import fl_tensor as ft


def host_samples(audio: Any, where: str, dtypes: tuple[str, ...] = ("float32", "float64")) -> Any:
    """The values of a tensor or an array, without a copy where they are in host memory, and not to
    be written to. Raises DTypeError for what has none of `dtypes`."""
    import numpy as np

    values = np.asarray(audio.detach() if isinstance(audio, ft.Array) else audio)
    if values.dtype.name not in dtypes:
        given = values.dtype if hasattr(audio, "dtype") else type(audio).__name__
        raise ft.DTypeError(f"[{where}] samples of {given}: give {', '.join(dtypes)}")
    return values


def like(audio: Any, values: Any) -> Any:
    """`values`, which nobody else has, as what `audio` is: a tensor of its backend and device, or
    an array."""
    if not isinstance(audio, ft.Array):
        return values
    with suppress(ft.ArgumentError):
        return ft.asarray(values, None, audio.device, audio.backend, copy=False)
    return ft.asarray(values, None, audio.device, audio.backend)
