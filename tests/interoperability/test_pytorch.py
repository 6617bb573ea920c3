"""PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fl_autograd as ag
import fl_tensor as ft


@pytest.fixture
def t():
    return torch.tensor([3.0, 2.0, 1.0])


@pytest.mark.row("PyTorch", "torch.from_dlpack(x)")
def test_pytorch_sees_a_tensor(x, v):
    for found in (torch.from_dlpack(x), torch.as_tensor(x), torch.from_dlpack(v.detach())):
        assert np.shares_memory(found.numpy(), np.asarray(x)) and found.tolist() == [1, 2, 4]


@pytest.mark.row("PyTorch", "torch.tensor(x)")
def test_pytorch_copies_a_tensor(x):
    found = torch.tensor(x)
    assert not np.shares_memory(found.numpy(), np.asarray(x)) and found.tolist() == [1, 2, 4]


@pytest.mark.defect("N24")
@pytest.mark.row("PyTorch", "torch.tensor(v)")
@pytest.mark.parametrize("read", [torch.tensor, torch.as_tensor, torch.from_dlpack])
def test_a_gradient_is_not_exported(read, v):
    for variable in (v, v * 2, v.sum()):
        with pytest.raises(ag.GradError, match=r"requires a gradient, .*: export v.detach\(\)"):
            read(variable)
        assert read(variable.detach()).tolist() == variable.tolist()


@pytest.mark.row("PyTorch", "ft.asarray(t)")
def test_a_tensor_of_pytorch_is_copied(t):
    found = ft.asarray(t)
    t[0] = 9
    assert found.tolist() == [3, 2, 1]
    with pytest.raises(ft.DTypeError, match=r"require gradient, use tensor.detach\(\)"):
        ft.asarray(t.requires_grad_())


@pytest.mark.row("PyTorch", "ft.from_dlpack(t)")
def test_a_tensor_of_pytorch_is_borrowed(t):
    assert np.shares_memory(np.asarray(ft.from_dlpack(t)), t.numpy())


@pytest.mark.row("PyTorch", "x + t")
def test_operators_are_ours_on_either_side(v, t):
    for found in (v * t, t * v):
        assert isinstance(found, ag.Variable) and found.tolist() == [3, 4, 4]
        assert ag.grad(found.sum(), v).tolist() == [3, 2, 1]


@pytest.mark.row("PyTorch", "torch.exp(x)")
def test_functions_of_pytorch_want_its_tensors(x):
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.exp(x)
    assert torch.exp(torch.from_dlpack(x)).shape == (3,)
