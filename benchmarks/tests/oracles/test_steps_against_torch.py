"""The models of `static_steps.py` are the same in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import static_steps

import fl_tensor as ft

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("case", static_steps.CASES)
def test_models_have_the_outputs_of_pytorch(case):
    model, twin = static_steps.ours(case), static_steps.theirs(case)
    weights = {name: torch.tensor(p.numpy()) for name, p in model.named_parameters()}
    twin.load_state_dict(weights)
    shape, _ = static_steps.BATCHES[case]
    x = ft.Generator(1).normal((3, *shape[1:]))
    expected = twin(torch.tensor(x.numpy())).detach().numpy()
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-4, atol=1e-5)
