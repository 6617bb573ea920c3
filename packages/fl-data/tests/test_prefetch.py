"""Prefetching: order, bounds, errors, context, and threads that go away."""

from __future__ import annotations

import contextvars
import gc
import threading
import time
import traceback

import pytest

import fl_data as data
import fl_tensor as ft


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("fl-data-prefetch")]


def wait_until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    wait_until(lambda: not workers())


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("depth", [1, 3, 50])
def test_the_order_is_that_of_the_dataset(numbers, labels, threads, depth):
    ds = numbers(20, on_get=lambda i: time.sleep(0.002 * (i % 3)))
    assert labels(data.Prefetch(ds, threads=threads, depth=depth)) == list(range(20))
    assert sorted(ds.requests) == list(range(20))


def test_samples_are_made_at_the_same_time(numbers, labels):
    """Two samples that wait for each other can only be made by two threads."""
    meeting = threading.Barrier(2, timeout=5)
    ds = numbers(6, on_get=lambda _: meeting.wait())
    assert labels(data.Prefetch(ds, threads=2, depth=2)) == list(range(6))


def test_at_most_depth_samples_are_ahead(numbers):
    ds = numbers(50)
    iterator = iter(data.Prefetch(ds, threads=3, depth=4))
    for taken in range(1, 5):
        next(iterator)
        wait_until(lambda: len(ds.requests) >= taken + 4)  # noqa: B023
        time.sleep(0.02)
        assert len(ds.requests) == taken + 4
    iterator.close()


def test_nothing_runs_before_the_first_sample_is_asked_for(numbers):
    iterator = iter(data.Prefetch(numbers(5)))
    assert not workers()
    iterator.close()


def break_at(bad):
    def check(index):
        if index == bad:
            raise ValueError(f"file {index} is broken")

    return check


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_arrives_in_its_turn_with_index_and_traceback(numbers, labels, threads):
    iterator = iter(data.Prefetch(numbers(8, on_get=break_at(3)), threads=threads, depth=8))
    seen = [next(iterator) for _ in range(3)]
    assert labels(seen) == [0, 1, 2]
    with pytest.raises(data.WorkerError, match=r"sample 3 .* ValueError: file 3 is") as caught:
        next(iterator)
    assert isinstance(caught.value, data.FlError)
    assert caught.value.index == 3
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert "break_at" not in str(cause)
    assert any(frame.name == "check" for frame in traceback.extract_tb(cause.__traceback__))
    wait_until(lambda: not workers())
    # whoever wants to may go on behind the broken sample
    assert labels(iterator) == [4, 5, 6, 7]


def test_a_stop_iteration_in_a_dataset_does_not_end_the_loop(numbers):
    def stop(index):
        if index == 2:
            raise StopIteration

    for threads in (0, 2):
        with pytest.raises(data.FlError, match="StopIteration"):
            list(data.Prefetch(numbers(5, on_get=stop), threads=threads))


def test_an_exit_in_a_thread_is_an_error_and_not_a_hang(numbers):
    def leave(index):
        raise SystemExit(1)

    with pytest.raises(data.WorkerError, match="SystemExit"):
        next(iter(data.Prefetch(numbers(3, on_get=leave))))


def test_threads_end_when_the_iterator_is_dropped(numbers):
    iterator = iter(data.Prefetch(numbers(100), threads=3, depth=2))
    next(iterator)
    assert workers()
    del iterator
    gc.collect()
    wait_until(lambda: not workers())


def test_threads_end_when_the_loop_is_left(numbers):
    ds = numbers(100)
    for _ in data.Prefetch(ds, threads=3, depth=2):
        break
    gc.collect()
    wait_until(lambda: not workers())
    assert len(ds.requests) < 10


def test_threads_end_with_close_and_with_the_last_sample(numbers, labels):
    with iter(data.Prefetch(numbers(100), threads=3, depth=2)) as iterator:
        next(iterator)
    assert not workers()
    iterator = iter(data.Prefetch(numbers(5), threads=3, depth=2))
    assert labels(iterator) == list(range(5))
    assert not workers()
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_closed_iterator_goes_on_where_it_was(numbers, labels):
    iterator = iter(data.Prefetch(numbers(6), threads=2, depth=2))
    next(iterator)
    iterator.close()
    assert labels(iterator) == [1, 2, 3, 4, 5]


