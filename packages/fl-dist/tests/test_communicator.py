"""What the base class does for every communicator."""

from __future__ import annotations

import contextvars
import pickle
import time

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist import derived
from fl_dist.call import Call
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


# ---- consistency ---------------------------------------------------------------------------------


def test_the_check_takes_a_round_for_every_doubling_of_the_world():
    sent = []

    class Counting(Plain):
        CONTRACT = (1, 0)

        def do_send(self, x, dst, tag, channel, deadline):
            if tag == derived.CHECK:
                sent.append((self.rank, x.size * x.dtype.itemsize))
            super().do_send(x, dst, tag, channel, deadline)

    for world_size, rounds in ((2, 1), (3, 2), (4, 2), (5, 3)):
        sent.clear()
        Counting.run(world_size, lambda comm: comm.barrier())
        assert sorted(sent) == [(r, 16) for r in range(world_size) for _ in range(rounds)]


def test_the_check_can_be_turned_off(monkeypatch):
    def program(comm):
        return comm.broadcast(ft.full((2,), float(comm.rank)), root=comm.rank).tolist()

    with pytest.raises(dist.ProgramError, match="MismatchError"):
        Plain.run(2, program)
    monkeypatch.setenv("FL_DIST_CONSISTENCY_CHECK", "0")
    assert Plain.run(2, program) == [[0.0, 0.0], [1.0, 1.0]]


def test_fingerprints_are_equal_for_equal_calls_alone():
    x, y = ft.zeros((2, 3)), ft.zeros((3, 2))
    calls = [
        Call("all_reduce", (x,), {"op": "sum"}, 1),
        Call("all_reduce", (x,), {"op": "sum"}, 2),
        Call("all_reduce", (y,), {"op": "sum"}, 1),
        Call("all_reduce", (x.astype("int32"),), {"op": "sum"}, 1),
        Call("all_reduce", (x,), {"op": "max"}, 1),
        Call("reduce", (x,), {"op": "sum", "root": 0}, 1),
        Call("all_reduce_many", (x, x), {"op": "sum"}, 1),
    ]
    words = [call.fingerprint() for call in calls]
    assert len(set(words)) == len(words) and all(0 <= word < 1 << 63 for word in words)
    again = Call("all_reduce", (ft.ones((2, 3)),), {"op": "sum"}, 1, {"into": x})
    assert again.fingerprint() == words[0]
    rows = [Call("all_gather_tensor", (ft.zeros((n, 3)),), {"counts": None}, 1) for n in (2, 5)]
    assert rows[0].fingerprint() == rows[1].fingerprint()
    assert rows[0].describe() == "all_gather_tensor #1 of float32 (n, 3), counts=None"


# ---- the record ----------------------------------------------------------------------------------


def test_a_timeout_prints_the_record_of_its_rank(caplog):
    def program(comm):
        comm.broadcast(ft.zeros((2,)))
        if comm.rank == 0:
            works = [comm.recv(1, async_op=True, timeout=0.05)]
            with pytest.raises(dist.DistTimeoutError):
                comm.barrier(timeout=0.1)
            with pytest.raises(dist.DistTimeoutError):
                works[0].wait()
        time.sleep(0.3)

    for kind in (Plain, dist.ThreadsCommunicator):
        caplog.clear()
        kind.run(2, program)
        assert len(caplog.records) == 2
        for record in caplog.records:
            assert record.name == "fl_dist" and record.levelname == "WARNING"
            text = record.getMessage()
            assert "gave up after" in text and "rank 0: the last collectives" in text
            assert "broadcast #1 of float32 (2,), root=0" in text


def test_the_record_keeps_the_last_hundred():
    comm = dist.local()
    for _ in range(130):
        comm.barrier()
    entries = comm.flight_recorder.entries()
    assert [entry.number for entry in entries] == list(range(31, 131))
    assert all(entry.started <= entry.ended for entry in entries)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        dist.PeerError("[recv] rank 0 of 2", 1, "ValueError: no"),
        dist.MismatchError("[barrier #1] rank 0 of 2", ["barrier", "broadcast"]),
        dist.DistTimeoutError("late"),
        dist.ProgramError(1, {1: ValueError("no"), 0: dist.PeerError("[recv]", 1, "no")}, 2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pickle_with_what_they_carry(error):
    error.waited = 0.5
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)
    for name in ("rank", "cause", "calls", "waited"):
        assert getattr(copy, name, None) == getattr(error, name, None)
    if isinstance(error, dist.ProgramError):
        assert str(copy.errors[0]) == str(error.errors[0])
        assert isinstance(copy.__cause__, ValueError)


# ---- works and donated tensors -------------------------------------------------------------------


def test_a_callback_runs_in_the_context_of_then():
    variable = contextvars.ContextVar("variable", default="outside")
    seen = []

    def program(comm):
        variable.set(f"rank {comm.rank}")
        work = comm.all_reduce(ft.ones((2,)), async_op=True)
        following = work.then(lambda x: seen.append(variable.get()))
        variable.set("later")
        following.wait()

    for kind in (Plain, dist.ThreadsCommunicator):
        seen.clear()
        kind.run(2, program)
        assert sorted(seen) == ["rank 0", "rank 1"]


def test_what_a_donated_tensor_is_good_for():
    x = ft.ones((2,))
    dist.local().all_reduce(x, donate=True)
    for use in (lambda: x.shape, lambda: x + 1, lambda: x.tolist(), lambda: ft.concatenate([x])):
        with pytest.raises(dist.DistError, match="was donated to all_reduce #1"):
            use()
    with pytest.raises(dist.DistError, match="donated"):
        dist.local().all_reduce(x)


def test_a_transport_that_divides_one_tensor_serves_the_lists_too():
    asked = []

    class Flat(Plain):
        CONTRACT = (1, 0)

        def do_all_gather_tensor(self, x, counts, deadline):
            asked.append(("all_gather_tensor", x.shape, counts))
            return super().do_all_gather_tensor(x, counts, deadline)

        def do_reduce_scatter_tensor(self, x, op, counts, deadline):
            asked.append(("reduce_scatter_tensor", x.shape, counts))
            return super().do_reduce_scatter_tensor(x, op, counts, deadline)

    def program(comm):
        shares = comm.reduce_scatter([ft.ones((2, 2)), ft.ones((3,))])
        return shares.shape, [x.tolist() for x in comm.all_gather(ft.full((1, 2), comm.rank + 0.0))]

    want = [[[0.0, 0.0]], [[1.0, 1.0]]]
    assert Flat.run(2, program) == [((2, 2), want), ((3,), want)]
    assert (
        sorted(asked)
        == [("all_gather_tensor", (2,), (2, 2))] * 2 + [("reduce_scatter_tensor", (7,), (4, 3))] * 2
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_explain_names_what_a_transport_cannot_take(dtype):
    class Narrow(Plain):
        CONTRACT = (1, 0)
        native_dtypes = frozenset({"float32"})
        explain = dist.Communicator.explain

    def program(comm):
        x = ft.ones((2,)).astype(ft.dtype(dtype))
        return comm.explain("all_reduce", x), comm.explain("broadcast", x)

    reduced = {
        "float16": "staged: float16 reduced as float32 on the host",
        "bfloat16": "staged: bfloat16 reduced as float32 on the host",
        "float32": "native",
        "int32": "staged: int32 reduced on the host",
    }
    assert Narrow.run(1, program) == [(reduced[dtype], "native")]
