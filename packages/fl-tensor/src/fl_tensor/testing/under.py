"""The kit on another device, and with wrappers in front of the backend.

    python -m fl_tensor.testing acme --device cuda:1 --under profile,check,count,trace

The first is called first. ``check`` does not look for NaN and infinities here: samples have them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable

from fl_tensor.backend import TensorBackend
from fl_tensor.device import Device
from fl_tensor.dispatch.stack import Wrapper
from fl_tensor.errors import ArgumentError
from fl_tensor.wrappers import check, count, profile, trace, wrapped

#: How the command tells the process that runs the tests.
DEVICE = "FL_TENSOR_TESTING_DEVICE"
ENVIRONMENT = "FL_TENSOR_TESTING_UNDER"
NAMES = ("profile", "check", "count", "trace")


def layers(names: str) -> list[Wrapper]:
    """The wrappers of a comma-separated list. Raises ArgumentError for an unknown name."""
    known: dict[str, Callable[[], Wrapper]] = {
        "profile": profile,
        "check": lambda: check(nan=False, inf=False),
        "count": count,
        "trace": trace,
    }
    given = [name for name in names.split(",") if name]
    if unknown := [name for name in given if name not in known]:
        raise ArgumentError(f"--under {unknown[0]}: expected some of {','.join(NAMES)}")
    return [known[name]() for name in given]


def placed(backend: TensorBackend, device: str | None = None) -> TensorBackend:
    """The backend on the device and behind the wrappers that the command asked for; ``device`` is
    what the suite asks for."""
    backend = preferring(backend, device or os.environ.get(DEVICE))
    found = layers(os.environ.get(ENVIRONMENT, ""))
    return wrapped(backend, *found) if found else backend


def preferring(backend: TensorBackend, device: str | None) -> TensorBackend:
    """The backend with ``device`` as its first and so its default one. Raises ArgumentError where
    it has no such device."""
    if not device:
        return backend
    wanted, found = Device.parse(device), backend.devices()
    if wanted not in found:
        have = ", ".join(map(str, found))
        raise ArgumentError(f"backend {backend.name!r} has no device {wanted}; it has {have}")
    order = [wanted, *(d for d in found if d != wanted)]
    other = copy.copy(backend)
    other.devices = lambda: order  # type: ignore[method-assign]
    return other
