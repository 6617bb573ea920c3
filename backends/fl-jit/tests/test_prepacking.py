"""Weights that do not change are packed once, in the place of their arrays."""

from __future__ import annotations

import copy
import os
import signal
import threading

import numpy as np
import pytest

import fl_memory as mem
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import Matmul, Reorder, registry, row_major
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.passes import profitability
from fl_jit.traces import prepacked
from fl_jit.traces.prepacked import PrepackedArray, prepack, storage_of
from fl_memory.managers.caching import CachingManager

RUNS = 3
SHAPES = [(256, 128), (100, 130), (96, 640)]  # of weights: 100 are no whole vectors


@pytest.fixture(scope="module")
def generated():
    return GeneratedKernels()


@pytest.fixture
def backend(generated, monkeypatch):
    monkeypatch.setattr(registry, "active_library", lambda: generated)
    monkeypatch.setattr(profitability, "RUNS_UNTIL_PREPACKED", RUNS)
    made = JitBackend()
    made.plans.background = False
    made.policy.patience = 0  # light computations are deferred, too
    with ft.use(made):
        yield made


def is_prepacked(adapter):
    return isinstance(storage_of(adapter), PrepackedArray)


def is_weight_prepacked(w):
    return is_prepacked(w._adapter)


def values(*shape):
    """Numbers that arithmetic would not leave as they are are among them."""
    made = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    made.ravel()[:4] = -0.0, 1e-42, -1e-45, 3.4e38
    return made


def infer(x, w):
    return np.asarray(ft.relu(ft.linear(x, w)) * 0.5)


def packed(x, w, runs=RUNS + 1):
    """The result of as many runs as it takes, and one more to see that it stays so."""
    for _ in range(runs):
        result = infer(x, w)
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", "CF")
def test_results_stay_and_the_array_comes_back_bit_for_bit(backend, shape, order):
    plain, x = np.asarray(values(*shape), order=order), ft.asarray(values(120, shape[1]))
    w = ft.asarray(plain) if order == "C" else ft.permute(ft.asarray(plain.T), (1, 0))
    ft.eval(w)
    before = infer(x, w)
    np.testing.assert_array_equal(packed(x, w), before)
    assert is_weight_prepacked(w) and w.shape == shape and w.dtype is ft.float32
    found = np.asarray(w)
    assert not is_weight_prepacked(w)
    assert found.tobytes() == plain.tobytes() and found.strides == plain.strides


@pytest.mark.parametrize("rows", [1, 5, 33])
def test_few_rows_are_right(backend, rows):
    x, w = values(rows, 640), values(512, 640)
    x.ravel()[:4] = w.ravel()[:4] = 1.0
    tensor = ft.asarray(w)
    found = packed(ft.asarray(x), tensor)
    assert is_weight_prepacked(tensor)
    wanted = np.maximum(x.astype(np.float64) @ w.T.astype(np.float64), 0.0) * 0.5
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * 640)


def test_a_weight_that_is_not_transposed_is_prepacked_too(backend):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(128, 128))
    found = [np.asarray(x @ w) for _ in range(RUNS + 1)]
    assert is_weight_prepacked(w)
    np.testing.assert_array_equal(found[0], found[-1])


IMAGES = {  # x, w, options
    "3 x 3": ((2, 24, 12, 12), (40, 24, 3, 3), {"padding": 1}),
    "1 x 1": ((1, 96, 14, 14), (70, 96, 1, 1), {}),
    "strided": ((2, 24, 21, 20), (32, 24, 3, 3), {"stride": 2, "padding": ((1, 0), (2, 1))}),
    "groups": ((2, 32, 12, 12), (64, 16, 3, 3), {"groups": 2, "padding": 1}),
    "dilated": ((2, 32, 14, 14), (48, 32, 3, 3), {"kernel_dilation": 2}),
    "sequences": ((2, 48, 200), (64, 48, 5), {"padding": 2}),
}


