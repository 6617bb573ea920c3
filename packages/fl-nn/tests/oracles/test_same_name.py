"""Same name, another meaning: what docs/from-pytorch.md says of PyTorch, and our way to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.foreign_names import tables

TABLE = Path(nn.__file__).with_name("foreign_names.txt")
NUMBERS = [[3.0, 1.0, 2.0, 5.0], [4.0, 8.0, 6.0, 0.0]]
ROWS = [[2], [1]]

#: What is typed, on either library; and our way to PyTorch's result.
SAME_NAME: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "std": (lambda lib, x, i: x.std(), lambda x, i: x.std(correction=1)),
    "var": (lambda lib, x, i: x.var(), lambda x, i: x.var(correction=1)),
    "median": (
        lambda lib, x, i: lib.median(x),
        lambda x, i: ft.sort(x.flatten())[(x.size - 1) // 2],
    ),
    "repeat": (lambda lib, x, i: x[0].repeat(2), lambda x, i: ft.tile(x[0], 2)),
    "split": (
        lambda lib, x, i: lib.split(lib.arange(7), 2)[0] if lib is torch else ft.split(x, 2)[0],
        lambda x, i: ft.array_split(ft.arange(7), range(2, 7, 2))[0],
    ),
    "meshgrid": (
        lambda lib, x, i: lib.meshgrid(x[0], x[1, :3])[0],
        lambda x, i: ft.meshgrid(x[0], x[1, :3], indexing="ij")[0],
    ),
    "gather": (
        lambda lib, x, i: lib.gather(x, 1, i) if lib is torch else lib.gather(x, i, 1),
        lambda x, i: ft.take_along_axis(x, i, 1),
    ),
    "scatter": (
        lambda lib, x, i: lib.scatter(x, 1, i, 9) if lib is torch else lib.scatter(x, i, 9, 1),
        lambda x, i: ft.put_along_axis(x, i, 9, 1),
    ),
    "nonzero": (
        lambda lib, x, i: x.nonzero() if lib is torch else ft.stack(list(x.nonzero())),
        lambda x, i: ft.argwhere(x),
    ),
    "max": (lambda lib, x, i: lib.stack(list(x.max(1))), lambda x, i: ft.stack(list(_extreme(x)))),
}


def _extreme(x: ft.Tensor) -> tuple[ft.Tensor, ...]:
    values, places = ft.max_with_index(x, 1)
    return values, places.astype(values.dtype)


@pytest.mark.defect("N17")
@pytest.mark.filterwarnings("ignore:torch.meshgrid")
@pytest.mark.parametrize("name", SAME_NAME)
def test_functions(name):
    typed, ours = SAME_NAME[name]
    theirs = typed(torch, torch.tensor(NUMBERS), torch.tensor(ROWS))
    x, i = ft.asarray(NUMBERS), ft.asarray(ROWS)
    assert typed(ft, x, i).tolist() != theirs.tolist()
    assert ours(x, i).numpy() == pytest.approx(theirs.numpy())


@pytest.mark.defect("N17")
def test_transpose():
    assert torch.ones(2, 3, 4).transpose(0, 1).shape == (3, 2, 4)
    assert ft.ones((2, 3, 4)).swapaxes(0, 1).shape == (3, 2, 4)
    with pytest.raises(ValueError, match="each axis once"):
        ft.ones((2, 3, 4)).transpose(0, 1)


@pytest.mark.defect("N17")
def test_attention():
    theirs, ours = torch.nn.MultiheadAttention(4, 2), nn.MultiHeadAttention(4, 2)
    ours.load_state_dict({name: p.detach().numpy() for name, p in theirs.state_dict().items()})
    x = torch.rand(5, 3, 4)  # steps first
    mask = torch.tensor([[False, True, False, False, True]] * 5)  # True is left out
    expected, weights = theirs(x, x, x, attn_mask=mask)
    assert weights.shape == (3, 5, 5)
    found = ours(ft.asarray(x.numpy()).swapaxes(0, 1), mask=ft.asarray(~mask.numpy()))
    assert found.swapaxes(0, 1).numpy() == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_instance_norm_is_what_its_row_says():
    way = tables.find("InstanceNorm2d", TABLE).way.removeprefix("write ")
    ours, x = eval(way, {"nn": nn, "features": 3}), torch.rand(2, 3, 4, 5)
    assert list(ours.parameters()) == list(torch.nn.InstanceNorm2d(3).parameters()) == []
    expected = torch.nn.InstanceNorm2d(3)(x).numpy()
    assert ours(ft.asarray(x.numpy())).numpy() == pytest.approx(expected, abs=1e-5)
