"""How a user's call becomes a call of a hook: order, threads, the check before, the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from fl_dist import derived, messages
from fl_dist.call import LIST_OPERATIONS, Call
from fl_dist.deadline import Deadline
from fl_dist.donation import donate
from fl_dist.errors import DistError, DistTimeoutError, PeerError, one_line
from fl_dist.flight_recorder import Entry, FlightRecorder
from fl_dist.messages import KeptMessages
from fl_dist.queues import Job, OrderedQueues, ProgressThread
from fl_dist.transport import Transport
from fl_dist.values import computed
from fl_dist.work import Work, settled
from fl_tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


class Executor(Transport):
    """The part of ``Communicator`` between the methods of users and the hooks of authors."""

    capabilities: ClassVar[frozenset[str]] = frozenset()
    #: Seconds that an operation waits when the call does not say.
    timeout: float = 600.0
    #: Whether ranks compare each collective first, where "agreement" is declared.
    check_consistency: bool = True

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self.__position = f"rank {rank} of {world_size}"
        if os.environ.get("FL_DIST_CONSISTENCY_CHECK") == "0":
            self.check_consistency = False
        self.flight_recorder = FlightRecorder(rank)
        self._count = 0
        self._queues: OrderedQueues | ProgressThread = (
            ProgressThread() if self.thread_rule == "one" else OrderedQueues()
        )
        self._owns_queues = True
        self._has_own_start = type(self).start is not Executor.start
        self.__under_way: list[Work] = []
        self._broken: str | None = None
        self.__closed = False
        self._channels = 1  # numbers given to the groups that `split` made
        self._kept = KeptMessages()

    # ---- the end ---------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Leave the world: every rank calls it when it needs the others no longer.

        Waits for what is under way on this rank and raises its first error. Closing twice does
        nothing. ``with communicator:`` closes at its end, and aborts after an exception.
        """
        if self.__closed:
            return
        deadline = Deadline(timeout, f"[close] {self.__position}", default=self.timeout)
        try:
            self.sync(timeout)
        finally:
            self.__closed = True
            self._end("it was closed", lambda: self.do_close(deadline))

    def abort(self, cause: str) -> None:
        """Leave because of a failure: the others get ``PeerError(rank, cause)`` promptly.

        Not collective, never waits, may be called from any thread and more than once. A transport
        overrides it to tell the others, and calls this one; else they run into their timeouts.
        """
        self.__closed = True
        self._end(f"it was aborted ({cause})", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(one_line(error))

    def sync(self, timeout: float | None = None) -> None:
        """Wait for every asynchronous operation of this rank; raises the first error among them.

        An error that nobody waited for shows here at the latest.
        """
        works, self.__under_way = self.__under_way, []
        errors: list[Exception] = []
        for work in works:
            try:
                if not work.settled:
                    work.wait(timeout)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    # ---- how a call is done, for transports that are asynchronous by nature ----------------------

    def start(self, call: Call, deadline: Deadline) -> Work:
        """Begin an asynchronous ``call``.

        The default does ``perform`` on a helper thread. A transport that is asynchronous by nature
        overrides this and returns its own kind of Work; then blocking calls wait for that, too.
        """
        if call.operation == "send" and self.thread_rule == "many":  # it never waits
            return settled(call.title, lambda: self.perform(call, deadline))
        return self._queues.submit(self._job(call, deadline))

    def perform(self, call: Call, deadline: Deadline) -> Any:
        """Do ``call`` and wait for it: compare it with the other ranks', ``do_<operation>``."""
        self.check_usable(deadline)
        try:
            if call.number:
                self.check_consistent(call, deadline)
            result = self._do(call, deadline)
            return computed(result) if self.world_size > 1 else result
        except (DistTimeoutError, PeerError) as error:
            if call.number:  # half of a collective is done: the ranks no longer march in step
                self._broken = f"it is out of step since {one_line(error)}"
            raise

    def check_consistent(self, call: Call, deadline: Deadline) -> None:
        """Raise MismatchError on every rank unless all make the same ``call``."""
        if (
            self.world_size > 1
            and self.check_consistency
            and "agreement" in self.capabilities
            and not self.do_check_consistent(call.fingerprint(), deadline)
        ):
            derived.compare_descriptions(self, call.describe(), deadline)

    def check_usable(self, deadline: Deadline) -> None:
        """Raise DistError when this communicator is closed, aborted or out of step."""
        if self._broken is not None:
            raise DistError(f"{deadline.where}: this communicator cannot go on: {self._broken}")

    def progress(self) -> None:
        """With ``thread_rule = "one"``: call it in every loop in which a hook waits. Messages that
        were asked for meanwhile are served, so ``do_send``, ``do_recv`` and ``do_probe`` are
        called from in there."""
        self._queues.progress()

    # ---- not part of the contract ----------------------------------------------------------------

    def _do(self, call: Call, deadline: Deadline) -> Any:
        operation, parameters = call.operation, call.parameters
        if operation == "send":
            address = parameters["dst"], parameters["tag"]
            return self.do_send(call.values[0], *address, self.channel, deadline)
        if operation == "recv":
            address = parameters["src"], parameters["tag"]
            return messages.receive(self, *address, deadline, **call.options)
        if operation == "all_gather_tensor":
            counts = parameters["counts"]
            if counts is None:
                counts = derived.row_counts(self, call.values[0], deadline)
            return self.do_all_gather_tensor(call.values[0], counts, deadline)
        operands: tuple[Any, ...] = (call.values,) if operation in LIST_OPERATIONS else call.values
        do = getattr(self, f"do_{operation}")
        return do(*operands, *parameters.values(), deadline, **call.options)

    def _collective(
        self,
        operation: str,
        values: tuple[Tensor, ...],
        async_op: bool,
        timeout: float | None,
        parameters: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        call = Call(operation, values, parameters or {}, self._count + 1, options or {})
        return self._issue(call, async_op, timeout)

    def _issue(self, call: Call, async_op: bool, timeout: float | None) -> Any:
        deadline = Deadline(timeout, f"[{call.title}] {self.__position}", default=self.timeout)
        self._count = call.number or self._count
        if "into" in call.options:
            given = call.options["into"] = donate(call.values[0], call.title)
            call.values = (given,)
        if self.world_size > 1:
            computed(call.values)
        entry = self.flight_recorder.begin(call)
        if not async_op:
            try:
                if self._has_own_start:
                    return self.start(call, deadline).wait()
                if self._queues.may_skip:
                    return self.perform(call, deadline)
                return self._queues.call(self._job(call, deadline))
            except DistTimeoutError as error:
                self.flight_recorder.report(error)
                raise
            finally:
                if entry is not None:
                    entry.end()
        work = self.start(call, deadline)
        work.on_end(lambda: self._note_end(work, entry))
        self.__under_way = [w for w in self.__under_way if not w.settled]
        self.__under_way.append(work)
        return work

    def _note_end(self, work: Work, entry: Entry | None) -> None:
        if entry is not None:
            entry.end()
        if isinstance(work.failure, DistTimeoutError):
            self.flight_recorder.report(work.failure)

    def _on_transport(self, body: Callable[[], Any]) -> Any:
        """``body()`` where hooks may be called, for code that calls them itself."""
        return self._queues.call(Job("transport", "transport", body))

    def _job(self, call: Call, deadline: Deadline) -> Job:
        """``call`` for a queue: its key, its name, what to do, and whether that would block."""
        ready = None if call.number else lambda: self._would_return(call, deadline)
        key = (id(self), call.queue_key)  # the groups of a transport may share a queue
        return Job(key, call.title, lambda: self.perform(call, deadline), ready)

    def _would_return(self, call: Call, deadline: Deadline) -> bool:
        """Whether a send (always) or a receive would return at once."""
        if call.operation == "send" or not deadline.remaining():
            return True
        return messages.has_come(self, call.parameters["src"], call.parameters["tag"])

    def _end(self, cause: str, do_close: Callable[[], None] | None) -> None:
        self._broken = self._broken or cause
        if do_close is not None:
            self._queues.call(Job("close", "close", do_close))
        if self._owns_queues:
            self._queues.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__position}>"
