"""WeightNorm among threads, and around modules that have state of their own."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft


@pytest.mark.defect("V15")
@pytest.mark.parametrize(
    "layer", [lambda: nn.Linear(3, 4), lambda: nn.Conv1D(3, 4, 2)], ids=["Linear", "Conv1D"]
)
def test_a_thread_may_call_it_while_another_one_does(layer):
    inner = layer()
    norm, x = nn.WeightNorm(inner), ft.randn((2, 3, 3), ft.Generator(0))
    wanted = norm(x).tolist()
    found = []

    def meanwhile(module, inputs):
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=lambda: found.append(norm(x).tolist()))
            thread.start()
            thread.join()

    inner.register_forward_pre_hook(meanwhile)
    assert norm(x).tolist() == wanted and found == [wanted]


@pytest.mark.defect("V15")
def test_its_module_is_not_changed_while_it_computes():
    inner = nn.Linear(3, 4)
    norm, seen = nn.WeightNorm(inner), []
    inner.register_forward_hook(lambda module, inputs, output: seen.append(inner.weight))
    norm(ft.ones((2, 3)))
    assert seen == [None]
    assert sorted(norm.state_dict()) == ["module.bias", "weight_g", "weight_v"]


def test_running_statistics_of_its_module_are_kept():
    plain, inner = nn.BatchNorm(3), nn.BatchNorm(3)
    norm, x = nn.WeightNorm(inner), ft.randn((8, 3), ft.Generator(0))
    for _ in range(2):
        np.testing.assert_allclose(norm(x).numpy(), plain(x).numpy(), rtol=1e-6)
    followed, expected = inner.running_mean.numpy(), plain.running_mean.numpy()
    np.testing.assert_allclose(followed, expected, rtol=1e-6, atol=1e-7)
    assert inner.num_batches_tracked.item() == 2
    norm.eval()
    np.testing.assert_allclose(norm(x).numpy(), plain.eval()(x).numpy(), rtol=1e-6)
