"""The in-process reference: N ranks in N threads."""

from __future__ import annotations

import threading
import time

import pytest

import fl_dist as dist
import fl_tensor as ft


def test_results_come_in_rank_order_and_arguments_reach_every_rank():
    def program(comm, offset):
        time.sleep(0.01 * (3 - comm.rank))
        return comm.rank + offset

    assert dist.threads.run(3, program, 10) == [10, 11, 12]


def test_each_rank_runs_in_its_own_thread_and_in_a_copy_of_the_callers_context():
    calls = []

    def counting_add(inner, x, y):
        calls.append(threading.current_thread().name)
        return inner.add(x, y)

    def program(comm):
        with ft.override(multiply=lambda inner, x, y: inner.add(x, y)):
            comm.barrier()
            product = (ft.asarray(3.0) * ft.asarray(4.0)).item()
        ft.asarray(1.0) + ft.asarray(1.0)
        return product, threading.current_thread().name

    with ft.override(add=counting_add):
        results = dist.threads.run(2, program)
    assert results == [(7.0, "rank 0"), (7.0, "rank 1")]
    assert {"rank 0", "rank 1"} <= set(calls)
    assert (ft.asarray(3.0) * ft.asarray(4.0)).item() == 12.0


def test_random_streams_are_split_from_the_callers_generator_and_leave_it_alone_in_the_ranks():
    def program(comm):
        return ft.rand((4,)).tolist()

    ft.seed(3)
    expected = [g.uniform((4,)).tolist() for g in ft.default_generator().split(2)]
    position = ft.default_generator().state()
    ft.seed(3)
    assert dist.threads.run(2, program) == expected
    assert ft.default_generator().state() == position


def test_reduction_order_is_fixed_whatever_the_order_of_arrival():
    values = [1e8, 1.0, -1e8, 1.0]  # in float32: ((1e8 + 1) - 1e8) + 1 = 1

    def program(comm, delays):
        time.sleep(0.01 * delays[comm.rank])
        return comm.all_reduce(ft.asarray(values[comm.rank], dtype="float32")).item()

    for delays in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        assert dist.threads.run(4, program, delays) == [1.0] * 4


def test_worlds_within_worlds():
    def inner(comm, rank):
        return comm.all_reduce(ft.asarray(rank)).item()

    def outer(comm):
        return dist.threads.run(2, inner, comm.rank), comm.all_reduce(ft.asarray(1)).item()

    assert dist.threads.run(2, outer) == [([0, 0], 2), ([2, 2], 2)]


# ---- ranks that disagree -------------------------------------------------------------------------


def errors_of_all(world_size, program):
    """What each rank's program raises, as a list."""

    def caught(comm):
        try:
            program(comm)
        except dist.FlError as error:
            return error
        return None

    return dist.threads.run(world_size, caught)


def test_a_mismatch_names_what_each_rank_did():
    def program(comm):
        comm.barrier()
        if comm.rank == 2:
            comm.broadcast(ft.zeros((2,)), root=1)
        else:
            comm.all_reduce(ft.zeros((comm.rank + 1, 3)), "max")

    errors = errors_of_all(3, program)
    for rank, error in enumerate(errors):
        assert isinstance(error, dist.MismatchError)
        lines = str(error).splitlines()
        assert lines[0].endswith("the ranks disagree") and f"rank {rank} of 3" in lines[0]
        assert lines[1].strip() == "rank 0: all_reduce #2 of float32 (1, 3), op='max'"
        assert lines[2].strip() == "rank 1: all_reduce #2 of float32 (2, 3), op='max'"
        assert lines[3].strip() == "rank 2: broadcast #2 of float32 (2,), root=1"
        assert error.calls == tuple(line.strip().partition(": ")[2] for line in lines[1:4])
    assert len({id(error) for error in errors}) == 3


@pytest.mark.parametrize(
    "first, second",
    [
        (lambda comm: comm.recv(1), lambda comm: comm.recv(0)),
        (lambda comm: comm.recv(1, tag=1), lambda comm: (comm.send(ft.ones(1), 0), comm.barrier())),
        (lambda comm: comm.barrier(), lambda comm: comm.recv(0)),
        (lambda comm: comm.recv(1), lambda comm: comm.barrier(async_op=True).wait()),
    ],
    ids=["two receives", "wrong tag", "collective and receive", "async"],
)
def test_ranks_that_wait_for_one_another_all_get_an_error_at_once(first, second):
    started = time.monotonic()
    errors = errors_of_all(2, lambda comm: (first, second)[comm.rank](comm))
    assert time.monotonic() - started < 5
    for error in errors:
        assert isinstance(error, dist.MismatchError)
        assert "rank 0: waits in" in str(error) and "rank 1: waits in" in str(error)


def test_parts_in_opposite_order_are_a_deadlock_and_not_a_hang():
    def program(comm):
        first, second = comm.split(0), comm.split(0)
        for part in (first, second) if comm.rank == 0 else (second, first):
            part.barrier()

    started = time.monotonic()
    assert all(isinstance(error, dist.MismatchError) for error in errors_of_all(2, program))
    assert time.monotonic() - started < 5


def test_after_a_deadlock_the_ranks_can_go_on_with_messages():
    def program(comm):
        peer = 1 - comm.rank
        with pytest.raises(dist.MismatchError):
            comm.recv(peer)
        comm.barrier()
        comm.send(ft.asarray(comm.rank), peer)
        return comm.recv(peer).item()

    assert dist.threads.run(2, program) == [1, 0]