@pytest.mark.parametrize("case", IMAGES.values(), ids=IMAGES)
@pytest.mark.parametrize("followed", [False, True], ids=["alone", "followed"])
def test_weights_of_convolutions_are_prepacked_too(backend, case, followed):
    image, shape, options = case
    x, w = ft.asarray(values(*image)), ft.asarray(values(*shape))

    def run():
        y = ft.conv(x, w, **options)
        return np.asarray(ft.relu(y) * 0.5 if followed else y)

    found = [run() for _ in range(RUNS + 2)]
    assert is_weight_prepacked(w) and w.shape == shape
    np.testing.assert_allclose(found[-1], found[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[-1], found[-2])
    assert np.asarray(w).tobytes() == values(*shape).tobytes()


@pytest.mark.parametrize("axes", [(2,), (1,), (0, 3)], ids=str)
def test_images_that_run_backwards_meet_prepacked_weights(backend, axes):
    image, w = values(2, 24, 12, 12), ft.asarray(values(40, 24, 3, 3))
    x = ft.asarray(image)
    found = [np.asarray(ft.conv(ft.flip(x, axes), w, padding=1)) for _ in range(RUNS + 2)]
    assert is_weight_prepacked(w)
    with ft.use("numpy"):
        turned = ft.asarray(np.flip(image, axes).copy())
        wanted = np.asarray(ft.conv(turned, ft.asarray(values(40, 24, 3, 3)), padding=1))
    np.testing.assert_allclose(found[-1], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "compute, image, shape",
    [
        (lambda x, w: ft.conv(x, w, padding=1), (2, 24, 64, 64), (40, 24, 3, 3)),
        (lambda x, w: ft.conv(x, w, 1, 1, input_dilation=2), (2, 24, 8, 8), (40, 24, 3, 3)),
        (
            lambda x, w: ft.conv(x, w, padding=1) - ft.conv_data_gradient(x, w, x.shape, padding=1),
            (2, 40, 8, 8),
            (40, 40, 3, 3),
        ),
        (
            lambda g, x: ft.conv_weight_gradient(g, x, (40, 24, 3, 3), padding=1),
            (2, 40, 8, 8),
            (2, 24, 8, 8),
        ),
    ],
    ids=["many places", "a dilated input", "and a gradient of data", "a gradient of weights"],
)
def test_operands_of_others_are_not(backend, compute, image, shape):
    x, w = ft.asarray(values(*image)), ft.asarray(values(*shape))
    for _ in range(3 * RUNS):
        ft.eval(compute(x, w))
        assert not is_weight_prepacked(w)


def test_there_is_one_copy(backend):
    manager = CachingManager()
    with mem.use(manager):
        x, w = ft.full((64, 512), 1.0) + 0.0, ft.full((512, 512), 0.5) + 0.0
        ft.eval(x, w)
        packed(x, w, RUNS - 1)
        before = manager.stats().live_bytes
        packed(x, w)
        assert is_weight_prepacked(w)
        assert manager.stats().live_bytes == before
        np.asarray(w)
        assert manager.stats().live_bytes == before


READERS = {
    "printing": repr,
    "one element": lambda w: w[3, 4].item(),
    "a row": lambda w: np.asarray(w[3]),
    "arithmetic": lambda w: np.asarray(w * 2.0),
    "a reduction": lambda w: ft.sum(w).item(),
    "a lookup": lambda w: np.asarray(ft.embedding(w, ft.asarray([1, 2]))),
    "DLPack": lambda w: np.from_dlpack(w).copy(),
    "a list": lambda w: w.tolist(),
    "the other way": lambda w: np.asarray(ft.matmul(w, ft.permute(w, (1, 0)))),
}


@pytest.mark.parametrize("how", READERS, ids=str)
def test_whoever_reads_it_sees_the_matrix(backend, how):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    wanted = READERS[how](ft.asarray(values(256, 128)))
    packed(x, w)
    assert is_weight_prepacked(w)
    np.testing.assert_equal(READERS[how](w), wanted)


def test_assignment_is_seen_and_other_handles_are_left_alone(backend):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    before = packed(x, w)
    other = copy.copy(w)
    assert is_weight_prepacked(w) and is_weight_prepacked(other)
    w[:, :] = 0.25
    assert not np.array_equal(infer(x, w), before)
    np.testing.assert_array_equal(infer(x, other), before)
    np.testing.assert_array_equal(np.asarray(w), np.full((256, 128), 0.25, np.float32))


def test_weights_of_another_library_are_packed_and_left_as_they_were(backend):
    plain = values(256, 128)
    x, w = ft.asarray(values(64, 128)), ft.from_dlpack(plain)
    before = packed(x, w)
    assert is_weight_prepacked(w)
    np.testing.assert_array_equal(infer(x, w), before)
    assert np.asarray(w).tobytes() == plain.tobytes() == values(256, 128).tobytes()


def test_new_values_in_every_run_are_left_as_they_are(backend):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    for _ in range(3 * RUNS):
        infer(x, w)
        w = w * 0.5
        ft.eval(w)
        assert not is_weight_prepacked(w)


def test_what_was_packed_in_vain_is_packed_later_the_next_time(backend):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))

    def runs():
        for number in range(100):
            if is_weight_prepacked(w):
                return number
            infer(x, w)
        return None

    assert runs() == 1 + RUNS  # there is no plan when it runs first
    np.asarray(w)
    assert runs() == 2 * RUNS
    packed(x, w, RUNS)
    np.asarray(w)
    assert runs() == 2 * RUNS  # it had paid


