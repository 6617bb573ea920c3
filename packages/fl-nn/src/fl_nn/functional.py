"""``nn.functional``: nothing. Functions are in ``ft`` and ``nn``; each name says where.

It answers those who write ``import fl_nn.functional as F``, as with PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import fl_nn
from fl_tensor.foreign_names.tables import missing_attribute

_TABLE = Path(__file__).with_name("foreign_names.txt")


def __getattr__(name: str) -> NoReturn:
    if name in dir(fl_nn):
        text = f"module {__name__!r} has no attribute {name!r}: write nn.{name}(...)"
        raise AttributeError(text, name="", obj=None)
    raise missing_attribute(f"module {__name__!r}", name, _TABLE)


def __dir__() -> list[str]:
    return []
