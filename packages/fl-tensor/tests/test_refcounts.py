"""Nothing is written in place unless reference counts are known to show who holds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fl_tensor import refcounts

pytestmark = pytest.mark.defect("item 13")


def count(values):
    return refcounts.getrefcount(values[0])


def calibrated(count=count):
    return refcounts.count_if_alone(count, lambda: [object()], lambda values: values[0])


def test_one_more_holder_is_one_more_than_alone():
    alone = calibrated()
    values = [object()]
    assert count(values) == alone > refcounts.NEVER
    other = values[0]
    assert count(values) == alone + 1
    del other
    assert count(values) == alone


@pytest.mark.parametrize(
    "wrong",
    [lambda values: 3, lambda values: 2 * count(values), lambda values: sys.maxsize],
    ids=["constant", "double", "missing"],
)
def test_counts_that_do_not_follow_the_holders_are_never_alone(wrong):
    assert calibrated(wrong) == refcounts.NEVER


def test_without_the_lock_of_the_interpreter_nothing_is_alone(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert calibrated() > refcounts.NEVER
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False)
    assert calibrated() == refcounts.NEVER


INTERPRETERS = {
    "as it is": "",
    "without the lock": "sys._is_gil_enabled = lambda: False",
    "without counts": "del sys.getrefcount",
    "constant counts": "sys.getrefcount = lambda x: 2",
}

# What is assigned to is also seen by a copy, a view, an export and a recorded gradient.
PROGRAM = """
import sys
{interpreter}
import numpy as np
import fl_autograd as ag
import fl_tensor as ft

def address(x):
    return np.asarray(x).__array_interface__["data"][0]

in_place = set()
for name in [n for n in ("numpy", "jit") if n in ft.available_backends()]:
    with ft.use(name):
        x = ft.ones((200, 300)) * 2.0
        ft.eval(x)
        before = address(x)
        x[1] = 7.0
        in_place.add(address(x) == before)
        copy, view, export = x.copy(), x[1:3], np.asarray(x)
        v = ag.Variable(x, requires_grad=True)
        loss = ft.sum(v * v)
        x[1] = 9.0
        x[[2, 3]] = 5.0
        for seen in (copy, export):
            assert np.asarray(seen)[:4, 0].tolist() == [2.0, 7.0, 2.0, 2.0], name
        assert np.asarray(view)[:, 5].tolist() == [7.0, 2.0], name
        assert np.asarray(x)[:4, 0].tolist() == [2.0, 9.0, 5.0, 5.0], name
        loss.backward()
        assert np.asarray(v.grad)[:4, 0].tolist() == [4.0, 14.0, 4.0, 4.0], name

        # Steps whose results could take the places of what they replace
        weight, kept, addresses = ft.ones((200, 300)), [], set()
        for step in range(12):
            weight = weight - 0.5 * ft.tanh(weight * 0.0) - 1.0
            ft.eval(weight)
            if step % 3 == 0:
                kept.append(weight)
        assert [w[7, 7].item() for w in kept] == [0.0, -3.0, -6.0, -9.0], name

        with ft.trace() as graph:
            y = ft.tanh(kept[0] + 1.0)
            graph.output(y)
        assert len(graph.outputs) == 1, graph
        assert np.allclose(graph(kept[1])[0].numpy(), np.tanh(-2.0)), name
print(*in_place)
"""


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_values_stay_right_and_are_written_in_place_by_a_confirmed_interpreter_alone(interpreter):
    pytest.importorskip("fl_autograd")
    code = PROGRAM.format(interpreter=INTERPRETERS[interpreter])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(interpreter == "as it is")]
