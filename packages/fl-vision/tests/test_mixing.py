"""Mixup, cutmix and labels as distributions."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_data import Batch, TensorDataset
from fl_vision.errors import ImageError
from fl_vision.transforms import MixedBatches, Mixing, label_distributions

# Image k has level k everywhere, so that levels tell where pixels are from.
LABELS = ft.asarray([0, 1, 2, 3])
IMAGES = ft.broadcast_to(ft.arange(4).astype(ft.float32).reshape(4, 1, 1, 1), (4, 3, 20, 30))


def test_distributions_of_labels() -> None:
    plain = label_distributions(ft.asarray([2, 0]), 3)
    assert plain.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    smooth = label_distributions(ft.asarray([1]), 4, 0.2).tolist()[0]
    assert smooth == pytest.approx([0.05, 0.85, 0.05, 0.05])
    with pytest.raises(ImageError, match="label 3 of sample 1: give numbers from 0 to 2"):
        label_distributions(ft.asarray([0, 3]), 3)


def test_mixup_mixes_images_and_labels_alike() -> None:
    mixing = Mixing(4, cutmix_alpha=0.0, label_smoothing=0.0)
    shares = []
    for seed in range(200):
        images, targets = mixing(IMAGES, LABELS, seed)
        share = float(targets[0, 0].item())
        expected = share * np.arange(4) + (1 - share) * np.arange(4)[::-1]
        assert np.abs(images.numpy() - expected.reshape(4, 1, 1, 1)).max() < 1e-5
        assert np.abs(targets.numpy().sum(1) - 1).max() < 1e-6
        shares.append(share)
    # Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)).
    assert abs(np.mean(shares) - 0.5) < 0.08
    assert np.var(shares) == pytest.approx(1 / (4 * 2.6), rel=0.25)


def test_cutmix_puts_a_window_in_and_counts_its_pixels() -> None:
    mixing = Mixing(4, mixup_alpha=0.0, label_smoothing=0.0)
    shares = []
    for seed in range(100):
        images, targets = mixing(IMAGES, LABELS, seed)
        foreign = images.numpy() == np.arange(4)[::-1].reshape(4, 1, 1, 1)
        rows, columns = foreign[0, 0].any(1), foreign[0, 0].any(0)
        assert foreign.sum() == 4 * 3 * rows.sum() * columns.sum()
        share = 1 - rows.sum() * columns.sum() / 600
        assert targets[0, 0].item() == pytest.approx(share, abs=1e-6)
        shares.append(share)
    assert min(shares) < 0.2
    assert max(shares) > 0.95


def test_half_of_the_batches_are_cutmix() -> None:
    mixing = Mixing(4)
    cut = [len(np.unique(mixing(IMAGES, LABELS, seed)[0].numpy()[0])) == 2 for seed in range(200)]
    assert 0.3 < np.mean(cut) < 0.6  # some windows are empty, or all


def test_smoothing_goes_into_both_labels() -> None:
    _, targets = Mixing(4, label_smoothing=0.4)(IMAGES, LABELS, 3)
    assert targets.numpy().min() == pytest.approx(0.1)
    assert targets.numpy().sum(1) == pytest.approx(np.ones(4))


def test_batches_are_mixed_by_seed_epoch_and_number() -> None:
    data = TensorDataset(IMAGES, LABELS)
    mixed = MixedBatches(Batch(data, 2), Mixing(4), seed=1)
    assert len(mixed) == 2
    first = mixed[0][0].tolist()
    assert mixed[0][0].tolist() == first
    mixed.set_epoch(1)
    assert mixed[0][0].tolist() != first


def test_a_loss_of_mixed_labels() -> None:
    _, targets = Mixing(4)(IMAGES, LABELS, 0)
    logits = ft.Generator(0).normal((4, 4))
    loss = nn.cross_entropy(logits, targets).item()
    scores = logits.numpy() - np.log(np.exp(logits.numpy()).sum(1, keepdims=True))
    assert loss == pytest.approx(-(targets.numpy() * scores).sum(1).mean(), rel=1e-5)


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_alphas_that_cannot_be(alpha: float) -> None:
    with pytest.raises(ImageError, match="mixup_alpha"):
        Mixing(4, mixup_alpha=alpha)


def test_images_that_cannot_be_mixed() -> None:
    with pytest.raises(ft.ShapeError, match="uint8: give"):
        Mixing(4)(IMAGES.astype(ft.uint8), LABELS, 0)
    with pytest.raises(ft.ShapeError, match=r"labels \(3,\) for images"):
        Mixing(4)(IMAGES, LABELS[:3], 0)
