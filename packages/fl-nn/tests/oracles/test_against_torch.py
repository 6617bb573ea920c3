"""Layers, losses and initial values against PyTorch: outputs and gradients."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft

torch = pytest.importorskip("torch")

DTYPES = {"float64": 1e-9, "float32": 1e-4}


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


def close(mine, theirs, dtype):
    theirs = torch.as_tensor(theirs)
    mine = torch.tensor(mine.numpy())
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
    bound = DTYPES[dtype]
    torch.testing.assert_close(mine, theirs.detach(), rtol=bound, atol=bound)


def tensors(shape, dtype, seed=0):
    mine = ft.randn(shape, ft.Generator(seed), dtype=ft.float64).astype(dtype)
    return nn.Parameter(mine), torch.tensor(mine.numpy()).requires_grad_()


def copy_state(mine, theirs):
    """Give the twin the same values: the names of both state dicts must be equal."""
    state = {name: torch.tensor(x.numpy()) for name, x in mine.state_dict().items()}
    assert list(state) == list(theirs.state_dict())
    theirs.load_state_dict(state)


LAYERS = {
    "linear": (lambda: nn.Linear(5, 4), lambda: torch.nn.Linear(5, 4), (3, 2, 5)),
    "linear without bias": (
        lambda: nn.Linear(5, 4, bias=False), lambda: torch.nn.Linear(5, 4, bias=False), (3, 5)
    ),
    "conv": (lambda: nn.Conv2D(3, 4, 3), lambda: torch.nn.Conv2d(3, 4, 3), (2, 3, 7, 6)),
    "conv strided, padded, dilated": (
        lambda: nn.Conv2D(4, 6, (3, 2), (2, 3), (1, 2), (2, 1), 2, False),
        lambda: torch.nn.Conv2d(4, 6, (3, 2), (2, 3), (1, 2), (2, 1), 2, False),
        (2, 4, 9, 8),
    ),
    "conv depthwise": (
        lambda: nn.Conv2D(4, 8, 3, groups=4),
        lambda: torch.nn.Conv2d(4, 8, 3, groups=4),
        (2, 4, 5, 5),
    ),
    "conv same": (
        lambda: nn.Conv2D(2, 3, (4, 3), padding="same", dilation=(1, 2)),
        lambda: torch.nn.Conv2d(2, 3, (4, 3), padding="same", dilation=(1, 2)),
        (2, 2, 6, 7),
    ),
    "max pool": (
        lambda: nn.Pool2D(3, 2, 1), lambda: torch.nn.MaxPool2d(3, 2, 1), (2, 3, 8, 7)
    ),
    "average pool": (
        lambda: nn.Pool2D((3, 2), None, (1, 0), "avg"),
        lambda: torch.nn.AvgPool2d((3, 2), None, (1, 0)),
        (2, 3, 8, 7),
    ),
    "average pool without padding": (
        lambda: nn.Pool2D(3, 2, 1, "avg_exclude_padding"),
        lambda: torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        (2, 3, 8, 7),
    ),
    "relu": (nn.ReLU, torch.nn.ReLU, (4, 5)),
    "log softmax": (lambda: nn.LogSoftmax(1), lambda: torch.nn.LogSoftmax(1), (4, 5, 3)),
    "batch norm": (lambda: nn.BatchNorm(3), lambda: torch.nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "batch norm of vectors": (
        lambda: nn.BatchNorm(3, momentum=None, eps=1e-3),
        lambda: torch.nn.BatchNorm1d(3, momentum=None, eps=1e-3),
        (8, 3),
    ),
    "batch norm without state": (
        lambda: nn.BatchNorm(3, affine=False, track_stats=False),
        lambda: torch.nn.BatchNorm2d(3, affine=False, track_running_stats=False),
        (4, 3, 2, 2),
    ),
    "layer norm": (lambda: nn.LayerNorm((3, 5)), lambda: torch.nn.LayerNorm((3, 5)), (4, 3, 5)),
    "layer norm without bias": (
        lambda: nn.LayerNorm(5, bias=False), lambda: torch.nn.LayerNorm(5, bias=False), (4, 3, 5)
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, dtype):
    make, make_twin, shape = LAYERS[name]
    mine, theirs = make().to(ft.dtype(dtype)), make_twin().to(getattr(torch, dtype))
    for parameter, value in zip(mine.parameters(), range(100)):
        parameter.tensor = tensors(parameter.shape, dtype, seed=50 + value)[0].tensor
    copy_state(mine, theirs)
    for seed in range(2):  # the second time with running statistics from the first
        x, x_twin = tensors(shape, dtype, seed)
        y, y_twin = mine(x), theirs(x_twin)
        close(y, y_twin, dtype)
        weight, weight_twin = tensors(y.shape, dtype, seed=9)
        ft.sum(y * weight.tensor).backward()
        (y_twin * weight_twin.detach()).sum().backward()
        close(x.grad, x_twin.grad, dtype)
        for (own, parameter), (other, twin) in zip(
            mine.named_parameters(), theirs.named_parameters(), strict=True
        ):
            assert own == other
            close(parameter.grad, twin.grad, dtype)
    for own, other in zip(mine.named_buffers(), theirs.named_buffers(), strict=True):
        close(own[1], other[1], dtype)
    close(mine.eval()(x), theirs.eval()(x_twin), dtype)


def test_embedding(dtype):
    mine = nn.Embedding(6, 3, dtype=ft.dtype(dtype))
    theirs = torch.nn.Embedding(6, 3).to(getattr(torch, dtype))
    copy_state(mine, theirs)
    indices = [[1, 5, 1], [0, 1, 2]]
    y, y_twin = mine(ft.asarray(indices)), theirs(torch.tensor(indices))
    close(y, y_twin, dtype)
    ft.sum(ft.square(y)).backward()
    y_twin.square().sum().backward()
    close(mine.weight.grad, theirs.weight.grad, dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore", [None, 2, -100])
@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5)])
def test_cross_entropy(reduction, ignore, shape, dtype):
    x, x_twin = tensors(shape, dtype)
    targets = ft.Generator(1).integers(0, 4, (shape[0], *shape[2:]))
    options = {} if ignore is None else {"ignore_index": ignore}
    loss = nn.cross_entropy(nn.LogSoftmax(1)(x), targets, reduction, ignore)
    twin = torch.nn.functional.cross_entropy(
        x_twin, torch.tensor(targets.numpy()), reduction=reduction, **options
    )
    close(loss, twin, dtype)
    ft.sum(ft.square(loss)).backward()
    twin.square().sum().backward()
    close(x.grad, x_twin.grad, dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse(reduction, dtype):
    x, x_twin = tensors((4, 3), dtype)
    y, y_twin = tensors((4, 3), dtype, seed=1)
    loss = nn.mse(x, y, reduction)
    twin = torch.nn.functional.mse_loss(x_twin, y_twin, reduction=reduction)
    close(loss, twin, dtype)
    ft.sum(ft.square(loss)).backward()
    twin.square().sum().backward()
    close(x.grad, x_twin.grad, dtype)
    close(y.grad, y_twin.grad, dtype)


@pytest.mark.parametrize(
    "mine, theirs",
    [
        (lambda: nn.Linear(300, 200), lambda: torch.nn.Linear(300, 200)),
        (lambda: nn.Conv2D(30, 40, 5), lambda: torch.nn.Conv2d(30, 40, 5)),
        (lambda: nn.Embedding(300, 200), lambda: torch.nn.Embedding(300, 200)),
    ],
)
def test_initial_values_are_spread_alike(mine, theirs):
    ft.seed(0)
    torch.manual_seed(0)
    for one, other in zip(mine().parameters(), theirs().parameters(), strict=True):
        found = ft.std(one.tensor).item()
        assert found == pytest.approx(other.std().item(), rel=0.02 if one.ndim > 1 else 0.2)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_inits_are_spread_alike(kind):
    twin = torch.empty(80, 60, 3, 3)
    for mine, theirs in [
        (nn.init.kaiming_uniform, torch.nn.init.kaiming_uniform_),
        (nn.init.glorot_uniform, torch.nn.init.xavier_uniform_),
    ]:
        mine = getattr(nn.init, mine.__name__.replace("uniform", kind))
        theirs = getattr(torch.nn.init, theirs.__name__.replace("uniform", kind))
        found = ft.std(mine(twin.shape, generator=ft.Generator(0))).item()
        assert found == pytest.approx(theirs(twin).std().item(), rel=0.02)


def test_state_dicts_of_the_twin_load_by_name(tmp_path):
    from safetensors.torch import load_file, save_file

    theirs = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    mine = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm(4))
    nn.load_weights(tmp_path / "theirs.safetensors", mine)
    x, x_twin = tensors((2, 1, 6, 6), "float32")
    close(mine.eval()(x), theirs.eval()(x_twin), "float32")

    nn.save_weights(tmp_path / "mine.safetensors", mine)
    theirs.load_state_dict(load_file(tmp_path / "mine.safetensors"))
