"""Modules whose name reads like a function: a call says what is meant."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NoReturn

from fl_tensor.errors import DTypeError


def refuse_calls(module: str, message: str) -> None:
    """Let calls of the module of that name raise DTypeError, a TypeError, with ``message``."""

    class Called(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            raise DTypeError(message)

    sys.modules[module].__class__ = Called
