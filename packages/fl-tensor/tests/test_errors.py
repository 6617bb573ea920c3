"""Errors name the operation, the operands with their shapes, and the way out."""

from __future__ import annotations

import math
from operator import setitem

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend

nan = math.nan
x23, x45 = ft.zeros((2, 3)), ft.zeros((4, 5))
ints = ft.arange(4, dtype="int32")


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
        (lambda: x23.sum(axis=-3), IndexError, "[sum] x (2, 3): axis -3 is out of range"),
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
        (
            lambda: x23.reshape(-1, -1),
            ValueError,
            "[reshape] x (2, 3): one size may be -1, not several as in (-1, -1)",
        ),
        (lambda: ft.ones(2, 3), TypeError, "[ones] dtype 3: a shape is one argument, as in"),
        (lambda: ft.randn(2, 3), ValueError, "[randn] generator 3: expected a Generator; a shape"),
        (lambda: ft.rand(2, 3), ValueError, "[rand] generator 3: expected a Generator; a shape"),
        (lambda: x23.to("nul"), RuntimeError, "(cpu) and no installed backend ("),
        (lambda: ft.zeros((2, -1)), ValueError, "[zeros] shape (2, -1): sizes may not be negative"),
        (
            lambda: ft.concatenate([x23, x45]),
            ValueError,
            "[concatenate] xs[0] (2, 3) and xs[1] (4, 5)",
        ),
        (lambda: ft.concatenate([]), ValueError, "[concatenate] expected at least one array"),
        (lambda: ft.stack(None), TypeError, "[stack] expected a sequence of arrays, got NoneType"),
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
            "[cross_entropy] logits (2, 3) and targets (3,): targets must be (2,)",
        ),
        (
            lambda: ft.nll_loss(x23, ft.zeros(3, dtype="int64")),
            ValueError,
            "[nll_loss] log_probs (2, 3) and targets (3,): targets must be (2,)",
        ),
        (
            lambda: ft.nll_loss(x23, ft.asarray([0, 3])),
            IndexError,
            "[nll_loss] target 3 is outside the 3 classes of log_probs (2, 3)",
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
        (lambda: ft.exp(None), TypeError, "[exp] operand 1 of 1 is None"),
        (lambda: x23 + None, TypeError, "[add] operand 2 of 2 is None"),
        (lambda: ft.linear(x23, None), TypeError, "[linear] operand 2 of 3 is None"),
        (lambda: ft.concatenate([x23, None]), TypeError, "[concatenate] operand 2 of 2 is None"),
        (lambda: x23 + 10**400, TypeError, "does not fit float32"),
        (lambda: 1j < x23, TypeError, "[greater] operands are complex64: greater is for real"),
        (lambda: (1j * x23).astype("float32"), TypeError, "would lose the imaginary part"),
        (lambda: ft.asarray([2]) ** -1, ValueError, "[power] an integer power of -1"),
        (lambda: ft.full(2, nan, "int32"), TypeError, "[full] the value nan does not fit int32"),
        (lambda: ft.full(2, 1j, "float32"), TypeError, "[full] the value 1j does not fit float32"),
        (lambda: ft.pad(ints, 1, value=2**40), TypeError, "does not fit int32"),
        (lambda: ft.pad(ints, 1, value=None), TypeError, "[pad] the value None does not fit int32"),
        (lambda: ft.pad(ints, 1.5), TypeError, "[pad] widths 1.5: expected an int"),
        (lambda: setitem(ints, 0, nan), TypeError, "[setitem] the value nan does not fit"),
        (lambda: setitem(ints, 0, None), TypeError, "[setitem] operand 2 of 2 is None"),
        (lambda: ft.zeros(2.5), TypeError, "[zeros] shape 2.5: expected ints"),
        (lambda: ints.reshape(2.0), TypeError, "[reshape] shape 2.0: expected ints"),
        (lambda: ft.permute(x23, 1.5), TypeError, "[permute] axes 1.5: expected ints"),
        (lambda: ft.split(x23, 1.5), TypeError, "[split] sizes 1.5: expected ints"),
        (lambda: ft.tile(x23, (2, -1)), ValueError, "[tile] shape (2, -1): sizes may not be"),
        (lambda: ft.broadcast_to(x23, (-1, 3)), ValueError, "[broadcast_to] shape (-1, 3)"),
        (lambda: ft.topk(x23, 1.0), TypeError, "[topk] k 1.0: expected an int"),
        (lambda: ft.roll(x23, 0.5), TypeError, "[roll] shift 0.5: expected ints"),
        (lambda: ft.norm(x23, ord="fro"), TypeError, "[norm] ord 'fro': expected a number"),
        (lambda: ft.gelu(x23, "erf"), ValueError, "[gelu] approximate 'erf'"),
        (lambda: ft.one_hot(x23, 3), TypeError, "[one_hot] x is float32: expected class numbers"),
        (lambda: ft.one_hot(ints, -3), ValueError, "[one_hot] classes -3"),
        (
            lambda: ft.conv(ft.zeros((1, 1, 2)), ft.zeros((1, 1, 1)), stride=1.5),
            TypeError,
            "[conv] stride 1.5: expected ints",
        ),
        (
            lambda: ft.scatter(x23, [0], ft.ones(7)),
            ValueError,
            "[scatter] x (7,) and y (1, 3): sizes 7 and 3 do not broadcast",
        ),
        (
            lambda: ft.batch_norm(x23, ft.zeros(3), ft.ones(3), ft.ones(1)),
            ValueError,
            "[batch_norm] weight (1,): x (2, 3) needs (3,)",
        ),
        (lambda: ft.arange(0, 300, dtype="uint8"), TypeError, "299 does not fit uint8"),
        (lambda: ft.arange(math.inf), ValueError, "[arange] inf"),
        (lambda: ft.from_dlpack(5), TypeError, "[from_dlpack] a int has no __dlpack__"),
        (lambda: ft.frombytes("ab", 2, "uint8"), TypeError, "[frombytes] a str has no bytes"),
        (lambda: ft.Device.parse("gpu 0"), ValueError, "expected 'cpu' or 'kind:index'"),
        (lambda: ft.zeros(2, device="cuda:3"), RuntimeError, "has no device cuda:3; it has cpu"),
    ],
)
def test_message_and_kind(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ft.FlError)
    assert words in str(caught.value)


