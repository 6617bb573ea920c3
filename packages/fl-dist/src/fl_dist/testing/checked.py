"""``CheckedCommunicator``: a wrapper that asserts the contract from both sides in a real run.

Of the callers it demands that all ranks make the same call, whether or not the communicator inside
checks it, and that one thread of a rank calls at a time. Of the communicator it demands the result
that the operation means: values, dtype, shape, backend and device, the same bits on every rank,
operands untouched, handles that nobody else holds. Every operand travels to every rank for that:
correct, not fast. Its own messages use ``do_send`` and ``do_recv`` with tags of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import fl_tensor as ft
from fl_dist import derived, semantics
from fl_dist.arguments import TAG_LIMIT
from fl_dist.call import Call
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, MismatchError
from fl_dist.testing.compare import difference, digest, handles
from fl_dist.values import pack_text, unpack_text
from fl_dist.work import Work
from fl_tensor import Tensor

AGREE, GATHER, RESULTS = range(TAG_LIMIT + 64, TAG_LIMIT + 67)


class ViolationError(DistError, AssertionError):
    """A communicator broke its contract."""


class CheckedCommunicator(Communicator):
    """``CheckedCommunicator(inner)`` is used like ``inner``; see ``checked`` to launch with it."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "checked"
    #: What ``run`` launches; set by ``checked``.
    inner_class: ClassVar[type[Communicator] | None] = None

    def __init__(self, inner: Communicator) -> None:
        super().__init__(inner.rank, inner.world_size)
        self.inner = inner
        self.timeout = inner.timeout
        self.capabilities = inner.capabilities | {"agreement"}  # type: ignore[misc]
        self._caller = threading.Lock()

    @classmethod
    def offers(cls, world_size: int) -> bool:
        return cls.inner_class is not None and cls.inner_class.offers(world_size)

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        if cls.inner_class is None:
            raise DistError("launch with checked(SomeCommunicator).run")
        return cls.inner_class.run(world_size, _Wrapped(cls, fn), *args, timeout=timeout)

    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
        self.inner.do_send(x, dst, tag, deadline)

    def do_recv(self, src: int, tag: int, deadline: Deadline) -> Tensor:
        return self.inner.do_recv(src, tag, deadline)

    def _issue(self, call: Call, async_op: bool, timeout: float | None) -> Any:
        if not self._caller.acquire(blocking=False):
            raise DistError(
                f"[{call.title}] rank {self.rank} of {self.world_size}: another thread of this "
                "rank is in a call of this communicator; use async_op=True, or give it a split"
            )
        try:
            return super()._issue(call, async_op, timeout)
        finally:
            self._caller.release()

    def start(self, call: Call, deadline: Deadline, inline: bool) -> Work:
        # Checks communicate, so they run in the order of the operations: queued if asynchronous.
        inline = inline or call.operation == "send"
        return self._work_queues.submit(
            call.queue_key, call.title, lambda: self._perform(call, deadline, inline), inline
        )

    # ---- the checks ------------------------------------------------------------------------------

    def _perform(self, call: Call, deadline: Deadline, inline: bool) -> Any:
        before = [digest(x) for x in call.values]
        if not call.number:
            result = self._forward_call(call, deadline, inline)
            wrong = "" if (result is None) == (call.operation == "send") else f"gave {result!r}"
        else:
            derived.agree(self.inner, call.describe(), deadline, AGREE)
            calls = self._gather_calls(call, deadline)
            result = self._forward_call(call, deadline, inline)
            if call.operation == "split":
                return self._check_part(result, calls, deadline)
            wrong = self._compare_with_semantics(call, calls, result)
        if before != [digest(x) for x in call.values]:
            wrong = "an operand was changed"
        if call.number:
            self._compare_ranks(call, result, wrong, deadline)
        elif wrong:
            raise self._violation(deadline, wrong)
        return result

    def _forward_call(self, call: Call, deadline: Deadline, inline: bool) -> Any:
        method = getattr(self.inner, call.operation)
        operands: tuple[Any, ...] = call.values
        if call.operation in ("all_reduce_many", "reduce_scatter", "all_to_all"):
            operands = (list(call.values),)
        timeout = max(deadline.remaining(), 1e-3) if deadline.explicit else None
        options: dict[str, Any] = {**call.parameters, "timeout": timeout}
        if call.operation == "split":
            return method(*operands, **options)
        result = method(*operands, async_op=not inline, **options)
        if inline:
            return result
        if not isinstance(result, Work):
            raise self._violation(deadline, f"async_op=True gave {type(result).__name__}, no Work")
        value = result.wait()
        if not (result.done and result.error is None and result.wait() is value):
            raise self._violation(deadline, "Work changed after wait() returned")
        return value

    def _gather_calls(self, call: Call, deadline: Deadline) -> list[Call]:
        columns = [derived.all_gather(self.inner, x, deadline, GATHER) for x in call.values]
        parameters = [call.parameters] * self.world_size
        if call.operation == "split":
            color, key = call.parameters["color"], call.parameters["key"]
            mine = ft.asarray([-1 if color is None else color, key], dtype=ft.int64)
            rows = [x.tolist() for x in derived.all_gather(self.inner, mine, deadline, GATHER)]
            parameters = [{"color": None if c < 0 else c, "key": k} for c, k in rows]
        return [
            Call(call.operation, tuple(column[r] for column in columns), parameters[r], call.number)
            for r in range(self.world_size)
        ]

    def _compare_with_semantics(self, call: Call, calls: Sequence[Call], result: Any) -> str:
        want = semantics.results(calls)[self.rank]
        exact = "ordered" in self.inner.capabilities or "op" not in call.parameters
        wrong = difference(result, want, [x for c in calls for x in c.values], exact)
        mine = handles(result)
        if not wrong and (len(set(mine)) < len(mine) or set(mine) & set(handles(call.values))):
            wrong = "the result shares a handle with an operand or with itself"
        return wrong

    def _check_part(self, part: Any, calls: list[Call], deadline: Deadline) -> Any:
        members = semantics.members(calls)[self.rank]
        want = None if members is None else (members.index(self.rank), len(members))
        got = None if part is None else (part.rank, part.world_size)
        if got != want:
            raise self._violation(deadline, f"split gave rank and size {got}, should be {want}")
        return None if part is None else type(self)(part)

    def _compare_ranks(self, call: Call, result: Any, wrong: str, deadline: Deadline) -> None:
        """Hear from every rank: what it found wrong, the bits of its result and who holds them."""
        same_bits = call.operation in ("all_reduce", "all_reduce_many")
        values = result if isinstance(result, list) else [result]
        bits = " ".join(digest(x) for x in values if isinstance(x, Tensor)) if same_bits else ""
        held = " ".join(f"{os.getpid()}:{handle}" for handle in handles(result))
        mine = pack_text("\0".join([wrong, bits, held]))
        rows = [
            unpack_text(x).split("\0")
            for x in derived.all_gather(self.inner, mine, deadline, RESULTS)
        ]
        found = [f"rank {r}: {row[0]}" for r, row in enumerate(rows) if row[0]]
        if len({row[1] for row in rows}) > 1:
            found.append("the ranks got different bits")
        everybodys = [handle for row in rows for handle in row[2].split()]
        if len(set(everybodys)) < len(everybodys):
            found.append("two ranks hold one handle: what one does to its result, the other sees")
        if found:
            raise self._violation(deadline, "; ".join(found))

    def _violation(self, deadline: Deadline, what: str) -> ViolationError:
        return ViolationError(
            f"{deadline.where}: communicator {self.inner.name!r} broke its contract: {what}"
        )


class _Wrapped:
    """``fn`` on a checked communicator; a class, so that pickle can carry it."""

    def __init__(self, kind: type[CheckedCommunicator], fn: Callable[..., Any]) -> None:
        self.kind = kind
        self.fn = fn

    def __call__(self, communicator: Communicator, *args: Any) -> Any:
        outer = self.kind(communicator)
        result = self.fn(outer, *args)
        outer.sync()
        return result


def checked(kind: type[Communicator]) -> type[CheckedCommunicator]:
    """``kind`` with the communicators of its ``run`` wrapped: ``checked(Mine).run(4, program)``."""

    class Checked(CheckedCommunicator):
        CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
        name = f"checked {kind.name}"
        capabilities = kind.capabilities | {"agreement"}
        inner_class = kind

    return Checked


__all__ = ["CheckedCommunicator", "MismatchError", "ViolationError", "checked"]
