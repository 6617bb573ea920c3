"""The nearest caller outside of our packages: the line of a user's program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["call_site", "user_frame"]

#: How the names of our packages begin; frames of ``contextlib`` lie between theirs.
_PREFIX, _BETWEEN = "fl_", "contextlib"


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame that runs code of no package of ours; None if there is none.

    depth: frames that are skipped first; 1 is the caller.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        # Functions made from text have no module and a name such as "<fl_autograd add>".
        is_ours = package.startswith(_PREFIX) or package == _BETWEEN
        if not is_ours and not frame.f_code.co_filename.startswith("<fl_"):
            return frame
        frame = frame.f_back
    return None


def call_site() -> str:
    """``train.py:12`` with the path of the file; "" if all callers are inside."""
    frame = user_frame(2)
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
