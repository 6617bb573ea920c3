"""Built-in backends, imported on demand, never by ``import fl_tensor``."""

import sys
from types import ModuleType
from typing import NoReturn

from fl_tensor.errors import DTypeError


class _Package(ModuleType):
    """A package whose name reads like a function: a call says which one is meant."""

    def __call__(self) -> NoReturn:
        raise DTypeError(
            "[backends] ft.backends is the package of the built-in backends, and no function: "
            "ft.available_backends() lists the names of all that are installed"
        )


sys.modules[__name__].__class__ = _Package
