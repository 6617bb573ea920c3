"""Python's standard library."""

from __future__ import annotations

import copy
import json
import math
import pickle

import pytest

import fl_autograd as ag


@pytest.mark.row("Python", "copy.copy(v)")
def test_a_copy_shares_the_history(v, y):
    assert ag.grad(copy.copy(y).sum(), v).tolist() == [2, 2, 2]
    assert copy.copy(v).is_leaf


@pytest.mark.row("Python", "copy.deepcopy(v)")
def test_a_leaf_is_copied_and_a_history_is_not(x, v, y):
    assert copy.deepcopy(x).tolist() == x.tolist()
    assert copy.deepcopy([v])[0].requires_grad
    with pytest.raises(ag.GradError, match=r"v.detach\(\)"):
        copy.deepcopy(y)


@pytest.mark.row("Python", "pickle.dumps(v)")
def test_a_leaf_is_pickled_and_a_history_is_not(x, v, y):
    again = pickle.loads(pickle.dumps({"x": x, "v": v}))
    assert again["x"].tolist() == again["v"].tolist() == [1, 2, 4]
    assert again["v"].requires_grad
    with pytest.raises(ag.GradError, match=r"v.detach\(\)"):
        pickle.dumps(y)


@pytest.mark.row("Python", "math.sqrt(x[0])")
def test_numbers_of_python(x, y):
    assert math.sqrt(x[2]) == 2.0 and float(y[0]) == 2.0
    assert f"{y[0]:.2f}" == "2.00" and math.isfinite(y[0])
    assert json.dumps({"x": x.tolist(), "loss": y.sum().item()})
