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
from fl_dist.call import LIST_OPERATIONS, Call
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, MismatchError
from fl_dist.queues import Job
from fl_dist.rank_info import RankInfo
from fl_dist.testing.compare import difference, digest, handles
from fl_dist.values import fresh, pack_text, unpack_text
from fl_dist.work import Work, settled
from fl_tensor import DType, Tensor

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
        self._has_own_start = False  # blocking calls are blocking calls inside
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
        return cls.inner_class.run(world_size, _Wrapped(fn), *args, timeout=timeout)

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> CheckedCommunicator:
        if cls.inner_class is None:
            raise DistError("join with checked(SomeCommunicator).join")
        return cls(cls.inner_class.join(info, timeout=timeout))

    def do_close(self, deadline: Deadline) -> None:
        self.inner.close()

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self.inner.abort(cause)

    def buffer(self, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
        return self.inner.buffer(shape, dtype)

    def explain(self, operation: str, x: Tensor) -> str:
        return self.inner.explain(operation, x)

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        self.inner.do_send(x, dst, tag, channel, deadline)

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        return self.inner.do_recv(src, tag, channel, deadline, like)

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        return self.inner.probe(src, tag=tag)

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

    def start(self, call: Call, deadline: Deadline) -> Work:
        # Checks communicate, so they run in the order of the operations.
        if call.operation == "send":
            return settled(call.title, lambda: self._perform(call, deadline, True))
        key = (id(self), call.queue_key)
        job = Job(key, call.title, lambda: self._perform(call, deadline, True))
        return self._queues.submit(job)

    def perform(self, call: Call, deadline: Deadline) -> Any:
        return self._perform(call, deadline, False)

    # ---- the checks ------------------------------------------------------------------------------

    def _perform(self, call: Call, deadline: Deadline, async_op: bool) -> Any:
        self.check_usable(deadline)
        before = [digest(x) for x in call.values]
        if not call.number:
            result = self._forward_call(call, deadline, async_op)
            wrong = "" if (result is None) == (call.operation == "send") else f"gave {result!r}"
        else:
            calls = self.inner._on_transport(lambda: self._agreed_calls(call, deadline))
            result = self._forward_call(call, deadline, async_op)
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

    def _forward_call(self, call: Call, deadline: Deadline, async_op: bool) -> Any:
        method = getattr(self.inner, call.operation)
        operands: tuple[Any, ...] = call.values
        if call.operation in LIST_OPERATIONS:
            operands = (list(call.values),)
            if call.operation == "scatter" and not call.values:
                operands = (None,)
        timeout = max(deadline.remaining(), 1e-3) if deadline.explicit else None
        options: dict[str, Any] = {**call.parameters, "timeout": timeout}
        if "into" in call.options:  # the handle in the call is still needed
            operands, options["donate"] = (fresh(call.values[0]),), True
        if "like" in call.options:
            options["like"] = call.options["like"]
        if call.operation == "split":
            return method(*operands, **options)
        result = method(*operands, async_op=async_op, **options)
        if not async_op:
            return result
        if not isinstance(result, Work):
            raise self._violation(deadline, f"async_op=True gave {type(result).__name__}, no Work")
        value = result.wait()
        if not (result.done and result.error is None and result.wait() is value):
            raise self._violation(deadline, "Work changed after wait() returned")
        return value

    def _agreed_calls(self, call: Call, deadline: Deadline) -> list[Call]:
        """The call of every rank, with its operands. MismatchError unless they agree."""
        inner, n = self.inner, self.world_size
        derived.compare_descriptions(inner, call.describe(), deadline, AGREE)
        parameters = [call.parameters] * n
        if call.operation == "split":
            color, key = call.parameters["color"], call.parameters["key"]
            mine = ft.asarray([-1 if color is None else color, key], dtype=ft.int64)
            rows = [x.tolist() for x in derived.all_gather(inner, mine, deadline, GATHER)]
            parameters = [{"color": None if c < 0 else c, "key": k} for c, k in rows]
        if call.operation == "scatter":
            root, values = call.parameters["root"], []
            for i in range(n):
                x = call.values[i] if call.values else ft.zeros((0,))
                values.append(derived.all_gather(inner, x, deadline, GATHER)[root])
            operands = [tuple(values) if r == root else () for r in range(n)]
        else:
            columns = [derived.all_gather(inner, x, deadline, GATHER) for x in call.values]
            operands = [tuple(column[r] for column in columns) for r in range(n)]
        return [Call(call.operation, operands[r], parameters[r], call.number) for r in range(n)]

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
            for x in self.inner._on_transport(
                lambda: derived.all_gather(self.inner, mine, deadline, RESULTS)
            )
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

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(self, communicator: Communicator, *args: Any) -> Any:
        outer = CheckedCommunicator(communicator)
        result = self.fn(outer, *args)
        outer.sync()
        return result


def checked(kind: type[Communicator]) -> type[CheckedCommunicator]:
    """``kind`` with the communicators of its ``run`` wrapped: ``checked(Mine).run(4, program)``."""

    class Checked(CheckedCommunicator):
        CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
        name = f"checked {kind.name}"
        capabilities = kind.capabilities | {"agreement"}
        ranks_are = kind.ranks_are
        inner_class = kind

    return Checked


__all__ = ["CheckedCommunicator", "MismatchError", "ViolationError", "checked"]
