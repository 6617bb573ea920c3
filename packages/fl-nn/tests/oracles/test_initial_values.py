"""Initial values, and whole state dicts, beside PyTorch's."""

from __future__ import annotations

import pytest
from torch_twins import close, torch, torch_of

import fl_nn as nn
import fl_tensor as ft


@pytest.mark.parametrize(
    "mine, theirs",
    [
        (lambda: nn.Linear(300, 200), lambda: torch.nn.Linear(300, 200)),
        (lambda: nn.Conv2D(30, 40, 5), lambda: torch.nn.Conv2d(30, 40, 5)),
        (lambda: nn.ConvTranspose2D(30, 40, 5), lambda: torch.nn.ConvTranspose2d(30, 40, 5)),
        (lambda: nn.Embedding(300, 200), lambda: torch.nn.Embedding(300, 200)),
        (lambda: nn.LSTM(80, 90, 2), lambda: torch.nn.LSTM(80, 90, 2)),
        (
            lambda: nn.TransformerEncoderLayer(120, 4, 200),
            lambda: torch.nn.TransformerEncoderLayer(120, 4, 200),
        ),
    ],
)
def test_initial_values_are_spread_alike(mine, theirs):
    ft.seed(0)
    torch.manual_seed(0)
    twins = dict(theirs().named_parameters())
    for name, one in mine().named_parameters():
        other, rel = twins.pop(name), 0.02 if one.ndim > 1 else 0.2
        assert ft.std(one.tensor).item() == pytest.approx(other.std().item(), rel=rel)
        assert ft.mean(one.tensor).item() == pytest.approx(other.mean().item(), abs=0.1)
    assert not twins


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
    x = ft.randn((2, 1, 6, 6))
    close(mine.eval()(x), theirs.eval()(torch_of(x)), 1e-4, "output")

    nn.save_weights(tmp_path / "mine.safetensors", mine)
    theirs.load_state_dict(load_file(tmp_path / "mine.safetensors"))
