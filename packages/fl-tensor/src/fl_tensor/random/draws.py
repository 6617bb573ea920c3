"""``Draws``: recorded random draws of a block, for replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fl_tensor.random.generator import Generator


class Draws:
    """Notes the generators that are drawn from in a block, whoever holds them, so that the same
    numbers can be drawn again:

        with Draws() as draws:
            first = step()
        with draws.again():
            assert step() == first

    After ``again`` the generators are where they were before it.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Generator, dict[str, int]]] = {}
        self._around: list[tuple[Token[Draws | None], Draws | None]] = []

    def note(self, generator: Generator) -> None:
        """``generator`` is about to be drawn from."""
        if id(generator) not in self._found:
            self._found[id(generator)] = generator, generator.state()
        for _, around in self._around:
            if around is not None:
                around.note(generator)

    def __enter__(self) -> Draws:
        around = NOTING.get()
        self._around.append((NOTING.set(self), around))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        NOTING.reset(self._around.pop()[0])

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw in this block what was drawn in the other."""
        after = [(generator, generator.state()) for generator, _ in self._found.values()]
        for generator, before in list(self._found.values()):
            generator.set_state(before)
        try:
            yield
        finally:
            for generator, state in after:
                generator.set_state(state)


#: The innermost block that notes generators.
NOTING: ContextVar[Draws | None] = ContextVar("fl_tensor_draws", default=None)
