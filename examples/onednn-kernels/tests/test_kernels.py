"""What holds for kernels of every kind: they are shared, bounded, safe between threads; memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from typing import NamedTuple

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit.kernels import (
    Convolution,
    KernelLibrary,
    KernelLibraryError,
    Layout,
    Matmul,
    Reorder,
    row_major,
)
from fl_tensor.dtypes import float32
from onednn_kernels import OneDNN


@pytest.fixture
def conv(layout, normal, unset):
    """A convolution with reorders on its way, as (problem, arrays)."""
    x, w, out = normal(2, 8, 12, 12), normal(16, 8, 3, 3), unset(2, 16, 10, 10)
    options = (1, 1), ((0, 0), (0, 0)), (1, 1), 1
    return Convolution(layout(x), layout(w), layout(out), *options), (x, w, out)


def call(kernel, arrays):
    kernel(*(array.ctypes.data for array in arrays))
    return arrays[-1].copy()


def test_equal_problems_share_a_kernel(library, conv):
    descriptor, _ = conv
    assert library.find(descriptor) is library.find(descriptor._replace(groups=1))


def test_problems_of_two_kinds_are_two_problems():
    class Copy(NamedTuple):
        x: Layout
        out: Layout

    class Told(KernelLibrary):
        def prepare(self, descriptor):
            return type(descriptor).__name__

        def report(self):
            return {}

        def find(self, descriptor):
            return self.why_not(descriptor)

    place = row_major(float32, (2, 3))
    told = Told()
    assert told.find(Reorder(place, place)) == "Reorder"
    assert told.find(Copy(place, place)) == "Copy"


def test_the_least_recently_used_kernel_goes_first_and_stays_valid(shared_library):
    small = OneDNN(shared_library, capacity=2)

    def square(n):
        place = row_major(float32, (n, n))
        return Matmul(place, place, place)

    first, second = small.find(square(2)), small.find(square(3))
    assert small.find(square(2)) is first
    assert small.find(square(4)) is not None
    assert small.find(square(2)) is first, "it was used later than the second one"
    assert small.find(square(3)) is not second
    x, out = np.eye(3, dtype=np.float32), np.full((3, 3), np.nan, np.float32)
    second(x.ctypes.data, x.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, x)


def test_what_is_unsupported_is_remembered_too(library, layout, normal, monkeypatch):
    x = layout(normal(4, 4)[::-1])
    descriptor = Matmul(x, x, x)
    assert library.find(descriptor) is None
    monkeypatch.setattr(type(library), "prepare", lambda self, descriptor: pytest.fail("again"))
    assert library.find(descriptor) is None and library.why_not(descriptor)


def test_calls_overlap_in_any_threads(library, conv, normal):
    descriptor, (x, w, out) = conv
    kernel = library.find(descriptor)
    inputs = [normal(*x.shape) for _ in range(4)]
    expected = [call(kernel, (own, w, np.empty_like(out))) for own in inputs]
    wrong = []

    def work(own, wanted):
        mine = np.empty_like(out)
        for _ in range(200):
            mine.fill(np.nan)
            if not np.array_equal(call(kernel, (own, w, mine)), wanted):
                wrong.append(threading.current_thread().name)

    team = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert wrong == []


def test_temporaries_come_from_the_memory_manager_and_go_home(library, conv):
    descriptor, arrays = conv
    kernel = library.find(descriptor)
    call(kernel, arrays)
    with fl_memory.use("caching") as manager:
        gc.collect()
        before = manager.stats()
        call(kernel, arrays)
        after = manager.stats()
    assert after.allocs == before.allocs + 1, "one piece for everything"
    assert after.live_bytes == before.live_bytes


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts pages by /proc")
def test_kernels_leave_nothing_behind(shared_library):
    def pages():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    small = OneDNN(shared_library, capacity=4)

    def work(count):
        for n in list(range(1, 9)) * count:
            place = row_major(float32, (n, 8, 8))
            kernel = small.find(Matmul(place, place, place))
            data = np.zeros((2, n, 8, 8), np.float32)
            kernel(data[0].ctypes.data, data[0].ctypes.data, data[1].ctypes.data)

    def growth():
        before = pages()
        work(50)
        return pages() - before

    work(10)
    # Kernels that stay grow every round; allocators and other threads only some.
    assert min(growth() for _ in range(3)) < 32, "pages of 4 KiB after 400 kernels more"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_another_number_of_threads_gives_the_same(library, conv, monkeypatch, count):
    descriptor, arrays = conv
    expected = call(library.find(descriptor), arrays)
    held = library.find(descriptor)
    before = ft.get_num_threads()
    try:
        ft.set_num_threads(count)
        found = call(library.find(descriptor), arrays)
        assert library.report()["threads"] == str(count)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(call(held, arrays), expected)
    finally:
        ft.set_num_threads(before)


def _in_a_fork(shared_library, kernel, answers):
    fresh = OneDNN(shared_library)
    place = row_major(float32, (300, 300))
    answers.put(fresh.why_not(Matmul(place, place, place)))
    try:
        kernel(0, 0, 0)
    except KernelLibraryError as error:
        answers.put(str(error))


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_instead_of_waiting_for_ever(shared_library, library):
    place = row_major(float32, (300, 300))
    kernel = library.find(Matmul(place, place, place))
    data = np.zeros((3, 300, 300), np.float32)
    kernel(*(part.ctypes.data for part in data))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_a_fork, args=(shared_library, kernel, answers))
    child.start()
    assert "forked" in answers.get(timeout=30)
    assert "spawn" in answers.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0


def test_a_status_becomes_an_error_with_the_name_of_the_call(library):
    with pytest.raises(KernelLibraryError, match=r"\[dnnl_stream_create\].*invalid arguments"):
        library.binding.create("dnnl_stream_create", None, 1, destroy="dnnl_stream_destroy")


def test_layouts_say_what_they_are():
    plain = row_major(float32, (2, 3))
    assert str(plain) == "float32[2x3]:3x1" and plain.nbytes == 24
    assert Layout(float32, (2, 3), (10, 2)).elements == 15
    assert Layout(float32, (0, 3), (3, 1)).nbytes == 0