def test_a_product_that_is_written_in_another_order_is_right(backend):
    # The heads of an attention layer: a batch of matrices, whose result is a copy with other axes.
    x, w = ft.asarray(values(2, 64, 128)), ft.asarray(values(128, 128))

    def heads():
        y = ft.reshape(x @ w, (2, 64, 4, 32))
        return np.asarray(ft.reshape(ft.permute(y, (0, 2, 1, 3)), (8, 64, 32)))

    found = [heads() for _ in range(RUNS + 3)]
    assert is_weight_prepacked(w)
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-5)


def test_batches_of_all_sizes_share_it(backend):
    w, batches = ft.asarray(values(256, 128)), [ft.asarray(values(n, 128)) for n in (64, 80)]
    wanted = [infer(x, w) for x in batches]
    for x in batches:
        packed(x, w)
    assert is_weight_prepacked(w)
    shared = storage_of(w._adapter)
    for x, before in zip(batches, wanted, strict=True):
        np.testing.assert_array_equal(infer(x, w), before)
    assert storage_of(w._adapter) is shared


def test_reproducible_runs_do_not_depend_on_earlier_ones(backend):
    x, w = ft.asarray(values(8192, 128)), ft.asarray(values(256, 128))
    with ft.reproducible():
        packed(x, w)
        assert not is_weight_prepacked(w)
    packed(x, w)
    assert is_weight_prepacked(w)
    with ft.reproducible():
        infer(x, w)
        assert not is_weight_prepacked(w)


