"""What the base class does for every communicator."""

from __future__ import annotations

import time

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist.group import Group


class Plain(dist.ThreadsCommunicator):
    """Only ``do_send`` and ``do_recv`` of the threads: all else is derived."""

    CONTRACT = (1, 0)
    name = "plain"
    start = dist.Communicator.start


class Trusting(Plain):
    CONTRACT = (1, 0)
    name = "trusting"
    capabilities = frozenset()  # the ranks are trusted to agree


def test_a_program_alone():
    comm = dist.local()
    x = ft.asarray([1.0, 2.0])
    assert (comm.rank, comm.world_size) == (0, 1)
    for op in ("sum", "mean", "max", "min", "prod"):
        y = comm.all_reduce(x, op)
        assert y.tolist() == [1.0, 2.0] and y is not x
    assert [y.tolist() for y in comm.all_gather(x)] == [[1.0, 2.0]]
    assert comm.split(3).world_size == 1 and comm.split(None) is None
    work = comm.broadcast(x, async_op=True)
    assert work.wait().tolist() == [1.0, 2.0] and work.done
    with pytest.raises(ValueError, match=r"\[send\] dst 1: ranks of this communicator are 0..0"):
        comm.send(x, 1)
    with pytest.raises(ValueError, match="offers no world of size 2"):
        dist.LocalCommunicator.run(2, lambda comm: None)


def test_the_derived_split_is_a_group_on_the_same_transport():
    def program(comm):
        part = comm.split(comm.rank % 2)
        inner = part.split(0)
        assert isinstance(part, Group) and isinstance(inner, Group) and inner.base is comm
        works = [c.all_reduce(ft.asarray(comm.rank), async_op=True) for c in (comm, part, inner)]
        return [work.wait().item() for work in reversed(works)]

    assert Plain.run(4, program) == [[2, 2, 6], [4, 4, 6], [2, 2, 6], [4, 4, 6]]


def test_agreement_is_a_capability_and_costs_nothing_when_not_declared():
    sent = []

    class Counting(Trusting):
        CONTRACT = (1, 0)

        def do_send(self, x, dst, tag, channel, deadline):
            sent.append(tag)
            super().do_send(x, dst, tag, channel, deadline)

    Counting.run(2, lambda comm: comm.all_reduce(ft.asarray(1.0)))
    assert len(sent) == 2
    sent.clear()
    Counting.capabilities = frozenset({"agreement"})
    Counting.run(2, lambda comm: comm.all_reduce(ft.asarray(1.0)))
    assert len(sent) == 4


def test_after_half_a_collective_a_communicator_refuses_to_go_on():
    def program(comm):
        if comm.rank == 1:
            time.sleep(0.3)
            return
        with pytest.raises(dist.DistTimeoutError, match=r"\[barrier #1\] rank 0 of 2: gave up"):
            comm.barrier(timeout=0.1)
        with pytest.raises(dist.DistError, match="out of step since DistTimeoutError"):
            comm.all_reduce(ft.zeros((1,)))

    Plain.run(2, program)


def test_all_reduce_many_packs_one_message_per_dtype():
    shapes = []

    class Watching(Plain):
        CONTRACT = (1, 0)

        def do_all_reduce(self, x, op, deadline, into=None):
            shapes.append((str(x.dtype), x.shape))
            return super().do_all_reduce(x, op, deadline)

    def program(comm):
        xs = [ft.ones((2, 3)), ft.ones((4,), "int32"), ft.ones(()), ft.ones((0, 2))]
        return [(str(y.dtype), y.shape, y.sum().item()) for y in comm.all_reduce_many(xs)]

    want = [
        ("float32", (2, 3), 12.0),
        ("int32", (4,), 8),
        ("float32", (), 2.0),
        ("float32", (0, 2), 0),
    ]
    assert Watching.run(2, program) == [want, want]
    assert sorted(shapes) == [("float32", (7,))] * 2 + [("int32", (4,))] * 2


def test_values_keep_their_own_backend_whatever_the_default_is():
    other = type(ft.current_backend())()  # a second backend, alive at the same time

    def program(comm):
        x = ft.asarray([1.0, 2.0], backend=other)
        results = [comm.all_reduce(x), comm.broadcast(x), *comm.all_gather(x)]
        return all(y.backend is other for y in results)

    assert Plain.run(2, program) == [True, True]
    assert dist.threads.run(2, program) == [True, True]


def test_work_describes_itself():
    def program(comm):
        if comm.rank == 0:
            work = comm.recv(1, async_op=True)
            assert not work.done and work.error is None and "under way" in repr(work)
            with pytest.raises(dist.DistError, match="call wait"):
                work.result  # noqa: B018
            with pytest.raises(dist.DistTimeoutError, match="under way after 0.01 s"):
                work.wait(0.01)
            comm.send(ft.asarray(0.0), 1)
            assert work.wait().item() == 7.0 and "done" in repr(work)
        else:
            comm.recv(0)
            comm.send(ft.asarray(7.0), 0)

    dist.threads.run(2, program)
    Plain.run(2, program)


def test_a_tape_ends_at_the_communicator():
    class Variable:
        tensor = ft.ones((1,))

    with pytest.raises(ValueError, match="expected a Tensor, got Variable; pass its .tensor"):
        dist.local().all_reduce(Variable())


def test_long_disagreements_are_cut_to_where_they_differ():
    def program(comm):
        xs = [ft.zeros((3, 3)) for _ in range(40)]
        xs[30] = ft.zeros((3, 3 + comm.rank))
        comm.all_reduce_many(xs)

    with pytest.raises(dist.ProgramError) as caught:
        dist.threads.run(2, program)
    message = str(caught.value.__cause__)
    assert "(3, 4)" in message
    assert max(map(len, message.splitlines())) < 250
