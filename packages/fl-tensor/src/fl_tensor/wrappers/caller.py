"""The user's source line of a call."""

from __future__ import annotations

from fl_memory.call_site import user_frame

__all__ = ["line"]


def line() -> str:
    """``file.py:12: y = ft.log(x)`` of the nearest caller outside the library; "" if all are
    inside."""
    import linecache

    frame = user_frame(2)
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    source = linecache.getline(path, frame.f_lineno).strip()
    return f"{path}:{frame.f_lineno}: {source}".rstrip(": ")