def test_threads_may_run_and_look_at_the_same_time(backend):
    plain = values(256, 128)
    x, w = ft.asarray(values(64, 128)), ft.asarray(plain)
    wanted, wrong = packed(x, w), []

    def run(looks):
        with ft.use(backend):
            for _ in range(60):
                found, expected = (np.asarray(w), plain) if looks else (infer(x, w), wanted)
                if not np.array_equal(found, expected):
                    wrong.append(looks)

    threads = [threading.Thread(target=run, args=(looks,)) for looks in (False, True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_light_computation_stays_deferred_once_it_is_worth_it(backend):
    backend.policy.patience = RUNS
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    for _ in range(2000):  # for a while it runs at once, then that is tried again
        infer(x, w)
        if is_weight_prepacked(w):
            break
    packed(x, w, 4 * RUNS)
    assert is_weight_prepacked(w)


def test_a_plan_says_what_it_keeps(backend):
    packed(ft.asarray(values(64, 128)), ft.asarray(values(256, 128)))
    said = str(backend.plans.entries()[-1])
    assert f"prepacked from run {RUNS} with the same values on" in said
    assert "256x128, transposed: 131,072 bytes" in said


def test_without_a_kernel_library_nothing_is_prepacked(backend, monkeypatch):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    monkeypatch.setattr(registry, "active_library", lambda: None)
    packed(x, w, 2 * RUNS)
    assert not is_weight_prepacked(w)


def test_prepacked_weights_outlive_their_library(backend, monkeypatch):
    plain = values(256, 128)
    x, w = ft.asarray(values(64, 128)), ft.asarray(plain)
    before = packed(x, w)
    assert is_weight_prepacked(w)
    monkeypatch.setattr(registry, "active_library", lambda: None)
    np.testing.assert_allclose(infer(x, w), before, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(w), plain)


def test_another_computation_that_reads_it_otherwise_sees_the_matrix(backend):
    x, plain = values(64, 128), values(128, 128)
    w = ft.asarray(plain)

    def straight():
        return np.asarray(ft.matmul(ft.asarray(x), w))

    def turned():
        return np.asarray(ft.linear(ft.asarray(x), w))

    for one, other in ((straight, turned), (turned, straight)):
        wanted = one(), other()
        for _ in range(8 * RUNS):  # the longer, the more often it had been packed in vain
            one()
            if is_weight_prepacked(w):
                break
        assert is_weight_prepacked(w)
        np.testing.assert_allclose(other(), wanted[1], rtol=1e-5)
        np.testing.assert_allclose(one(), wanted[0], rtol=1e-5)


def test_a_part_of_a_matrix_is_left_in_its_place(backend):
    x, whole = values(64, 128), values(256, 200)
    w = ft.asarray(whole)[:, :128]
    found = packed(ft.asarray(x), w, 3 * RUNS)
    assert not is_weight_prepacked(w)
    np.testing.assert_allclose(found, infer(ft.asarray(x), ft.asarray(whole[:, :128].copy())))


def packed_form(generated, array, unpack=None):
    """The packed form of a matrix as the generated kernels have it."""
    plain = row_major(ft.float32, array.shape)
    layout = generated.prepacked_layout(Matmul(plain, plain, plain))
    pack = generated.find(Reorder(plain, layout))
    return PrepackedArray(
        array, layout, False, pack, unpack or generated.find(Reorder(layout, plain))
    )


def test_a_value_keeps_its_class(backend):
    x, w = ft.asarray(values(64, 128)), ft.asarray(values(256, 128))
    before = type(w._adapter)
    packed(x, w)
    assert is_weight_prepacked(w) and type(w._adapter) is before
    np.asarray(w)
    assert not is_weight_prepacked(w) and type(w._adapter) is before


@pytest.mark.parametrize(
    "run",
    [
        lambda ops, x: ops.negative(x),
        lambda ops, x: ops.add(x, x),
        lambda ops, x: ops.reshape(x, (16, 1024)),
        lambda ops, x: ops.permute(x, (1, 0)),
        lambda ops, x: ops.slice(x, (1, 2), (3, 4), (2, 1)),
    ],
)
def test_single_operations_read_the_matrix(backend, generated, run):
    x = ft.asarray(values(128, 128))._adapter
    wanted = run(backend, x).array
    prepack(x, x.array, packed_form(generated, x.array))
    assert is_prepacked(x) and backend.is_ready(x)
    np.testing.assert_array_equal(run(backend, x).array, wanted)


def test_of_two_threads_that_pack_at_the_same_time_one_counts(backend, generated):
    plain = values(128, 128)
    w = ft.asarray(plain)._adapter
    array = w.array
    first, second = packed_form(generated, array), packed_form(generated, array)
    prepack(w, array, first)
    prepack(w, array, second)
    assert storage_of(w) is first
    for made in (first, second):
        assert made.array().tobytes() == plain.tobytes()


def test_whoever_comes_second_to_unpack_gets_the_same_array(backend, generated):
    w = ft.asarray(values(128, 128))._adapter
    between, complete = [], packed_form(generated, w.array)._unpack

    def interrupted(*addresses):
        if not between:
            between.append(None)  # another thread asks for it now, and has it first
            between[0] = w.array
        complete(*addresses)

    prepack(w, w.array, packed_form(generated, w.array, interrupted))
    assert w.array is between[0]
    assert w.array is between[0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")
def test_a_process_may_fork_while_another_thread_packs(backend, generated):
    plain = values(128, 128)
    w = ft.asarray(plain)._adapter
    prepack(w, w.array, packed_form(generated, w.array))
    begun, end = threading.Event(), threading.Event()

    def packs():
        with prepacked._lock:
            begun.set()
            end.wait(0.3)

    thread = threading.Thread(target=packs)
    thread.start()
    assert begun.wait(5)
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        signal.alarm(60)
        os._exit(0 if w.array.tobytes() == plain.tobytes() else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert w.array.tobytes() == plain.tobytes()
