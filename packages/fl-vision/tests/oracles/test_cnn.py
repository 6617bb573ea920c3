"""The network of Listing 8 against the same network in PyTorch, with the same weights."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_nn import cross_entropy
from fl_vision import cnn

torch = pytest.importorskip("torch")


def twin(hidden: int, features: int, kernel: int) -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, 10),
    )


@pytest.mark.parametrize(
    ("side", "features", "hidden", "kernel"), [(28, 3136, 1024, 5), (8, 256, 128, 3)]
)
def test_outputs_and_gradients(side: int, features: int, hidden: int, kernel: int) -> None:
    ft.seed(0)
    ours = cnn((1, side, side), dropout=0.0).to(ft.float64)
    theirs = twin(hidden, features, kernel).double().eval()
    # The names are PyTorch's, so weights go over as they are.
    theirs.load_state_dict(
        {n: torch.from_numpy(v.numpy().copy()) for n, v in ours.state_dict().items()}
    )
    images = ft.Generator(1).normal((5, 1, side, side), dtype=ft.float64)
    targets = ft.asarray([3, 1, 4, 1, 5])

    found = ours(images)
    expected = theirs(torch.from_numpy(images.numpy().copy()))
    cross_entropy(found, targets).backward()
    torch.nn.functional.cross_entropy(expected, torch.from_numpy(targets.numpy().copy())).backward()
    torch.testing.assert_close(
        torch.from_numpy(found.tensor.numpy().copy()), expected.detach(), rtol=1e-10, atol=1e-12
    )
    gradients = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(
            torch.from_numpy(parameter.grad.numpy().copy()),
            gradients[name].grad,
            rtol=1e-9,
            atol=1e-12,
            msg=name,
        )