def test_slow_ranks_and_helper_threads_are_no_deadlock():
    def program(comm):
        if comm.rank == 0:
            return comm.recv(1).item()
        if comm.rank == 1:
            time.sleep(0.6)  # longer than it takes to call a deadlock
            comm.send(ft.asarray(5.0), 0)
            return comm.recv(2).item()
        answer = []

        def helper():
            time.sleep(0.6)
            comm.send(ft.asarray(6.0), 1)
            answer.append(0)

        thread = threading.Thread(target=helper)
        thread.start()
        thread.join()
        return answer[0]

    assert dist.threads.run(3, program) == [5.0, 6.0, 0]


def test_a_receive_with_a_timeout_is_no_deadlock():
    def program(comm):
        with pytest.raises(dist.DistTimeoutError, match=r"rank 1 in recv|rank 0 in recv"):
            comm.recv(1 - comm.rank, timeout=0.4)
        return comm.all_reduce(ft.asarray(1.0)).item()

    assert dist.threads.run(2, program) == [2.0, 2.0]


def test_a_message_that_comes_after_its_receiver_gave_up_goes_to_the_next_receive():
    def program(comm):
        if comm.rank == 0:
            with pytest.raises(TimeoutError):
                comm.recv(1, timeout=0.05)
            comm.barrier()
            return comm.recv(1).item()
        comm.barrier()
        comm.send(ft.asarray(4.0), 0)
        return None

    assert dist.threads.run(2, program)[0] == 4.0


def test_receives_from_anybody_leave_nothing_behind():
    def program(comm):
        if comm.rank == 1:
            for i in range(20):
                comm.recv(0, tag=1)
                comm.send(ft.asarray(float(i)), 0)
        found = []
        if comm.rank == 0:
            for _ in range(20):
                work = comm.recv(None, async_op=True)  # posted before the message comes
                comm.send(ft.asarray(0.0), 1, tag=1)
                src, x = work.wait()
                found.append((src, x.item()))
        comm.barrier()
        return found, sum(map(len, comm._world._requests.values()))

    found, left = dist.threads.run(3, program)[0]
    assert found == [(1, float(i)) for i in range(20)] and left == 0


# ---- ranks that are late or gone -----------------------------------------------------------------


def test_a_timeout_names_the_ranks_that_are_missing_and_reaches_them_too():
    def program(comm):
        if comm.rank == 0:
            comm.all_reduce(ft.zeros((2,)), timeout=0.1)
        else:
            time.sleep(0.3)
            comm.all_reduce(ft.zeros((2,)))

    first, *others = errors_of_all(3, program)
    assert isinstance(first, dist.DistTimeoutError) and isinstance(first, TimeoutError)
    assert "[all_reduce #1] rank 0 of 3" in str(first) and "ranks 1, 2" in str(first)
    for error in others:
        assert isinstance(error, dist.DistTimeoutError) and "rank 0 gave up" in str(error)


def test_the_default_timeout_of_a_world():
    def program(comm):
        if comm.rank == 0:
            comm.split(0).recv(1)
        else:
            comm.split(0)
            time.sleep(0.5)

    with pytest.raises(dist.ProgramError) as caught:
        dist.threads.run(2, program, timeout=0.1)
    assert isinstance(caught.value.__cause__, dist.DistTimeoutError)


def test_a_program_that_raises_ends_the_world_with_its_rank_and_cause():
    def program(comm):
        if comm.rank == 1:
            raise KeyError("no such sample")
        comm.barrier()

    with pytest.raises(
        dist.ProgramError, match="rank 1 of 3 failed: KeyError: 'no such sample'"
    ) as e:
        dist.threads.run(3, program)
    assert e.value.rank == 1 and isinstance(e.value.__cause__, KeyError)
    for rank in (0, 2):
        peer = e.value.errors[rank]
        assert isinstance(peer, dist.PeerError)
        assert peer.rank == 1 and peer.cause == "KeyError: 'no such sample'"


def test_waiting_for_a_rank_whose_program_ended_fails_and_its_messages_still_arrive():
    def program(comm):
        if comm.rank == 1:
            comm.send(ft.asarray(8.0), 0)
            return None
        received = comm.recv(1).item()
        with pytest.raises(dist.PeerError, match=r"rank 1 is gone \(its program ended"):
            comm.recv(1)
        return received

    assert dist.threads.run(2, program)[0] == 8.0


def test_an_error_of_async_work_that_nobody_waited_for_is_not_lost():
    def program(comm):
        comm.all_reduce(ft.zeros((comm.rank + 1,)), async_op=True)

    with pytest.raises(dist.ProgramError, match="MismatchError"):
        dist.threads.run(2, program)


@pytest.mark.parametrize("timeout", [0, -1, "1", True])
def test_timeouts_are_positive_numbers(timeout):
    with pytest.raises(ValueError, match="timeout"):
        dist.threads.run(1, lambda comm: None, timeout=timeout)


def test_what_changes_threads_is_computed_before():
    """Or it would run with whatever else that thread puts off, at a moment that nobody chose."""

    def program(communicator):
        x = ft.full(10_000, 1.0 + communicator.rank) * 2.0
        assert x.adapter.trace is not None, "it is put off"
        total = communicator.all_reduce(x)
        shared = communicator.broadcast(x * 0.5, root=1)
        if communicator.rank == 0:
            communicator.send(x * 3.0, 1)
            found = [x, total, shared]
        else:
            found = [x, total, shared, communicator.recv(0)]
        assert all(y.adapter.trace is None for y in found)
        return [y[7].item() for y in found]

    jit = pytest.importorskip("fl_jit", reason="the deferred backend is not installed")
    with ft.use(jit.JitBackend()):  # one that has not seen what other tests compute at once
        assert dist.threads.run(2, program) == [[2.0, 6.0, 2.0], [4.0, 6.0, 2.0, 6.0]]
