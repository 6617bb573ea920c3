"""Synchronous steps that take the first gradients (``fl_dist.backup_workers``)."""

from __future__ import annotations

import threading

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist import backup_workers

START = {"w": [1.0, 2.0], "b": [0.5]}


def tensors():
    return {name: ft.asarray(values) for name, values in START.items()}


def descend(parameters, gradients):
    return {name: parameters[name] - 0.5 * gradients[name] for name in parameters}


def values(parameters):
    return {name: value.tolist() for name, value in parameters.items()}


def test_every_worker_is_required_and_the_step_is_that_of_one_process():
    """The gradient of worker r is r times the parameters, so the mean of three is twice them."""

    def rank(comm):
        if comm.rank == 0:
            return backup_workers.coordinate(comm, tensors(), descend, steps=1, required=3)
        backup_workers.work(
            comm, tensors(), lambda p, step: {n: comm.rank * x for n, x in p.items()}
        )

    outcome = dist.threads.run(4, rank)[0]
    assert values(outcome.parameters) == {"w": [0.0, 0.0], "b": [0.0]}
    assert outcome.used == {1: 1, 2: 1, 3: 1}
    assert outcome.dropped == {1: 0, 2: 0, 3: 0}
    assert len(outcome.seconds) == 1


def test_a_gradient_that_comes_late_is_dropped_and_its_worker_goes_on_with_the_newest_step():
    """Rank 2 holds its first gradient back until five steps are over."""
    over, seen = threading.Event(), []

    def rank(comm):
        if comm.rank == 0:

            def update(parameters, gradients):
                if len(steps) == 4:
                    over.set()
                steps.append(values(gradients))
                return descend(parameters, gradients)

            steps: list[dict] = []
            found = backup_workers.coordinate(comm, tensors(), update, steps=40, required=1)
            return found, steps

        def gradients(parameters, step):
            if comm.rank == 2:
                seen.append(step)
                over.wait(20)
            is_late = comm.rank == 2 and len(seen) == 1
            return {n: (1e9 if is_late else 0.25) * x for n, x in parameters.items()}

        return backup_workers.work(comm, tensors(), gradients)

    (found, steps), first, second = dist.threads.run(3, rank)
    assert found.dropped[2] >= 1
    assert all(abs(step["w"][0]) < 1e8 for step in steps), "a late gradient took part"
    assert found.used[1] + found.used[2] == 40
    assert first + second == 40 + found.dropped[1] + found.dropped[2]
    assert seen == sorted(seen) and (len(seen) < 2 or seen[1] >= 5)


@pytest.mark.parametrize("required", [0, 3, True, 1.0, None], ids=str)
def test_the_number_of_gradients_is_one_of_workers(required):
    def rank(comm):
        with pytest.raises(dist.ArgumentError, match="required"):
            backup_workers.coordinate(comm, tensors(), descend, steps=1, required=required)

    dist.threads.run(3, lambda comm: rank(comm) if comm.rank == 0 else None)


def test_a_gradient_that_is_missing_is_named():
    def rank(comm):
        if comm.rank == 0:
            return backup_workers.coordinate(comm, tensors(), descend, steps=2, required=1)
        return backup_workers.work(comm, tensors(), lambda p, step: {"w": p["w"]})

    with pytest.raises(dist.ProgramError, match="no gradient of 'b' on rank 1"):
        dist.threads.run(2, rank)


def test_a_worker_that_fails_ends_training_with_its_cause():
    def rank(comm):
        if comm.rank == 0:
            return backup_workers.coordinate(comm, tensors(), descend, steps=5, required=2)

        def gradients(parameters, step):
            if comm.rank == 2 and step == 1:
                raise ValueError("bad sample")
            return parameters

        return backup_workers.work(comm, tensors(), gradients)

    with pytest.raises(dist.ProgramError, match="rank 2 of 3 failed: ValueError: bad sample"):
        dist.threads.run(3, rank)
