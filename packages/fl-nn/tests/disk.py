"""Stand-ins for calls of the operating system that touch files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def inside(folder: Path, stand_in: Callable, call: Callable) -> Callable:
    """`stand_in` where an argument is a path in `folder`, else `call` itself: kernels that are
    compiled meanwhile are put into their cache by the same calls, in whatever thread."""

    def chosen(*arguments, **options):
        paths = [Path(a) for a in arguments if isinstance(a, (str, os.PathLike))]
        ours = any(path.is_relative_to(folder) for path in paths)
        return (stand_in if ours else call)(*arguments, **options)

    return chosen
