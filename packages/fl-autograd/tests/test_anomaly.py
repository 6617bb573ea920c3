"""detect_anomaly names the forward operation behind a NaN."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def test_the_operation_and_the_line_are_named(leaf: Any) -> None:
    x = leaf([0.0, 4.0])
    with ag.detect_anomaly():
        y = ft.sqrt(x * 1.0)  # the culprit
        z = (y * ag.Variable(ft.asarray([0.0, 1.0], dtype="float64"))).sum()
    with pytest.raises(ag.AnomalyError) as caught:
        z.backward()  # 0 / 0 in the gradient of the root
    message = str(caught.value)
    assert message.startswith("[sqrt] of ")
    assert "test_anomaly.py" in message
    assert "y = ft.sqrt(x * 1.0)  # the culprit" in message
    assert "operand 'x' (2,)" in message
    assert "forward pass" not in message
    assert "came to it" not in message
    assert isinstance(caught.value, ft.FlError)


def test_a_nan_of_the_forward_pass_is_traced_to_its_origin(leaf: Any) -> None:
    x = leaf([-1.0, 4.0])
    with ag.detect_anomaly():
        y = ft.log(x)  # the origin
        with pytest.raises(ag.AnomalyError, match=r"\[multiply\].*first NaN in \[log\].*origin"):
            (y * y).sum().backward()


def test_a_nan_among_the_gradients_of_the_result_is_mentioned(leaf: Any) -> None:
    x = leaf([1.0, 4.0])
    with ag.detect_anomaly():
        y = x * 2.0
    with pytest.raises(ag.AnomalyError, match="the gradient that came to it had one already"):
        y.backward(ag.Variable(ft.asarray([1.0, float("nan")], dtype="float64")))


def test_compositions_name_the_piece_and_the_users_line(leaf: Any) -> None:
    x = leaf([1.0, 0.0])
    with ag.detect_anomaly():
        y = ft.atanh(x) * ag.Variable(ft.asarray([0.0, 1.0], dtype="float64"))  # 0 times infinity
        with pytest.raises(ag.AnomalyError, match=r"y = ft.atanh\(x\)"):
            y.sum().backward()


def test_sound_gradients_pass_and_other_graphs_are_not_watched(leaf: Any, close: Any) -> None:
    x = leaf([0.0, 4.0])
    bad = ft.sqrt(x) * ag.Variable(ft.asarray([0.0, 1.0], dtype="float64"))
    with ag.detect_anomaly():
        (x * x).sum().backward()
        close(x.grad, [0.0, 8.0])
        bad.sum().backward()  # recorded before the block
    bad = ft.sqrt(x) * ag.Variable(ft.asarray([0.0, 1.0], dtype="float64"))
    bad.sum().backward()


def test_inside_checkpoints_too(leaf: Any) -> None:
    x = leaf([0.0])
    with ag.detect_anomaly():
        y = ag.checkpoint(lambda v: ft.sqrt(v) * 0.0, x)
    with pytest.raises(ag.AnomalyError, match=r"\[sqrt\]"):
        y.sum().backward()
