"""Asynchronous training over servers of parameters (``fl_dist.parameter_server``)."""

from __future__ import annotations

import threading

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist.parameter_server import ParameterClient, ParameterServer, server_of

NAMES = [f"layer{i}.weight" for i in range(6)]


def tensors():
    return {name: ft.full((2,), float(i)) for i, name in enumerate(NAMES)}


def add(key, value, gradient):
    return value + gradient


def values(parameters):
    return {name: value.tolist() for name, value in parameters.items()}


def test_pushed_gradients_of_all_workers_are_applied_on_the_server_of_their_key():
    servers = (0, 2)

    def rank(comm):
        if comm.rank in servers:
            return values(ParameterServer(comm, tensors(), add, servers=servers).serve())
        client = ParameterClient(comm, tensors(), servers=servers)
        for _ in range(3):
            client.push({name: ft.full((2,), 10.0**comm.rank) for name in NAMES})
            client.step()
        client.close()

    first, _, second, _ = dist.threads.run(4, rank)
    assert set(first) == {name for name in NAMES if server_of(name, servers) == 0}
    assert set(second) == set(NAMES) - set(first)
    assert first and second
    pushed = 3 * (10.0**1 + 10.0**3)
    wanted = {name: [i + pushed, i + pushed] for i, name in enumerate(NAMES)}
    assert first | second == wanted


def test_a_pull_sees_the_own_pushes_and_asks_for_some_keys_only():
    def rank(comm):
        if comm.rank == 0:
            return ParameterServer(comm, tensors(), add).serve()
        client = ParameterClient(comm, tensors())
        client.push({NAMES[3]: ft.ones(2)})
        found = client.pull([NAMES[3], NAMES[1]])
        client.close()
        return values(found)

    assert dist.threads.run(2, rank)[1] == {NAMES[3]: [4.0, 4.0], NAMES[1]: [1.0, 1.0]}


@pytest.mark.parametrize("staleness", [0, 1, 3, None], ids=str)
def test_staleness_bounds_how_far_a_worker_may_be_ahead(staleness):
    """Rank 2 finishes no step until rank 1 has been seen waiting, or is through."""
    clocks: list[int] = []
    go = threading.Event()

    def rank(comm):
        if comm.rank == 0:
            return ParameterServer(comm, tensors(), add, staleness=staleness).serve()
        client = ParameterClient(comm, tensors())
        if comm.rank == 2:
            client.pull()
            go.wait(0.5)
            clocks.append(ahead[0])
            client.close()
            return None
        for _ in range(8):
            client.pull()
            client.step()
            ahead[0] = client.clock
        go.set()
        client.close()
        return client.clock

    ahead = [0]
    assert dist.threads.run(3, rank)[1] == 8
    assert clocks == [8 if staleness is None else staleness + 1]


def test_rows_of_a_table_travel_alone():
    table = {"table": ft.zeros((4, 2))}

    def add_rows(key, value, rows, gradient):
        value = value + 0.0
        for place, row in enumerate(rows.tolist()):
            value[row] = value[row] + gradient[place]
        return value

    def rank(comm):
        if comm.rank == 0:
            return ParameterServer(comm, table, add, update_rows=add_rows).serve()
        client = ParameterClient(comm, table)
        client.push_rows(
            "table", ft.asarray([3, 1], ft.int64), ft.asarray([[1.0, 2.0], [3.0, 4.0]])
        )
        client.close()

    found = dist.threads.run(2, rank)[0]["table"].tolist()
    assert found == [[0, 0], [3, 4], [0, 0], [1, 2]]


def test_wrong_keys_and_shapes_are_refused_before_anything_is_sent():
    def rank(comm):
        if comm.rank == 0:
            return ParameterServer(comm, tensors(), add).serve()
        client = ParameterClient(comm, tensors())
        with pytest.raises(dist.ArgumentError, match="no parameter 'layer9'"):
            client.pull(["layer9"])
        with pytest.raises(dist.ArgumentError, match=r"float32 \(3,\): expected float32 \(2,\)"):
            client.push({NAMES[0]: ft.ones(3)})
        with pytest.raises(dist.ArgumentError, match="expected int64"):
            client.push_rows(NAMES[0], ft.ones(2), ft.ones(2))
        client.close()
        client.close()
        with pytest.raises(dist.DistError, match="closed"):
            client.push({NAMES[0]: ft.ones(2)})

    dist.threads.run(2, rank)


@pytest.mark.parametrize("servers", [(), (0, 0), (2,), (-1,), (0, 1)], ids=str)
def test_servers_are_ranks_that_leave_somebody_to_work(servers):
    def rank(comm):
        with pytest.raises(dist.ArgumentError, match="servers|serve"):
            ParameterServer(comm, tensors(), add, servers=servers)
        with pytest.raises(dist.ArgumentError, match="servers|serve"):
            ParameterClient(comm, tensors(), servers=servers)

    dist.threads.run(2, rank)


@pytest.mark.parametrize("staleness", [-1, True, 1.5], ids=str)
def test_staleness_is_a_number_of_steps(staleness):
    def rank(comm):
        if comm.rank == 0:
            with pytest.raises(dist.ArgumentError, match="staleness"):
                ParameterServer(comm, tensors(), add, staleness=staleness)

    dist.threads.run(2, rank)


def test_roles_are_not_mixed_up():
    def rank(comm):
        with pytest.raises(dist.ArgumentError, match=f"rank {comm.rank}"):
            (ParameterClient(comm, tensors()) if comm.rank == 0 else None) or ParameterServer(
                comm, tensors(), add
            )

    dist.threads.run(2, rank)


def test_rows_that_the_server_does_not_take_name_the_way_out():
    def rank(comm):
        if comm.rank == 0:
            return ParameterServer(comm, tensors(), add).serve()
        client = ParameterClient(comm, tensors())
        client.push_rows(NAMES[0], ft.asarray([0], ft.int64), ft.ones(1))
        client.pull()

    with pytest.raises(dist.ProgramError, match="update_rows="):
        dist.threads.run(2, rank)
