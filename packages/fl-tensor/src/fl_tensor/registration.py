"""What is registered, and can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Registration:
    """Something registered, for good; or for a block: ``with register(...):``."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def remove(self) -> None:
        """Take it back. Twice is once."""
        undo, self._undo = self._undo, lambda: None
        undo()

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
