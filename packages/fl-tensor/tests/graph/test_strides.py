"""Changes of shape as arithmetic on strides, with NumPy's own strides as the reference."""

from __future__ import annotations

import random

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.graph import strides as layout


def strides(array):
    return tuple(s // array.itemsize for s in array.strides)


def random_view(rng):
    """An array that shows elements of another one in some order."""
    shape = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randint(1, 4)))
    array = np.arange(np.prod(shape)).reshape(shape)
    array = array.transpose(rng.sample(range(len(shape)), len(shape)))
    return array[tuple(slice(None, None, rng.choice((1, 1, -1, 2))) for _ in array.shape)]


def random_shape(rng, size):
    """Some shape of so many elements."""
    shape = []
    while size > 1:
        factor = rng.choice([n for n in range(2, size + 1) if size % n == 0])
        shape.append(factor)
        size //= factor
    for _ in range(rng.randint(0, 2)):
        shape.insert(rng.randint(0, len(shape)), 1)
    return tuple(shape)


@pytest.mark.parametrize("seed", range(300))
def test_reshape_finds_strides_where_there_are_any(seed):
    rng = random.Random(seed)
    array = random_view(rng)
    target = random_shape(rng, array.size)
    found = layout.reshape(array.shape, strides(array), target)
    view = array.reshape(target)
    if np.shares_memory(view, array) or array.size == 1:
        assert found is not None
        steps = tuple(s * array.itemsize for s in found)
        shown = np.lib.stride_tricks.as_strided(array, target, steps)
        assert (shown == view).all()
    else:
        assert found is None


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (4, 1, 2)])
def test_contiguous_is_c_order(shape):
    assert layout.contiguous(shape) == strides(np.zeros(shape))


def test_broadcast_stands_still_along_new_axes_and_axes_of_one():
    assert layout.broadcast((3, 1), (1, 1), (2, 3, 4)) == (0, 1, 0)


def test_layouts_follow_views_to_their_root():
    x = ft.zeros((2, 3))
    with ft.trace() as graph:
        y = ft.exp(x)
        graph.output(ft.permute(y, (1, 0))[1:, ::-1], ft.reshape(y, (6,)))
    found = layout.layouts(graph)
    root = next(n for n in graph.nodes if n.op == "exp").outputs[0]
    assert found[graph.outputs[0]] == (root, 1 + 3, (1, -3))
    assert found[graph.outputs[1]] == (root, 0, (1,))


def test_a_reshape_that_must_copy_is_a_root():
    x = ft.zeros((2, 3))
    with ft.trace() as graph:
        graph.output(ft.reshape(ft.permute(x, (1, 0)), (6,)))
    (value,) = graph.outputs
    assert layout.layouts(graph)[value] == (value, 0, (1,))
