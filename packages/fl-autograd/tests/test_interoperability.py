"""Variables in NumPy's functions, in copies and pickles, beside other libraries; messages."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend


@pytest.fixture
def v():
    return ag.Variable(ft.asarray([0.3, 0.5, 0.9]), requires_grad=True)


# ---- NumPy's functions ---------------------------------------------------------------------------


@pytest.mark.defect("N21")
@pytest.mark.parametrize("name", "exp sin sqrt tanh square arcsin arctan negative log1p".split())
def test_a_ufunc_has_the_gradient_of_our_function(name):
    ufunc = getattr(np, name)
    ag.check_grads(ufunc, [ft.asarray([0.3, 0.5, 0.9])], order=2)


@pytest.mark.defect("N21")
def test_ufuncs_of_two_operands_and_their_methods_have_gradients(v):
    other = np.asarray([2.0, 1.0, 0.5], np.float32)
    for compute, slope in (
        (lambda: np.multiply(other, v), other),
        (lambda: other * v, other),
        (lambda: np.float32(2) * v, [2.0, 2.0, 2.0]),
        (lambda: np.add.reduce(v) * 2, [2.0, 2.0, 2.0]),
        (lambda: np.multiply.outer(v, other).sum(), [3.5, 3.5, 3.5]),
        (lambda: np.maximum(v, 0.4), [0.0, 1.0, 1.0]),
    ):
        found = compute()
        assert isinstance(found, ag.Variable)
        np.testing.assert_allclose(ag.grad(found.sum(), v).tolist(), slope, rtol=1e-6)


@pytest.mark.defect("N21")
@pytest.mark.parametrize("name", "sum prod mean std var max min".split())
def test_a_reduction_of_numpy_has_the_gradient_of_our_function(name):
    data = ft.asarray([[0.3, 0.5, 0.9], [1.5, 0.2, 0.7]])
    for axis in (None, 1):
        ag.check_grads(lambda x: getattr(np, name)(x, axis=axis), [data])  # noqa: B023


@pytest.mark.defect("N21")
def test_what_would_lose_the_gradient_is_refused(v):
    a = np.zeros(3)
    with pytest.raises(ft.ArgumentError, match=r"cannot hold a Variable: write a = a \+ v"):
        a += v
    assert a.tolist() == [0.0, 0.0, 0.0]
    a = a + v
    assert a.requires_grad


# ---- copies --------------------------------------------------------------------------------------


@pytest.mark.defect("N22")
def test_the_copy_of_a_result_has_its_history(v):
    y = v * 2
    same = copy.copy(y)
    assert same is not y
    assert ag.grad(same.sum(), v).tolist() == [2.0, 2.0, 2.0]
    same[0] = 7.0
    assert y.tolist()[0] == pytest.approx(0.6), "an assignment to it does not reach the other"


@pytest.mark.defect("N22")
def test_the_copy_of_a_leaf_is_another_leaf(v):
    for other in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        assert other.is_leaf and other.requires_grad
        (other * 2).sum().backward()
        assert v.grad is None and other.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.defect("N22")
@pytest.mark.parametrize("make", [copy.deepcopy, pickle.dumps])
def test_a_history_is_not_copied(v, make):
    with pytest.raises(ag.GradError, match=r"only leaves can be; take v.detach\(\)"):
        make(v * 2)
    make(v.detach())


# ---- DLPack --------------------------------------------------------------------------------------


@pytest.mark.defect("N24")
def test_dlpack_exports_a_value_and_refuses_a_gradient(v):
    with pytest.raises(ag.GradError, match=r"\[dlpack\] .*export v.detach\(\)"):
        np.from_dlpack(v)
    if ft.current_backend().name in ("numpy", "jit"):  # others lend what they have copied
        assert np.shares_memory(np.from_dlpack(v.detach()), np.asarray(v))
    assert np.array_equal(np.from_dlpack(v.detach()), np.asarray(v))
    assert ft.from_dlpack(v.detach()).tolist() == v.tolist()


# ---- assignment ----------------------------------------------------------------------------------


@pytest.mark.defect("N25")
def test_the_advice_for_an_assignment_of_a_variable_keeps_the_gradient(v):
    out = ft.zeros(2)
    with pytest.raises(ft.DTypeError, match=r"x = fl_autograd.Variable\(ft.zeros\(\(2,\)\)\)"):
        out[0] = v.sum()
    out = ag.Variable(ft.zeros((2,)))
    out[0] = v.sum()
    assert ag.grad(out.sum(), v).tolist() == [1.0, 1.0, 1.0]


# ---- a wrong operation ---------------------------------------------------------------------------


def double(ops, x):
    return ops.multiply(x, ops.constant(2.0, x))


WRONG = {
    "a number": (lambda ops, x: ops.multiply(x, 2.0), r"ops.multiply: y is a float: .*constant\(2"),
    "an operator": (lambda ops, x: 2.0 * x, r"\[op\] .*no operators .*ops.multiply\(x, ops.const"),
    "a method": (lambda ops, x: x.exp(), r"\[op\] .*no operators and methods"),
    "ours": (lambda ops, x: ft.exp(x), r"inside an operation write ops.exp\(x\), not ft.exp\(x\)"),
    "a tensor": (lambda ops, x: ops.add(x, ft.ones(3)), r"ops.add: y is a Tensor, expected a back"),
    "NumPy's": (lambda ops, x: np.ones(3), r"gave a ndarray.*ops.exp\(x\), not np.exp\(x\)"),
    "nothing": (lambda ops, x: None, r"gave a NoneType.*is a return missing\?"),
}


@pytest.mark.defect("N26")
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_in_an_operation_is_said(v, kind):
    wrong, message = WRONG[kind]
    operation = extend.defop("op", wrong, x=lambda ops, g: double(ops, g))
    for x in (v, v.tensor):
        with pytest.raises(ft.FlError, match=message):
            operation(x)


@pytest.mark.defect("N26")
@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "nothing"])
def test_what_is_wrong_in_a_gradient_is_said(v, kind):
    wrong, message = WRONG[kind]
    y = extend.defop("op", double, x=lambda ops, g: wrong(ops, g))(v)
    with pytest.raises(ft.FlError, match=message):
        y.sum().backward()


@pytest.mark.defect("N26")
def test_an_error_of_ones_own_is_raised_as_it_is(v):
    def forward(ops, x):
        raise TypeError("my own")

    with pytest.raises(TypeError, match="^my own$"):
        extend.defop("op", forward, x=lambda ops, g: double(ops, g))(v)
