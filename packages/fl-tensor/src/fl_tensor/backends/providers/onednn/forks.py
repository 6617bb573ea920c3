"""A forked child has no OpenMP threads: its first parallel region would wait for them for ever. So
there providers have no kernels any more, and kernels from before the fork refuse to be called."""

from __future__ import annotations

import os
import weakref

from fl_tensor.backends.providers.provider import Provider, ProviderError

_home = os.getpid()
_lost = False
_providers: weakref.WeakSet[Provider] = weakref.WeakSet()


def watch(provider: Provider) -> None:
    """Let it forget its kernels in a forked child."""
    _providers.add(provider)


def lost() -> bool:
    """Whether this process was forked off one that may have used the library."""
    return _lost


def check_process() -> None:
    """Raise ProviderError in a forked child."""
    if _lost:
        raise ProviderError(
            f"a kernel of oneDNN was made in process {_home} and called in a fork of it, where "
            f"OpenMP has no threads; start processes with 'spawn', or set FL_PROVIDERS=none"
        )


def _after_fork() -> None:
    global _lost
    _lost = True
    for provider in _providers:
        provider.forget()


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(after_in_child=_after_fork)
