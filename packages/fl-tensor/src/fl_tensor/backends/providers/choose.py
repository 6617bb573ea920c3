"""Which providers serve the backend `jit` in this process, and who is asked first.

FL_PROVIDERS names them in their order, with commas between (default: those of ``DEFAULT``); "none"
turns them off. FL_PROVIDERS_EVERYTHING=1 hands them every problem that they support, however small;
that is slower, and how the tests reach them with small operands.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TypeAlias

from fl_tensor import extras, settings
from fl_tensor.backends.providers.chain import Chain
from fl_tensor.backends.providers.later import Later
from fl_tensor.backends.providers.provider import Kernel, Provider, ProviderError

ENVIRONMENT = "FL_PROVIDERS"
EVERYTHING = "FL_PROVIDERS_EVERYTHING"
NONE = "none"
#: Who is asked where FL_PROVIDERS does not say.
DEFAULT = ("generated", "onednn")

#: A provider, or None, and what was passed over on the way to it, for people.
Opened: TypeAlias = tuple[Provider | None, tuple[str, ...]]

#: Told of every kernel that a backend runs; usually nobody.
watchers: list[Callable[[Provider, Kernel], None]] = []


@functools.cache
def is_for_everything() -> bool:
    """Whether sizes are to be disregarded. Every product asks: the environment is read once."""
    return settings.switch(EVERYTHING, False)


def wanted() -> tuple[str, ...]:
    """The names of the providers that are wanted, in order. Raises ProviderError for others."""
    asked = os.environ.get(ENVIRONMENT)
    if asked is None:
        return DEFAULT
    names = tuple(name for part in asked.split(",") if (name := part.strip()))
    if unknown := [name for name in names if name not in (*_OPEN, NONE)]:
        raise ProviderError(
            f"{ENVIRONMENT}={asked}: there is no provider {unknown[0]!r}; name some of "
            f"{', '.join(_OPEN)}, or {NONE!r}"
        )
    if NONE in names and len(names) > 1:
        raise ProviderError(f"{ENVIRONMENT}={asked}: {NONE!r} stands alone, or is left out")
    return tuple(name for name in names if name != NONE)


@functools.cache
def found() -> tuple[tuple[Provider, ...], tuple[str, ...]]:
    """The providers in their order, and why others are missing (or which libraries were passed
    over), for people.

    Raises ProviderError when FL_PROVIDERS or FL_ONEDNN_LIB names what there is not.
    """
    opened = [_OPEN[name]() for name in wanted()]
    if not opened:
        return (), (f"providers are turned off by {ENVIRONMENT}={NONE}",)
    passed = [reason for _, reasons in opened for reason in reasons]
    return tuple([one for one, _ in opened if one is not None]), tuple(passed)


@functools.cache
def current() -> Provider | None:
    """The provider that `jit` asks, which may ask others in its turn; None if there is none."""
    providers, _ = found()
    if len(providers) > 1:
        return Chain(providers)
    return providers[0] if providers else None


def _onednn() -> Opened:
    from fl_tensor.backends.providers import onednn

    library, passed = onednn.load()
    if library is None:
        return None, (*passed, f"onednn (Linux, x86-64): {extras.install('onednn')}")
    return onednn.OneDNN(library), tuple(passed)


def _generated() -> Opened:
    from importlib.util import find_spec

    if find_spec("llvmlite") is None:
        return None, (f"generated takes llvmlite: {extras.install('jit')}",)
    return Later("generated", True, _make_generated), ()


def _make_generated() -> Provider:
    from fl_tensor.backends.providers.generated.provider import Generated

    return Generated()


_OPEN: dict[str, Callable[[], Opened]] = {"generated": _generated, "onednn": _onednn}