class Unchecked(NumpyBackend):
    """Leaves every check to the front end."""

    CONTRACT = (1, 0)
    name = "unchecked"
    checks_shapes = False


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: x + y, "[add] x (2, 3) and y (4, 5)"),
        (lambda x, y: x @ y, "[matmul] x (2, 3) and y (4, 5)"),
        (lambda x, y: ft.concatenate([x, y]), "[concatenate] xs[0] (2, 3)"),
        (lambda x, y: ft.topk(x, 4), "[topk] x (2, 3): k = 4"),
        (lambda x, y: ft.max(x[:0], 0), "[max] x (0, 3): nothing to choose from"),
    ],
)
def test_backends_that_do_not_check_are_protected(call, words):
    x, y = x23.to(backend := Unchecked()), x45.to(backend)
    with pytest.raises(ft.ShapeError if "topk" not in words else ft.ArgumentError) as caught:
        call(x, y)
    assert words in str(caught.value)


@pytest.mark.parametrize("n", [2, np.int64(2), ft.asarray(2)], ids=["int", "numpy", "tensor"])
def test_sizes_may_be_any_integer(n):
    x = ft.ones((4, 2))
    assert ft.zeros(n).shape == (2,)
    assert x.reshape(n, -1).shape == (2, 4)
    assert [p.shape for p in ft.split(x, n)] == [(2, 2)] * 2
    assert ft.tile(x, n).shape == (4, 4)
    assert ft.max_pool(x.reshape(1, 1, 4, 2), n).shape == (1, 1, 2, 1)
    assert ft.conv(x.reshape(1, 1, 4, 2), ft.ones((1, 1, 1, 1)), n, n).shape == (1, 1, 4, 3)


@pytest.mark.parametrize("call", [lambda x: x.sum(2), lambda x: ft.flip(x, -3)])
def test_an_axis_that_is_not_there_is_an_axis_error_of_both_kinds(call) -> None:
    with pytest.raises(ft.AxisError, match="out of range for 2 axes") as caught:
        call(ft.zeros((2, 3)))
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, IndexError)


def test_results_of_factorisations_have_the_standards_names() -> None:
    x = ft.asarray([[2.0, 1.0], [1.0, 3.0]])
    assert isinstance(ft.linalg.qr(x), ft.linalg.QRResult) and ft.linalg.qr(x).R.shape == (2, 2)
    assert ft.linalg.svd(x).S.shape == ft.linalg.eigh(x).eigenvalues.shape == (2,)
    assert ft.linalg.eig(x).eigenvectors.shape == (2, 2)
    assert ft.linalg.slogdet(x).sign.item() == 1.0
