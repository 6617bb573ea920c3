"""Which provider serves this process: oneDNN where it is installed, otherwise none.

FL_ONEDNN=0 turns it off. FL_ONEDNN=always hands it every problem that it supports, however small;
that is slower, and how the tests reach it with small operands.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from fl_tensor.backends.providers.provider import Kernel, Provider

ENVIRONMENT = "FL_ONEDNN"

#: Told of every kernel that a backend runs; usually nobody.
watchers: list[Callable[[Provider, Kernel], None]] = []


def is_on() -> bool:
    """Whether a provider is wanted at all."""
    return os.environ.get(ENVIRONMENT) != "0"


def is_for_everything() -> bool:
    """Whether sizes are to be disregarded."""
    return os.environ.get(ENVIRONMENT) == "always"


@functools.cache
def found() -> tuple[Provider | None, tuple[str, ...]]:
    """The provider, and why there is none (or which libraries were passed over), for people.

    Raises ProviderError when FL_ONEDNN_LIB names a library that cannot be used.
    """
    if not is_on():
        return None, (f"oneDNN is turned off by {ENVIRONMENT}=0",)
    from fl_tensor.backends.providers import onednn

    library, passed = onednn.load()
    if library is None:
        return None, (*passed, "pip install 'fl-tensor[onednn]' brings one (Linux, x86-64)")
    return onednn.OneDNN(library), tuple(passed)


def current() -> Provider | None:
    """The provider that backends ask, None if there is none."""
    return found()[0]
