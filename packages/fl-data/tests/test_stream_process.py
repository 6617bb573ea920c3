"""Streams that a process reads: the same samples, resumed exactly, with errors that say where."""

from __future__ import annotations

import multiprocessing
import os

import pytest

import fl_data as data
import fl_tensor as ft

COUNT = 40


def shard(number):
    return ((number * 10 + i, ft.full((3,), float(i))) for i in range(10))


def one_more(sample):
    return sample[0] + 1, sample[1]


def fails(sample):
    if sample[0] == 7:
        raise ValueError("seven")
    return sample


def dies(sample):
    if sample[0] == 3:
        os._exit(5)
    return sample


def pipeline():
    return data.ShardStream(range(4), shard, seed=2).shuffle(8, seed=1).map(one_more).batch(3)


def listed(stream):
    return [(numbers.tolist(), rows.tolist()) for numbers, rows in stream]


def test_a_pass_gives_the_same_and_leaves_no_process():
    whole = listed(pipeline())
    stream = pipeline().prefetch(3, process=True)
    assert listed(stream) == whole
    assert not multiprocessing.active_children()
    iterator = iter(stream)
    next(iterator)
    iterator.close()
    assert not multiprocessing.active_children()


def test_a_resumed_pass_goes_on_at_the_exact_sample():
    whole = listed(pipeline())
    for taken in (1, 9):
        iterator = iter(pipeline().prefetch(2, process=True))
        for _ in range(taken):
            next(iterator)
        state = iterator.state()
        iterator.close()
        resumed = iter(pipeline().prefetch(2, process=True))
        resumed.load_state(state)
        assert listed(resumed) == whole[taken:]


def test_an_error_arrives_in_its_turn_with_the_traceback_of_the_process():
    ordered = data.ShardStream(range(4), shard, shuffle=False)
    iterator = iter(ordered.map(fails).prefetch(4, process=True))
    assert [next(iterator)[0] for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven") as caught:
        next(iterator)
    assert "in fails" in str(caught.value.__cause__)
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_named():
    ordered = data.ShardStream(range(4), shard, shuffle=False)
    with pytest.raises(data.WorkerError, match=r"ended with exit status 5 while it made sample"):
        list(ordered.map(dies).prefetch(1, process=True))


def test_a_stream_with_a_lambda_is_refused():
    stream = pipeline().map(lambda sample: sample).prefetch(2, process=True)
    with pytest.raises(data.SampleTypeError, match="no lambda, inner function or open file"):
        next(iter(stream))
