"""The recording mode and active recorders, as context variables for threads and tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_autograd.node import Node
    from fl_autograd.variable import Variable

F = TypeVar("F", bound=Callable[..., Any])


class RecorderStack:
    """The recorders that are active, innermost first, and the tape that one of them chose."""

    __slots__ = ("below", "recorder", "tape_for")

    tape_for: Callable[[Any], Any] | None

    def __init__(self, recorder: Recorder, below: RecorderStack | None) -> None:
        self.recorder = recorder
        self.below = below
        self.tape_for = recorder.tape_for or (below.tape_for if below is not None else None)

    def recorded(self, result: Variable) -> None:
        """Show every recorder the node of ``result``, and give it what they return."""
        node, entry = result._node, self
        while node is not None:
            node = entry.recorder.recorded(node, result)
            if entry.below is None:
                break
            entry = entry.below
        result._node = node


_recorders: ContextVar[RecorderStack | None] = ContextVar("fl_autograd_recorders", default=None)
_mode: ContextVar[bool | RecorderStack] = ContextVar("fl_autograd_mode", default=True)

#: False: nothing is recorded; True: nodes and nothing else; else the recorders to tell.
recording: Callable[[], bool | RecorderStack] = _mode.get


#: What is told, while a body of control flow is traced, that gradients are cut off in it.
BODY: ContextVar[Callable[[str], object] | None] = ContextVar("fl_autograd_body", default=None)


def note_cut(what: str) -> None:
    """``what`` cuts gradients off: no graph keeps that (``bodies``)."""
    told = BODY.get()
    if told is not None and _mode.get() is not False:
        told(what)


@contextmanager
def untold() -> Iterator[None]:
    """What is cut off in the block is no part of a body that is traced around it."""
    token = BODY.set(None)
    try:
        yield
    finally:
        BODY.reset(token)


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this context."""
    return _mode.get() is not False


class _Mode:
    """A context manager that can be entered again while it is active, and a decorator."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool | RecorderStack]] = []

    def _value(self) -> bool | RecorderStack:
        raise NotImplementedError

    def __enter__(self) -> None:
        self._tokens.append(_mode.set(self._value()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _mode.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        value = self._value

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            token = _mode.set(value())
            try:
                return function(*args, **kwargs)
            finally:
                _mode.reset(token)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """``with no_grad():`` or ``@no_grad()``: nothing is recorded, results need no gradient."""

    def _value(self) -> bool | RecorderStack:
        note_cut("no_grad()")
        return False


class enable_grad(_Mode):
    """Records again inside ``no_grad``."""

    def _value(self) -> bool | RecorderStack:
        return _recorders.get() or True


class Recorder:
    """Sees every operation that is recorded in a block. Derive from it and write ``recorded``:

        class Count(extend.Recorder):
            nodes = 0

            def recorded(self, node, result):
                self.nodes += 1
                return node

        with Count() as count:
            ...

    Blocks nest; the innermost is told first. Nothing is seen under ``no_grad``. A recorder may be
    entered again while it is active, in other threads as well.
    """

    #: A function ``tape_for(backend)``: the namespace that computes for variables in the block, in
    #: place of ``fl_autograd.Tape``. None leaves the choice to the blocks around this one.
    tape_for: Callable[[Any], Any] | None = None

    def recorded(self, node: Node, result: Variable) -> Node | None:
        """The node that ``result`` shall have: ``node``, another one, or None for a result that
        needs no gradient after all. ``result`` has its value already."""
        return node

    def __enter__(self) -> Self:
        entry = RecorderStack(self, _recorders.get())
        _recorders.set(entry)
        if _mode.get() is not False:
            _mode.set(entry)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entry = _recorders.get()
        if entry is None or entry.recorder is not self:
            from fl_autograd.errors import GradError

            raise GradError(
                f"[{type(self).__name__}] its block ends in a context where it is not the "
                f"innermost: leave blocks in the reverse order of entering"
            )
        _recorders.set(entry.below)
        if _mode.get() is entry:
            _mode.set(entry.below or True)


def forget_recorders() -> None:
    """Tell no recorder any more, in this context and those copied from it."""
    _recorders.set(None)
    if is_grad_enabled():
        _mode.set(True)


class isolated_recording:
    """``with alone(recorder, tape_for):`` records, and tells ``recorder`` and nobody else."""

    def __init__(self, recorder: Recorder, tape_for: Callable[[Any], Any] | None) -> None:
        self._entry = RecorderStack(recorder, None)
        self._entry.tape_for = tape_for

    def __enter__(self) -> None:
        self._tokens = _recorders.set(self._entry), _mode.set(self._entry)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorders, mode = self._tokens
        _mode.reset(mode)
        _recorders.reset(recorders)
