"""Threads over the images of a batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fl_tensor.threads import get_num_threads


def in_threads(compute: Callable[[int, int], object], images: int, worth: int) -> None:
    """`compute(first, last)` of all images, in at most `worth` threads."""
    parts = min(get_num_threads(), images, worth)
    if parts <= 1:
        compute(0, images)
        return
    bounds = [images * k // parts for k in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(compute, bounds[:-1], bounds[1:]))
