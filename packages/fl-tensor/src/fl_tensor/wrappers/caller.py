"""The user's source line of a call."""

from __future__ import annotations

import sys

__all__ = ["line"]

#: The packages of this house begin so; a user's line is the nearest one outside of them.
_INTERNAL_PACKAGES = ("fl_tensor", "fl_autograd", "fl_nn", "fl_data", "fl_dist", "fl_memory")


def line() -> str:
    """``file.py:12: y = ft.log(x)`` of the nearest caller outside the library; "" if all are
    inside."""
    import linecache

    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        path = frame.f_code.co_filename
        # Functions made from text have no module and a name such as "<fl_autograd add>".
        if module not in _INTERNAL_PACKAGES and not path.startswith("<fl_"):
            source = linecache.getline(path, frame.f_lineno).strip()
            return f"{path}:{frame.f_lineno}: {source}".rstrip(": ")
        frame = frame.f_back  # type: ignore[assignment]
    return ""
