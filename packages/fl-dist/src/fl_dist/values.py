"""Copying tensors between ranks: new handles, and placement on the receiver's device."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor import Tensor
from fl_tensor.backend import TensorBackend


def fresh(x: Tensor) -> Tensor:
    """The same value in a handle of its own, to be rebound by its holder alone (``y[0] = 1``)."""
    return Tensor(x.adapter, x.backend)


def beside(x: Tensor, value: Tensor) -> Tensor:
    """``value`` on the backend and device of ``x``."""
    if value.backend is not x.backend:
        value = value.to(x.backend)
    return value if value.device == x.device else value.to(x.device)


def computed(found: Any) -> Any:
    """``found``, its tensors computed. Values for another thread are not deferred in this one,
    where they would run together with its other deferred operations."""
    several = found if isinstance(found, (list, tuple)) else [found]
    for x in several:
        if isinstance(x, Tensor) and type(x.backend).evaluate is not TensorBackend.evaluate:
            ft.eval(x)
    return found


def pack_text(text: str) -> Tensor:
    """Text as a 1-d uint8 tensor, which any communicator can send."""
    data = text.encode()
    return ft.frombytes(data, (len(data),), ft.uint8)


def unpack_text(x: Tensor) -> str:
    return bytes(x.tobytes()).decode()
