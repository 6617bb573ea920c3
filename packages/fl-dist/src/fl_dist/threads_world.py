"""The shared state of ``threads``: one lock, messages in transit, and waiting ranks.

A rank waits for a ``PendingWork``, which other ranks settle. On each wake-up it checks the
conditions that end the wait: a rank has failed, a needed rank has ended, all ranks wait for one
another, or time is up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from fl_dist.call import Call, compare
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError, MismatchError, PeerError, one_line
from fl_dist.queues import Job, OrderedQueues
from fl_dist.values import computed, fresh
from fl_dist.work import Work
from fl_tensor import Tensor

#: All ranks must have been seen waiting for one another, with nothing happening, this many seconds.
DEADLOCK_SECONDS = 0.25


class PendingWork(Work):
    """A Work that other ranks settle.

    awaited   the ranks (of the world) whose part is missing, asked under the world's lock
    any_does  whether one of them is enough
    withdraw  called when this rank gives up, with the reason
    """

    any_does = False

    def __init__(
        self,
        world: World,
        rank: int,
        what: str,
        deadline: Deadline,
        awaited: Callable[[], list[int]],
        withdraw: Callable[[PendingWork, str], None],
    ) -> None:
        super().__init__(what)
        self.world = world
        self.rank = rank
        self.deadline = deadline
        self.awaited = awaited
        self.withdraw = withdraw

    @property
    def over(self) -> bool:
        return self._settled.is_set()

    @property
    def done(self) -> bool:
        if not self.over:
            with self.world.changed:
                self.world.check_progress(self)
        return self.over

    def wait(self, timeout: float | None = None) -> Any:
        self.world.wait(self, timeout)
        if not self.over:
            raise DistTimeoutError(f"{self.what} is still under way after {timeout:g} s")
        return self.result

    def then(self, callback: Callable[[Any], Any]) -> Work:
        # On a thread that waits: failures of other ranks show only to those who do.
        name = getattr(callback, "__name__", "a callback")
        job = Job("then", f"{self.what}, then {name}", lambda: callback(self.wait()))
        return OrderedQueues().submit(job)


#: How a message becomes the result of a work, and that work.
Request: TypeAlias = tuple[Callable[[Tensor], Any], PendingWork]


class CollectiveCall:
    """One collective: the ranks' calls as they arrive, and a Posted for each."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = ranks
        self.calls: dict[int, Call] = {}
        self.works: dict[int, PendingWork] = {}
        self.given_up: str | None = None

    def missing(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.calls]


