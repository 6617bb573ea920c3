"""Criteria against PyTorch, in float64."""

import os

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.criteria import ctc_loss, rnnt_loss

torch = pytest.importorskip("torch")

CASES = int(os.environ.get("FL_ORACLE_COUNT", "30"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ctc_loss_and_gradient_are_those_of_pytorch(dtype):
    """Empty and infeasible targets, and inputs without frames, included."""
    for k in range(CASES):
        rng = np.random.default_rng(k)
        samples, frames, classes = (int(n) for n in rng.integers([1, 1, 2], [5, 40, 12]))
        most = int(rng.integers(0, 15))
        x = (rng.normal(size=(samples, frames, classes)) * rng.choice([1, 5, 300])).astype(dtype)
        lengths, counts = rng.integers(0, frames + 1, samples), rng.integers(0, most + 1, samples)
        targets = rng.integers(0, classes - 1, (samples, most))
        weights = rng.normal(size=samples)

        v = ag.Variable(ft.asarray(x), requires_grad=True)
        ours = ctc_loss(v, targets, lengths, counts, infeasible="inf", reduction="none")
        zeroed = ctc_loss(v, targets, lengths, counts, infeasible="zero", reduction="none")
        grad = ag.grad((zeroed * ft.asarray(weights, v.dtype)).sum(), v).numpy()

        t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        given = (t.log_softmax(2).transpose(0, 1), torch.tensor(targets), torch.tensor(lengths))
        options = {"blank": classes - 1, "reduction": "none"}
        function = torch.nn.functional.ctc_loss
        theirs = function(*given, torch.tensor(counts), **options).detach().numpy()
        finite = function(*given, torch.tensor(counts), **options, zero_infinity=True)
        (finite * torch.tensor(weights)).sum().backward()

        assert np.allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-6), k
        assert np.allclose(grad, t.grad.numpy(), rtol=0, atol=1e-6), k


def test_rnnt_loss_and_gradient_are_those_of_torchaudio():
    functional = pytest.importorskip("torchaudio").functional
    for k in range(CASES):
        rng = np.random.default_rng(k)
        samples, frames, most, classes = (int(n) for n in rng.integers([1, 1, 1, 2], [5, 12, 7, 9]))
        x = rng.normal(size=(samples, frames, most + 1, classes)) * rng.choice([1, 5, 30])
        lengths, counts = rng.integers(1, frames + 1, samples), rng.integers(1, most + 1, samples)
        lengths[0], counts[0] = frames, most  # torchaudio asks for it
        targets = rng.integers(0, classes - 1, (samples, most))

        v = ag.Variable(ft.asarray(x.astype(np.float32)), requires_grad=True)
        ours = rnnt_loss(v, targets, lengths, counts, reduction="none")
        grad = ag.grad(ours.sum(), v).numpy()

        t = torch.tensor(x.astype(np.float32), requires_grad=True)
        whole = [torch.tensor(n.astype(np.int32)) for n in (targets, lengths, counts)]
        theirs = functional.rnnt_loss(t, *whole, reduction="none")
        theirs.sum().backward()
        assert np.allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-5), k
        assert np.allclose(grad, t.grad.numpy(), rtol=0, atol=1e-4), k
