"""Operations that deferral does not make faster run at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning.deferral_policy import LEAST, LIGHT, REST

N = 10_000


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.plans.background = False
    backend.plans.compile_after = 2
    with ft.use(backend):
        yield backend


def new_each_time(count, size=N):
    """Computations of 20 operations, every one another."""
    for k in range(count):
        y = x = ft.full(size, 1.0)
        for i in range(20):
            y = y + x if k >> i & 1 else y * x
        yield y


def is_deferred(y):
    return getattr(y.adapter, "trace", None) is not None


def test_what_never_comes_again_runs_at_once_after_a_while(jit):
    deferred = [is_deferred(y) for y in new_each_time(100) if y[0].item() >= 0]
    found = [is_deferred(y) for y in new_each_time(1)]
    assert found == [False] and not any(deferred)
    x = ft.full(N, 2.0)
    assert not is_deferred(x) and not is_deferred(x * x)


def test_recording_is_tried_again_after_as_much_work_as_was_recorded_in_vain(jit):
    states = []
    for y in new_each_time(2 * REST * jit.policy.patience, 2 * N):
        states.append(is_deferred(y))
        y[0].item()
    first = jit.policy.patience
    assert all(states[:first])
    resting = [len(list(group)) for lazy, group in itertools.groupby(states) if not lazy]
    assert resting[0] == pytest.approx(REST * first, rel=0.2)


def test_a_rest_after_little_work_is_long_enough_not_to_be_felt(jit):
    x = ft.full(N, 1.0)
    states = []
    for _ in range(2 * LEAST // N):
        y = x * 2.0
        states.append(is_deferred(y))
        y[0].item()
    resting = [len(list(group)) for lazy, group in itertools.groupby(states) if not lazy]
    assert resting[0] == pytest.approx(LEAST / N, rel=0.01)


def test_repeated_computations_stay_deferred(jit):
    for _ in range(50):
        y = x = ft.full(N, 1.0)
        for _ in range(20):
            y = y * x
        assert is_deferred(y)
        y[0].item()


def test_two_operations_are_not_worth_a_plan_even_if_they_come_again(jit):
    x = ft.full(N, 1.0)
    for _ in range(50):
        y = x * 2.0 + x
        y[0].item()
    assert not is_deferred(x * 2.0)


def test_large_operations_are_always_deferred(jit):
    x = ft.full(2 * LIGHT, 1.0)
    for k in range(30):
        y = x
        for _ in range(k + 1):
            y = y + 1.0
        assert is_deferred(y)
        y[0].item()


def test_results_are_the_same(jit):
    found = [np.asarray(y) for y in new_each_time(40)]
    with ft.use("numpy"):
        expected = [np.asarray(y) for y in new_each_time(40)]
    np.testing.assert_allclose(found, expected)


def test_without_patience_there_is_no_rest(jit):
    jit.policy.patience = 0
    for y in new_each_time(40):
        assert is_deferred(y)
        y[0].item()