class World:
    """The state of one ``run``. Ranks here are those of the world, also for parts of it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition(threading.RLock())
        self._mail: dict[Hashable, deque[Tensor]] = {}
        self._requests: dict[Hashable, deque[Request]] = {}
        self._meetings: dict[Hashable, CollectiveCall] = {}
        self._channels = 0
        self._threads: dict[int, int] = {}
        self._blocked: dict[int, PendingWork] = {}
        self._helpers = False  # a thread that is no rank's own has sent or waited here
        self._quiet: tuple[int, float] | None = None  # number of events, since when
        self._events = 0
        self._ended: set[int] = set()
        self._failure: tuple[int, str] | None = None

    # ---- the life of ranks

    def enter(self, rank: int) -> None:
        self._threads[rank] = threading.get_ident()

    def end(self, rank: int) -> None:
        """The program of ``rank`` returned."""
        with self.changed:
            self._threads.pop(rank, None)  # the system may give its number to another thread
            self._ended.add(rank)
            self.changed.notify_all()

    def fail(self, rank: int, cause: str) -> None:
        """``rank`` leaves because of a failure. What fails because of that changes nothing more."""
        with self.changed:
            self._failure = self._failure or (rank, cause)
            self.changed.notify_all()

    def new_channel(self) -> int:
        with self.changed:
            self._channels += 1
            return self._channels

    # ---- messages

    def put(self, address: Hashable, x: Tensor) -> None:
        x = fresh(x)  # the sender may rebind its own handle the next moment
        with self.changed:
            self._poll()
            requests = self._requests.get(address)
            if requests:
                deliver, work = requests[0]
                work.withdraw(work, "it has come")
                work.settle_with(partial(deliver, x))
                self.changed.notify_all()
                return
            self._mail.setdefault(address, deque()).append(x)

    def has_mail(self, address: Hashable, src: int) -> bool:
        """Whether a message of ``src`` waits at ``address``. PeerError when none will come."""
        with self.changed:
            if self._mail.get(address):
                return True
            gone = self._gone([src])
            if gone is not None:
                raise PeerError("[probe]", *gone)
            return False

    def take(
        self,
        addresses: Mapping[Hashable, int],
        rank: int,
        what: str,
        deadline: Deadline,
        deliver: Callable[[int, Tensor], Any],
    ) -> PendingWork:
        """The next message at one of ``addresses`` (each with the rank that sends there)."""
        requests: dict[Hashable, Request] = {}

        def withdraw(work: PendingWork, reason: str) -> None:
            for address, request in requests.items():
                if request in self._requests[address]:
                    self._requests[address].remove(request)

        sources = list(addresses.values())
        work = PendingWork(self, rank, what, deadline, lambda: sources, withdraw)
        work.any_does = len(sources) > 1
        with self.changed:
            for address, src in addresses.items():
                mail = self._mail.get(address)
                if mail:
                    work.settle_with(partial(deliver, src, mail.popleft()))
                    return work
            for address, src in addresses.items():
                requests[address] = (partial(deliver, src), work)
                self._requests.setdefault(address, deque()).append(requests[address])
        return work

    # ---- collectives

    def meet(
        self,
        key: Hashable,
        ranks: Sequence[int],
        rank: int,
        call: Call,
        deadline: Deadline,
        results: Callable[[list[Call]], list[Any]],
    ) -> PendingWork:
        """Bring ``call`` to the meeting ``key`` of ``ranks``. The last to come computes for all."""
        with self.changed:
            self._poll()
            meeting = self._meetings.setdefault(key, CollectiveCall(ranks))

            def withdraw(work: PendingWork, reason: str) -> None:
                meeting.given_up = meeting.given_up or reason
                for other in meeting.works.values():
                    if other is not work and not other.over:
                        other.fail(DistTimeoutError(f"{other.deadline.where}: {reason}"))

            work = PendingWork(self, rank, call.describe(), deadline, meeting.missing, withdraw)
            meeting.calls[rank] = call
            meeting.works[rank] = work
            complete = not meeting.missing()
            if complete:
                del self._meetings[key]
            if meeting.given_up is not None:
                work.fail(DistTimeoutError(f"{deadline.where}: {meeting.given_up}"))
                return work
        if complete:
            self._settle(meeting, rank, results)
        return work

    def _settle(
        self, meeting: CollectiveCall, here: int, results: Callable[[list[Call]], list[Any]]
    ) -> None:
        works = [meeting.works[rank] for rank in meeting.ranks]
        texts = [work.what for work in works]
        outcome: list[Any] = []
        cause: Exception | None = None
        try:
            compare("", texts)
            outcome = [computed(r) for r in results([meeting.calls[i] for i in meeting.ranks])]
        except Exception as error:
            cause = error
        with self.changed:
            for i, work in enumerate(works):
                if cause is None:
                    work.succeed(outcome[i])
                elif isinstance(cause, MismatchError):
                    work.fail(MismatchError(work.deadline.where, texts))
                elif work.rank == here:
                    work.fail(cause)
                else:
                    why = f"rank {here} could not compute it: {one_line(cause)}"
                    work.fail(DistError(f"{work.deadline.where}: {why}"))
            self.changed.notify_all()

    # ---- waiting

    def wait(self, work: PendingWork, timeout: float | None) -> None:
        """Return when ``work`` is settled, or after ``timeout`` seconds."""
        limit = None if timeout is None else time.monotonic() + timeout
        # A rank that waits with a limit goes on by itself, so it is not stuck.
        blocked = limit is None and not work.deadline.explicit
        with self.changed:
            blocked = self._poll() and blocked
            if blocked:
                self._blocked[work.rank] = work
            try:
                self._sleep(work, limit)
            finally:
                if blocked:
                    del self._blocked[work.rank]

    def _sleep(self, work: PendingWork, limit: float | None) -> None:
        while True:
            self.check_progress(work)
            pause = work.deadline.remaining() if work.awaited() else None
            if pause is not None and self._quiet is not None:
                pause = min(pause, DEADLOCK_SECONDS)
            if limit is not None:
                left = max(0.0, limit - time.monotonic())
                pause = left if pause is None else min(pause, left)
            if work.over or (limit is not None and time.monotonic() >= limit):
                return
            self.changed.wait(pause)

    def _poll(self) -> bool:
        """Count an event; whether it comes from a rank's own thread.

        Helper threads of a rank may send what others wait for while the rank itself waits. Once one
        was seen, nothing can be concluded from all ranks waiting.
        """
        self._events += 1
        own = threading.get_ident() in self._threads.values()
        self._helpers = self._helpers or not own
        return own

    def check_progress(self, work: PendingWork) -> None:
        """Fail ``work`` (under the lock) if waiting for it makes no sense any more."""
        awaited = work.awaited()
        if work.over or not awaited:  # when all have come, the last one is computing
            return
        where = work.deadline.where
        gone = self._gone(awaited, work.any_does)
        if gone is not None:
            work.fail(PeerError(where, *gone))
        elif self._all_blocked():
            texts = [
                f"waits in {self._blocked[rank].what}" if rank in self._blocked else "ended"
                for rank in range(self.size)
            ]
            stuck = list(self._blocked.values())
            errors = {other: MismatchError(other.deadline.where, texts) for other in stuck}
            self._abort(errors, "all ranks waited for one another")
        elif not work.deadline.remaining():
            names = ", ".join(map(str, awaited))
            error = work.deadline.error(f"rank{'s' * (len(awaited) > 1)} {names} in {work.what}")
            reason = f"rank {work.rank} gave up after {work.deadline.seconds:g} s"
            self._abort({work: error}, reason)

    def _gone(self, awaited: Sequence[int], any_does: bool = False) -> tuple[int, str] | None:
        """Who is gone, and why, so that waiting for ``awaited`` makes no sense."""
        if self._failure is not None:
            return self._failure
        ended = [rank for rank in awaited if rank in self._ended]
        if ended and (not any_does or len(ended) == len(awaited)):
            return ended[0], "its program ended without taking part"
        return None

    def _abort(self, errors: Mapping[PendingWork, Exception], reason: str) -> None:
        for work, error in errors.items():
            work.fail(error)
        for work in errors:
            work.withdraw(work, reason)
        self.changed.notify_all()

    def _all_blocked(self) -> bool:
        waiting = self._blocked.keys() | self._ended
        settled = any(work.over for work in self._blocked.values())
        if self._helpers or settled or len(waiting) < self.size:
            self._quiet = None
            return False
        now = time.monotonic()
        if self._quiet is None or self._quiet[0] != self._events:
            self._quiet = (self._events, now)
            self.changed.notify_all()  # so that nobody sleeps past the moment
        return now - self._quiet[1] >= DEADLOCK_SECONDS
