"""Errors name the operation, the operands with their shapes, and the way out."""

from __future__ import annotations

import pytest

import fl_tensor as ft

x23, x45 = ft.zeros((2, 3)), ft.zeros((4, 5))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: x23 @ x45,
            ValueError,
            r"[matmul] x (2, 3) and y (4, 5): inner dimensions differ (3 != 4)",
        ),
        (
            lambda: x23 + x45,
            ValueError,
            r"[add] x (2, 3) and y (4, 5): sizes 2 and 4 do not broadcast",
        ),
        (lambda: x23.sum(axis=2), ValueError, "[sum] x (2, 3): axis 2 is out of range for 2 axes"),
        (
            lambda: x23.sum(axis=(0, -2)),
            ValueError,
            "[sum] x (2, 3): axis (0, -2) names one axis twice",
        ),
        (lambda: x23.sum(axis="a"), TypeError, "[sum] axis 'a': expected an int"),
        (
            lambda: x23.reshape(4),
            ValueError,
            "[reshape] x (2, 3): 6 elements do not fit (4,), which has 4",
        ),
        (
            lambda: x23.reshape(-1, 4),
            ValueError,
            "[reshape] x (2, 3): 6 elements do not fill (-1, 4)",
        ),
        (lambda: ft.zeros((2, -1)), ValueError, "[full] shape (2, -1): sizes may not be negative"),
        (
            lambda: ft.concatenate([x23, x45]),
            ValueError,
            "[concatenate] xs[0] (2, 3) and xs[1] (4, 5)",
        ),
        (lambda: ft.concatenate([]), ValueError, "[concatenate] expected a non-empty sequence"),
        (
            lambda: ft.stack([x23, x45]),
            ValueError,
            "[stack] xs[0] (2, 3) and xs[1] (4, 5): shapes differ",
        ),
        (
            lambda: ft.permute(x23, (0, 0)),
            ValueError,
            "[permute] x (2, 3): (0, 0) does not name each axis once",
        ),
        (
            lambda: ft.broadcast_to(x23, (2,)),
            ValueError,
            "[broadcast_to] x (2, 3): does not broadcast to (2,)",
        ),
        (lambda: ft.squeeze(x23, 0), ValueError, "[squeeze] x (2, 3): axis 0 has size 2, not 1"),
        (
            lambda: ft.split(x23, [1, 2]),
            ValueError,
            "[split] x (2, 3): sizes [1, 2] add up to 3, axis 0 has 2",
        ),
        (
            lambda: ft.max(ft.zeros((0, 2)), axis=0),
            ValueError,
            "[max] x (0, 2): nothing to choose from",
        ),
        (lambda: ft.topk(x23, 4), ValueError, "[topk] x (2, 3): k = 4, but axis 1 has 3"),
        (lambda: ft.where(x23, x23, x23), TypeError, "[where] condition is float32: expected bool"),
        (lambda: ft.nonzero(ft.asarray(1)), ValueError, "[nonzero] x has no axes"),
        (
            lambda: ft.conv(x23, x45),
            ValueError,
            "[conv] x (2, 3): expected (batch, channels, *spatial)",
        ),
        (
            lambda: ft.conv(ft.zeros((1, 3, 8, 8)), ft.zeros((4, 2, 3, 3))),
            ValueError,
            "with groups 1, channels 3 must be 2 times groups",
        ),
        (
            lambda: ft.conv(ft.zeros((1, 1, 2, 2)), ft.zeros((1, 1, 3, 3))),
            ValueError,
            "spatial axis 0 has 2 elements after dilation and padding, the kernel reaches over 3",
        ),
        (
            lambda: ft.conv(ft.zeros((1, 1, 2, 2)), ft.zeros((1, 1, 1, 1)), stride=0),
            ValueError,
            "[conv] stride (0, 0)",
        ),
        (
            lambda: ft.max_pool(ft.zeros((1, 1, 4, 4)), 2, padding=2),
            ValueError,
            "[max_pool] x (1, 1, 4, 4): a window of 2",
        ),
        (
            lambda: ft.linear(x23, x45),
            ValueError,
            "[linear] x (2, 3) and weight (4, 5): expected x (..., in) and weight (out, in)",
        ),
        (
            lambda: ft.cross_entropy(x23, ft.zeros(3, dtype="int64")),
            ValueError,
            "[cross_entropy] log_probs (2, 3) and targets (3,): targets must be (2,)",
        ),
        (
            lambda: ft.cross_entropy(x23, ft.zeros(2)),
            TypeError,
            "[cross_entropy] targets are float32",
        ),
        (
            lambda: ft.layer_norm(x23, ft.ones(2)),
            ValueError,
            "[layer_norm] weight (2,): x (2, 3) needs (3,) for axes (1,)",
        ),
        (
            lambda: ft.take_along_axis(x23, ft.zeros((4, 1), dtype="int64")),
            ValueError,
            "[take_along_axis]",
        ),
        (lambda: ft.frombytes(b"123", (1,), "float32"), ValueError, "3 bytes for (1,) of float32"),
        (lambda: ft.arange(0, 1, 0), ValueError, "[arange] step is 0"),
        (lambda: ft.Device.parse("gpu 0"), ValueError, "expected 'cpu' or 'kind:index'"),
        (lambda: ft.zeros(2, device="cuda:3"), RuntimeError, "has no device cuda:3; it has cpu"),
    ],
)
def test_message_and_kind(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ft.FlError)
    assert words in str(caught.value)
