"""Batches that are slices of a data set, one after the other, are one computation."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft

pytest.importorskip("fl_jit")

BATCHES, SIZE, FEATURES = 20, 128, 128


@pytest.mark.defect("B5")
def test_fit_and_evaluate_make_no_plan_for_each_batch():
    from fl_jit import JitBackend

    backend = JitBackend()
    with ft.use(backend):
        x = ft.randn((BATCHES * SIZE, FEATURES))
        y = (x[:, 0] > 0).astype("float32").reshape((-1, 1))
        ft.eval(x, y)
        batches = data.Batch(data.TensorDataset(x, y), SIZE)
        model = nn.Sequential(nn.Linear(FEATURES, 1024), nn.ReLU(), nn.Linear(1024, 1))
        trainer = nn.Trainer(model, nn.SGD(model.parameters(), lr=0.01), nn.mse, progress=False)
        # The first update joins the biases; it is a program of its own.
        trainer.fit(data.Batch(data.TensorDataset(x[:SIZE], y[:SIZE]), SIZE), epochs=1)
        before = len(ft.jit.plans(backend))
        trainer.fit(batches, epochs=2)
        trainer.evaluate(batches)
        assert 0 < len(ft.jit.plans(backend)) - before <= 2