def test_closing_from_another_thread_wakes_the_waiting_consumer(numbers):
    release = threading.Event()
    iterator = iter(data.Prefetch(numbers(3, on_get=lambda _: release.wait(5)), threads=1))
    caught = []

    def consume():
        try:
            next(iterator)
        except data.IterationError as error:
            caught.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    wait_until(lambda: bool(workers()))
    closer = threading.Thread(target=iterator.close)
    closer.start()
    consumer.join(5)
    assert "closed" in str(caught[0])
    assert iterator.position == 0
    release.set()
    closer.join(5)


def test_two_iterators_do_not_disturb_each_other(rows, labels):
    ds = data.Prefetch(rows(10), threads=2, depth=2)
    pairs = list(zip(ds, ds, strict=True))
    assert labels(a for a, _ in pairs) == labels(b for _, b in pairs) == list(range(10))


def test_threads_run_in_a_copy_of_the_context(numbers):
    setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="outside")
    seen = []

    def note(_index):
        seen.append(setting.get())
        setting.set("changed by a thread")

    token = setting.set("inside")
    iterator = iter(data.Prefetch(numbers(4, on_get=note), threads=1, depth=1))
    setting.reset(token)
    for _ in iterator:
        assert setting.get() == "outside"
    assert seen[0] == "inside"


def test_overrides_reach_the_threads(rows):
    calls = []

    def counting(inner, x, y):
        calls.append(threading.current_thread().name)
        return inner.add(x, y)

    ds = data.Prefetch(data.Transform(rows(3), lambda s: (s[0] + s[0], s[1])), threads=1, depth=1)
    with ft.override(add=counting):
        assert [sample[0].tolist() for sample in ds] == [[0, 0], [2, -2], [4, -4]]
    assert calls == ["fl-data-prefetch-0"] * 3


def noisy(sample):
    return (sample[0] + ft.rand((2,)), sample[1])


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_draws_from_the_default_generator_depend_on_seed_epoch_and_index_alone(rows, threads):
    def run(ds, start=0):
        return [x.tolist() for x, _ in data.iterate(ds, start)]

    ft.seed(11)
    shuffled = data.Shuffle(rows(8))
    ds = data.Prefetch(data.Transform(shuffled, noisy), threads=threads)
    ds.set_epoch(0)
    before = ft.default_generator().state()
    first = run(ds)
    assert ft.default_generator().state() == before
    ft.rand((5,))
    assert run(ds) == first == run(data.Prefetch(data.Transform(shuffled, noisy), threads=2))
    assert run(ds, 5) == first[5:]
    noise = [round(a + b, 5) for a, b in first]  # the two entries of x cancel
    assert len(set(noise)) == 8
    ds.set_epoch(1)
    assert not set(noise) & {round(a + b, 5) for a, b in run(ds)}
    ds.set_epoch(0)
    ft.seed(12)
    assert not set(noise) & {round(a + b, 5) for a, b in run(ds)}


def test_no_threads_means_plain_iteration(numbers, labels):
    ds = numbers(4, on_get=lambda _: workers() and pytest.fail("a thread was started"))
    assert labels(data.Prefetch(ds, threads=0, depth=0)) == [0, 1, 2, 3]


@pytest.mark.parametrize(("threads", "depth"), [(-1, 2), (2, 0), (2, -1), (1.5, 2)])
def test_bad_settings_are_refused(rows, threads, depth):
    with pytest.raises(data.FlError, match=r"\[Prefetch\]"):
        data.Prefetch(rows(3), threads=threads, depth=depth)


def test_threads_that_cannot_be_started_are_an_error(rows, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(data.IterationError, match="2 threads cannot be started .*fewer"):
        next(iter(data.Prefetch(rows(3), threads=2)))


def test_threads_that_are_gone_are_an_error_and_not_a_hang(rows, monkeypatch):
    """As in a forked process, where no thread but one goes on."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    monkeypatch.setattr(threading.Thread, "join", lambda self, timeout: None)
    iterator = iter(data.Prefetch(rows(3), threads=2))
    with pytest.raises(data.IterationError, match="threads of this iterator are gone"):
        next(iterator)
    assert iterator.position == 0
