"""``Closable``: a search in progress, which ends once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from fl_text.errors import TextError

Self = TypeVar("Self", bound="Closable")


class Closable(ABC):
    """Base of searches that hold tables or states of a language model until they end."""

    _closed = False

    @abstractmethod
    def _release(self) -> None:
        """Give back what the search holds."""

    def close(self) -> None:
        """Ends the search without a result. A `with` block does it, too."""
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise TextError("[text] this search is over: begin another one")
