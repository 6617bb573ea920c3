"""Weights of convolutions that are trained lie as they are best packed, and so does the state of
their optimizer; nobody who looks at them can tell."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import registry
from fl_jit.kernels.llvm.library import GeneratedKernels

#: Of images, and of the weights that they meet: the first are fewer.
FEW = (2, 40, 6, 6), (48, 40, 3, 3)


@pytest.fixture(scope="module")
def library():
    return GeneratedKernels()


@pytest.fixture
def jit(library, monkeypatch):
    """A backend of its own, which defers everything and plans at once."""
    monkeypatch.setattr(registry, "active_library", lambda: library)
    monkeypatch.setattr(registry, "is_for_everything", lambda: True)
    backend = JitBackend()
    backend.smallest, backend.plans.policy.patience = 1, 0
    backend.plans.compile_after = 1
    backend.plans.background = False
    with ft.use(backend):
        yield backend


def same_size(rank):
    return dict(padding=((1, 1),) * rank)


class Training:
    """Steps of gradient descent with momentum of one layer, whose outputs should be small."""

    def __init__(self, images, weights, groups=1):
        generator = np.random.default_rng(sum(weights))
        self.rank, self.groups = len(weights) - 2, groups
        self.images = ft.asarray(generator.standard_normal(images).astype(np.float32))
        self.w = ft.asarray(0.1 * generator.standard_normal(weights).astype(np.float32))
        self.speed = ft.zeros(weights)

    def layer(self):
        return ft.conv(self.images, self.w, groups=self.groups, **same_size(self.rank))

    def gradient(self):
        # Of half the sum of squares.
        options = dict(groups=self.groups, **same_size(self.rank))
        return ft.conv_weight_gradient(self.layer(), self.images, self.w.shape, **options)

    def step(self):
        self.seen = self.gradient()  # so that nothing is written over it
        self.speed = self.speed * 0.5 + self.seen
        self.w = self.w - self.speed * 1e-4
        ft.eval(self.w, self.speed, self.seen)


def order(x):
    """The axes of more than one element, from the slowest to the fastest in memory."""
    array = np.asarray(x)
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return tuple(sorted(axes, key=lambda axis: -array.strides[axis]))


def place(x):
    return np.asarray(x).__array_interface__["data"][0]


CASES = {
    "two dimensions": FEW,
    "one": ((2, 40, 9), (48, 40, 3)),
    "three": ((1, 24, 3, 4, 3), (20, 24, 3, 3, 3)),
    "in groups": ((2, 40, 6, 6), (48, 20, 3, 3), 2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_training_gives_what_it_gives_elsewhere(jit, case):
    ours = Training(*case)
    with ft.use("numpy"):
        theirs = Training(*case)
    for _ in range(4):
        ours.step()
        with ft.use("numpy"):
            theirs.step()
        for mine, other in ((ours.w, theirs.w), (ours.speed, theirs.speed)):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-3)


def test_weights_and_momentum_lie_by_places_channels_and_features(jit):
    training = Training(*FEW)
    assert order(training.w) == (0, 1, 2, 3)
    for _ in range(3):
        training.step()
        assert order(training.w) == order(training.speed) == (2, 3, 1, 0)


def test_weights_that_are_fewer_than_what_they_meet_stay_in_c_order(jit):
    training = Training((8, 16, 12, 12), (16, 16, 3, 3))
    for _ in range(3):
        training.step()
        assert order(training.w) == order(training.speed) == (0, 1, 2, 3)


def test_they_stay_so_where_runs_are_reproducible(jit):
    Training(*FEW).step()  # what is planned outside is not for inside
    with ft.reproducible():
        training = Training(*FEW)
        training.step()
        training.step()
        assert order(training.w) == order(training.speed) == (0, 1, 2, 3)


def test_a_step_is_written_over_the_last_one(jit):
    training = Training(*FEW)
    for _ in range(3):
        training.step()
    before = {place(training.w), place(training.speed)}
    training.step()
    assert {place(training.w), place(training.speed)} == before


SEEN = {
    "the tensor": lambda w: w,
    "a part": lambda w: w[3:],
    "an array of NumPy": np.asarray,
    "its transpose": lambda w: np.asarray(w).T,
    "the array that owns the memory": lambda w: np.asarray(w).base,
    "DLPack": np.from_dlpack,
}


@pytest.mark.parametrize("how", SEEN.values(), ids=SEEN)
def test_what_somebody_sees_is_not_written_over(jit, how):
    training = Training(*FEW)
    for _ in range(3):
        training.step()
    seen = how(training.w)
    before = np.array(np.asarray(seen))
    for _ in range(2):
        training.step()
    np.testing.assert_array_equal(np.asarray(seen), before)


READ = {
    "an element": lambda w: w[1, 2, 0, 2],
    "rows": lambda w: w[2:9],
    "flat": lambda w: ft.reshape(w, (-1,)),
    "a matrix": lambda w: ft.reshape(w, (48, -1)) @ ft.ones((360, 2)),
    "turned": lambda w: ft.permute(w, (3, 1, 0, 2)),
    "sums": lambda w: ft.sum(w, (1, 2, 3)),
    "with an array in C order": lambda w: w + ft.ones(w.shape),
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_whoever_reads_them_finds_them_in_their_places(jit, read):
    training = Training(*FEW)
    for _ in range(2):
        training.step()
    plain = ft.asarray(np.ascontiguousarray(np.asarray(training.w)))
    np.testing.assert_allclose(read(training.w).numpy(), read(plain).numpy(), rtol=1e-5, atol=1e-5)
