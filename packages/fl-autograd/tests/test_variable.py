"""A Variable is an array: value, flags, handle semantics."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def test_made_from_tensors_variables_and_lists() -> None:
    t = ft.asarray([1.0, 2.0])
    assert ag.Variable(t).tensor.tolist() == [1.0, 2.0]
    assert ag.Variable([[1, 2]]).dtype is ft.int64
    v = ag.Variable(t, requires_grad=True)
    assert not ag.Variable(v).requires_grad
    assert (v.shape, v.dtype, str(v.device), v.ndim) == ((2,), ft.float32, "cpu", 1)


def test_functions_and_operators_give_variables() -> None:
    x = ag.Variable([1.0, 4.0], requires_grad=True)
    for y in (ft.sqrt(x), x + 1, 2 * x, x / ft.asarray([2.0, 2.0]), ft.asarray([1.0, 1.0]) - x):
        assert isinstance(y, ag.Variable)
        assert y.requires_grad
        assert not y.is_leaf
    assert not (x > 2).requires_grad
    assert not ft.argmax(x).requires_grad


def test_results_of_constants_need_no_gradient() -> None:
    y = ag.Variable([1.0]) * 2
    assert not y.requires_grad
    assert y.is_leaf


@pytest.mark.parametrize("values", [[1, 2], [True, False]])
def test_integers_and_bools_cannot_require_gradients(values: Any) -> None:
    with pytest.raises(TypeError, match="cannot require a gradient: cast it"):
        ag.Variable(values, requires_grad=True)
    v = ag.Variable(values)
    with pytest.raises(ft.FlError):
        v.requires_grad = True


def test_assigning_a_value_keeps_shape_dtype_and_identity() -> None:
    v = ag.Variable([1.0, 2.0], requires_grad=True)
    y = (v * v).sum()
    v.tensor = ft.asarray([10.0, 20.0])
    assert v.tolist() == [10.0, 20.0]
    y.backward()  # recorded with the old value
    assert v.grad is not None
    assert v.grad.tolist() == [2.0, 4.0]
    with pytest.raises(ValueError, match=r"\(2,\): cannot become \(3,\)"):
        v.tensor = ft.zeros(3)
    with pytest.raises(TypeError, match="float32: cannot become int64"):
        v.tensor = ft.asarray([1, 2])
    with pytest.raises(ag.GradError, match="detach"):
        (v * 1).tensor = ft.zeros(2)


def test_detach_shares_the_value_and_drops_the_history() -> None:
    v = ag.Variable([1.0], requires_grad=True)
    d = (v * 3).detach()
    assert d.tolist() == [3.0]
    assert not d.requires_grad


def test_requires_grad_can_be_changed_on_leaves_only() -> None:
    v = ag.Variable([1.0])
    v.requires_grad = True
    y = v * 2
    v.requires_grad = False
    assert not v.requires_grad
    with pytest.raises(ag.GradError, match="only a leaf"):
        y.requires_grad = False


def test_grad_can_be_replaced_and_is_checked() -> None:
    v = ag.Variable([1.0, 2.0], requires_grad=True)
    v.grad = ft.ones(2)
    assert v.grad.tolist() == [1.0, 1.0]
    mine = ag.Variable([2.0, 2.0])
    v.grad = mine
    (v * 1).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0]
    assert mine.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="not"):
        v.grad = ft.ones(3)
    v.zero_grad()
    assert v.grad is None
    with pytest.raises(ag.GradError, match="leaf"):
        (v * 1).grad = ft.ones(2)
    constant = ag.Variable([1.0])
    constant.grad = None  # nothing to forget
    assert constant.grad is None


def test_leaves_copy_and_pickle_without_their_gradient() -> None:
    v = ag.Variable([1.0, 2.0], requires_grad=True)
    (v * v).sum().backward()
    for twin in (copy.deepcopy(v), copy.copy(v), pickle.loads(pickle.dumps(v))):
        assert type(twin) is ag.Variable
        assert twin.tolist() == [1.0, 2.0]
        assert twin.requires_grad
        assert twin.grad is None
    with pytest.raises(ag.GradError, match="detach"):
        copy.deepcopy(v * 1)


def test_repr_shows_the_value_and_the_flag() -> None:
    text = repr(ag.Variable([1.5], requires_grad=True))
    assert text.startswith("Variable([1.5]")
    assert text.endswith("requires_grad=True)")


def test_assignment_by_index_is_recorded(leaf: Any, close: Any) -> None:
    x, v = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), leaf([10.0, 20.0])
    y = x * 2
    before = y
    z = y * 1
    y[:, 1] = v
    assert before is y
    close(y, [[2, 10, 6], [8, 20, 12]])
    (y * y).sum().backward(retain_graph=True)
    close(x.grad, [[8, 0, 24], [32, 0, 48]])
    close(v.grad, [20, 40])
    close(z, [[2, 4, 6], [8, 10, 12]])


@pytest.mark.parametrize(
    ("index", "value"),
    [((0, slice(None, None, -1)), [7.0, 8.0, 9.0]), ([1, 1], 5.0), (slice(0, 0), 1.0)],
)
def test_assignment_forms(leaf: Any, close: Any, index: Any, value: Any) -> None:
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y, want = x * 1, x.numpy().copy()
    y[index] = value
    want[index] = value
    close(y, want)
    y.sum().backward()
    hit = x.numpy() * 0 + 1
    hit[index] = 0
    close(x.grad, hit)


def test_assignment_to_a_leaf_is_refused_while_recording() -> None:
    v = ag.Variable([1.0, 2.0], requires_grad=True)
    with pytest.raises(ag.GradError, match="leaf"):
        v[0] = 5.0
    with ag.no_grad():
        v[0] = 5.0
    assert v.tolist() == [5.0, 2.0]
    assert v.requires_grad


def test_assignment_without_recording_leaves_graphs_their_values(leaf: Any, close: Any) -> None:
    w = leaf([2.0, 3.0])
    y = (w * w).sum()
    held = w.tensor
    with ag.no_grad():
        w[0] = 5.0
        w[:] = w * 2.0
    y.backward()
    close(w.grad, [4.0, 6.0])
    close(held, [2.0, 3.0])


@pytest.mark.defect("N29")
def test_hashed_by_identity() -> None:
    x, y = ag.Variable([1.0, 2.0]), ag.Variable([1.0, 2.0])
    counts = {x: 1}
    counts[y] = 2
    assert counts[x] == 1 and len({x, y, x}) == 2
    x.tensor = ft.asarray([3.0, 4.0])
    assert x in counts and ag.Variable(x) not in counts
