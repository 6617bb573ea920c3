"""Donated tensors: the handle that was given away raises when it is used."""

from __future__ import annotations

from typing import Any, NoReturn

from fl_dist.errors import DistError
from fl_dist.values import fresh
from fl_tensor import Tensor
from fl_tensor.backend import TensorAdapter


def donate(x: Tensor, receiver: str) -> Tensor:
    """The value of ``x`` in a new handle; ``x`` itself raises DistError from now on."""
    given = fresh(x)
    x.__init__(_Given(receiver), x.backend)  # type: ignore[misc]
    return given


class _Given(TensorAdapter):
    """The adapter of a dead handle."""

    __slots__ = ("receiver",)

    def __init__(self, receiver: str) -> None:
        self.receiver = receiver

    def _refuse(self) -> NoReturn:
        raise DistError(
            f"this tensor was donated to {self.receiver}: use the result, or pass donate=False"
        )

    @property
    def shape(self) -> NoReturn:
        self._refuse()

    @property
    def dtype(self) -> NoReturn:
        self._refuse()

    @property
    def device(self) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        self._refuse()
