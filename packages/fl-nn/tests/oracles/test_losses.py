"""Losses and initial values in random configurations against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from torch_twins import FAMILIES, SEED, Case, Draw, check_family, family, torch

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

F = torch.nn.functional
REDUCTIONS = ["mean", "sum", "none"]


def torch_of(x: ft.Tensor | None, dtype: torch.dtype | None = None) -> torch.Tensor | None:
    return None if x is None else torch.tensor(x.numpy(), dtype=dtype)


def shape_of(draw: Draw) -> tuple[int, ...]:
    return draw.sizes(draw.size(1, 3), 1, 5)


@dataclass
class Classes:
    """Options and targets of a loss over classes."""

    note: str
    shape: tuple[int, ...]
    targets: ft.Tensor
    reduction: str
    ignore: int | None
    smoothing: float
    weight: ft.Tensor | None

    def layer(self, kind: type[nn.Module], x: ft.Array) -> ft.Array:
        w = None if self.weight is None else self.weight.astype(x.dtype)
        return kind(self.reduction, self.ignore, 1, w, self.smoothing)(x, self.targets)

    def twin(self, function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        options = {} if self.ignore is None else {"ignore_index": self.ignore}
        if function is F.cross_entropy:
            options["label_smoothing"] = self.smoothing
        w = torch_of(self.weight, x.dtype)
        return function(x, torch_of(self.targets), w, reduction=self.reduction, **options)


def classes_of(draw: Draw) -> Classes:
    n, classes, reduction = draw.size(), draw.size(1, 6), draw.choice(REDUCTIONS)
    rest = draw.sizes(draw.size(0, 2), 1, 3)
    ignore = draw.choice([None, None, 0, -100, classes - 1])
    smoothing = draw.choice([0.0, draw.random()])
    weight = draw.values((classes,)) ** 2 if draw.maybe(0.4) else None
    targets = draw.integers(0, classes, (n, *rest))
    if ignore is not None:
        # Without any target, PyTorch's mean is NaN and ours 0.
        flat = targets.reshape(-1)
        flat[0] = (ignore + 1) % classes if classes > 1 else 0
        if ignore < 0 and flat.size > 1:
            flat[1] = ignore
        targets = flat.reshape(targets.shape)
        ignore = None if classes == 1 and ignore == 0 else ignore
    note = f"{reduction}, ignore {ignore}, smoothing {smoothing}, weight {weight is not None}"
    return Classes(note, (n, classes, *rest), targets, reduction, ignore, smoothing, weight)


@family
def cross_entropy(draw: Draw) -> Case:
    c = classes_of(draw)
    kind = draw.choice(["CrossEntropy", "CategoricalCrossEntropy"])
    return Case(
        lambda x: c.layer(getattr(nn, kind), x),
        lambda x: c.twin(F.cross_entropy, x),
        (draw.values(c.shape),),
        f"{kind}, {c.note}",
    )


@family
def nll_loss(draw: Draw) -> Case:
    c = classes_of(draw)
    if c.smoothing:  # which PyTorch's nll_loss has not: of log-probabilities both are one
        return Case(
            lambda x: c.layer(nn.NLLLoss, ft.log_softmax(x, 1)),
            lambda x: c.twin(F.cross_entropy, x),
            (draw.values(c.shape),),
            c.note,
        )
    return Case(
        lambda x: c.layer(nn.NLLLoss, x),
        lambda x: c.twin(F.nll_loss, x),
        (draw.values(c.shape),),
        c.note,
    )


@family
def binary_cross_entropy(draw: Draw) -> Case:
    shape, reduction = shape_of(draw), draw.choice(REDUCTIONS)
    weight = draw.values(shape) ** 2 if draw.maybe(0.4) else None
    inputs = (ft.sigmoid(draw.values(shape)), ft.sigmoid(draw.values(shape)))

    def mine(p: ft.Array, t: ft.Array) -> ft.Array:
        w = None if weight is None else weight.astype(p.dtype)
        return nn.BinaryCrossEntropy(reduction, w)(p, t)

    def theirs(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(p, t, torch_of(weight, p.dtype), reduction=reduction)

    return Case(mine, theirs, inputs, f"binary, {reduction}", constant=(1,))


@family
def binary_cross_entropy_with_logits(draw: Draw) -> Case:
    shape, reduction = shape_of(draw), draw.choice(REDUCTIONS)
    weight = draw.values(shape) ** 2 if draw.maybe(0.4) else None
    positive = draw.values(shape[-1:]) ** 2 if draw.maybe(0.4) else None

    def mine(x: ft.Array, t: ft.Array) -> ft.Array:
        w, p = (None if v is None else v.astype(x.dtype) for v in (weight, positive))
        return nn.BinaryCrossEntropyWithLogits(reduction, w, p)(x, t)

    def theirs(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(
            x, t, torch_of(weight, x.dtype), reduction=reduction,
            pos_weight=torch_of(positive, x.dtype),
        )  # fmt: skip

    inputs = (draw.values(shape) * 10.0, ft.sigmoid(draw.values(shape)))
    return Case(mine, theirs, inputs, f"logits, {reduction}")


@family
def focal(draw: Draw) -> Case:
    shape, reduction = shape_of(draw), draw.choice(REDUCTIONS)
    alpha, gamma = draw.choice([None, draw.random()]), draw.choice([0.0, 1.0, 2.0, 0.5])

    def theirs(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        p = x.sigmoid()
        hit = p * t + (1 - p) * (1 - t)
        loss = F.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - hit) ** gamma
        if alpha is not None:
            loss = loss * (alpha * t + (1 - alpha) * (1 - t))
        return loss if reduction == "none" else getattr(loss, reduction)()

    targets = draw.integers(0, 2, shape).astype(ft.float64)
    layer = nn.FocalLoss(reduction, alpha, gamma)
    return Case(layer, theirs, (draw.values(shape), targets), constant=(1,))


@family
def kl_div(draw: Draw) -> Case:
    shape, reduction = shape_of(draw), draw.choice([*REDUCTIONS, "batchmean"])
    log_target = draw.maybe()
    targets = draw.values(shape) if log_target else ft.softmax(draw.values(shape), -1)
    if not log_target and draw.maybe():
        targets = ft.where(targets > ft.mean(targets), targets, 0.0)
    some = (1,) if not log_target else ()

    def theirs(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.kl_div(x, t, reduction=reduction, log_target=log_target)

    layer = nn.KLDivergence(reduction, log_target)
    return Case(layer, theirs, (draw.values(shape), targets), f"{reduction}", constant=some)


@family
def distance(draw: Draw) -> Case:
    shape, reduction, delta = shape_of(draw), draw.choice(REDUCTIONS), 0.1 + draw.random()
    mine, theirs = draw.choice(
        [
            (nn.MeanSquaredError(reduction), lambda x, y: F.mse_loss(x, y, reduction=reduction)),
            (nn.MeanAbsoluteError(reduction), lambda x, y: F.l1_loss(x, y, reduction=reduction)),
            (
                nn.HuberLoss(reduction, delta),
                lambda x, y: F.huber_loss(x, y, reduction=reduction, delta=delta),
            ),
        ]
    )
    return Case(mine, theirs, (draw.values(shape), draw.values(shape)))


@family
def cosine_similarity(draw: Draw) -> Case:
    """Any axis of the common shape, which may broadcast itself."""
    shape = draw.sizes(draw.size(1, 3), 2, 4)
    axis = draw.randrange(-len(shape), len(shape))
    narrow = [1 if draw.maybe(0.3) or i == axis % len(shape) else n for i, n in enumerate(shape)]
    x, y = draw.values(shape), draw.values(tuple(narrow))
    x, y = (x, y) if draw.maybe() else (y, x)

    def mine(a: ft.Array, b: ft.Array) -> ft.Array:
        return nn.cosine_similarity(a, b, axis)

    def theirs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(a, b, axis)

    return Case(mine, theirs, (x, y), f"cosine_similarity, axis={axis}")


@family
def cosine(draw: Draw) -> Case:
    n, size, reduction, margin = draw.size(), draw.size(2), draw.choice(REDUCTIONS), draw.random()
    x, y = draw.values((n, size)), draw.values((n, size))
    if draw.maybe():

        def similar(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return F.cosine_similarity(a, b, dim=1)

        return Case(nn.cosine_similarity, similar, (x, y), "cosine_similarity")
    targets = draw.integers(0, 2, (n,)) * 2 - 1

    def theirs(a: torch.Tensor, b: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cosine_embedding_loss(a, b, t, margin, reduction=reduction)

    return Case(nn.CosineEmbeddingLoss(reduction, margin), theirs, (x, y, targets))


HERE = [name for name, draws in FAMILIES.items() if draws.__module__ == __name__]
OF_CLASSES = ("cross_entropy", "nll_loss")


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_over_classes(name):
    check_family(name)


@pytest.mark.defect("V3")
def test_cosines_of_what_broadcasts():
    check_family("cosine_similarity")


DEFECTS = (*OF_CLASSES, "cosine_similarity")


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("name", [name for name in HERE if name not in DEFECTS])
def test_random_configurations(name):
    check_family(name)


@pytest.mark.parametrize("bounds", [(-2.0, 2.0), (0.0, 1.0), (-1.0, 3.0)])
def test_truncated_normals_are_spread_alike(bounds):
    low, high = bounds
    mine = nn.init.truncated_normal((20_000,), 0.5, 0.8, low, high, generator=ft.Generator(SEED))
    theirs = torch.nn.init.trunc_normal_(torch.empty(20_000), 0.5, 0.8, low, high)
    assert low <= ft.min(mine).item() and ft.max(mine).item() <= high
    assert ft.mean(mine).item() == pytest.approx(theirs.mean().item(), abs=0.03)
    assert ft.std(mine).item() == pytest.approx(theirs.std().item(), abs=0.03)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (6, 2, 2), (2, 3, 3)])
def test_orthogonal_matrices_are_orthogonal_where_the_twin_is(shape):
    mine = nn.init.orthogonal(shape, 1.5, generator=ft.Generator(SEED), dtype=ft.float64)
    theirs = torch.nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64), 1.5)
    for found in (torch.tensor(mine.numpy()), theirs):
        matrix = found.reshape(shape[0], math.prod(shape[1:])) / 1.5
        if matrix.shape[0] > matrix.shape[1]:
            matrix = matrix.T
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(len(matrix)).double())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3)])
def test_cross_entropy_of_distributions(
    shape: tuple[int, ...], smoothing: float, reduction: str
) -> None:
    generator = ft.Generator(1)
    x, shares = generator.normal(shape), ft.softmax(generator.normal(shape), 1)
    weight = generator.uniform((shape[1],), 0.5, 2.0)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    twin = torch_of(x).requires_grad_()
    expected = F.cross_entropy(twin, torch_of(shares), torch_of(weight), **options)
    variable = ag.Variable(x, requires_grad=True)
    found = nn.cross_entropy(variable, shares, weight=weight, **options)
    assert found.tensor.numpy() == pytest.approx(expected.detach().numpy(), rel=1e-4, abs=1e-5)
    found.sum().backward()
    expected.sum().backward()
    assert variable.grad.numpy() == pytest.approx(twin.grad.numpy(), rel=1e-3, abs=1e-5)
