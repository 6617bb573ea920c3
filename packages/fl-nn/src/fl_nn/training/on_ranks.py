"""Training programs on one rank or many: those of a launcher, or ranks that are started here."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import fl_dist as dist
from fl_nn.errors import TrainingError
from fl_nn.training.signals import Interrupted, stop_signals

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_ranks(
    train: Callable[[dist.Communicator, Any], Any],
    arguments: Any,
    ranks: int | None = None,
    communicator: str | None = None,
) -> Any:
    """What rank 0 returns of `train(communicator, arguments)`, on the ranks of the launcher that
    started this process (`fl-dist run`, `torchrun`, `mpiexec`), or else on `ranks` new ones.

    A first SIGINT, SIGTERM or SIGHUP asks all ranks to stop after their step: `Interrupted`.
    """
    launched = dist.environment().world_size
    if launched > 1:
        if ranks not in (None, launched):
            raise TrainingError(
                f"[train] --ranks {ranks}, but this process is one of {launched} that a launcher "
                "started: leave --ranks out"
            )
        with dist.init(communicator) as world:
            return train(world, arguments)
    if ranks in (None, 1):
        return train(dist.local(), arguments)
    assert ranks is not None
    kind = dist.load(communicator or "processes")
    if kind.ranks_are == "threads":
        with stop_signals():  # signals come to this thread alone
            return _call(kind, ranks, train, arguments)
    with _told_to_children() as received:
        try:
            return _call(kind, ranks, train, arguments)
        except Interrupted as stopped:
            number = received[0] if received else stopped.signal
            raise Interrupted(number, stopped.step, stopped.checkpoint) from None


def _call(
    kind: type[dist.Communicator], ranks: int, train: Callable[..., Any], arguments: Any
) -> Any:
    try:
        return kind.run(ranks, train, arguments)[0]
    except dist.ProgramError as error:
        for cause in (error.__cause__, *error.errors.values()):
            if isinstance(cause, Interrupted):
                raise cause from None
        raise


@contextmanager
def _told_to_children() -> Iterator[list[int]]:
    """Inside the block, a first SIGINT, SIGTERM or SIGHUP asks the ranks to stop after their step.
    A second SIGINT or SIGTERM does at once what it did before. Gives the signals that came."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def tell(number: int, frame: object) -> None:
        children = multiprocessing.active_children()
        if received and number == signal.SIGHUP:
            return
        if received or not children:
            restore()
            signal.raise_signal(number)
        received.append(number)
        for child in children:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGTERM)

    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, tell)
        yield received
    finally:
        restore()
