"""Accumulated steps, averaged weights, and the same Trainer for inference."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

X = ft.randn((24, 3), ft.Generator(0), dtype=ft.float64)
Y = X[:, :1] * 2.0 - X[:, 2:]


def batches(size, **place):
    return data.Batch(data.TensorDataset(X, Y), size, **place)


def trainer(**options):
    g = ft.Generator(1)
    model = nn.Sequential(nn.Linear(3, 4, generator=g), nn.Tanh(), nn.Linear(4, 1, generator=g))
    model.to(ft.float64)
    optimizer = nn.Adam(model.parameters(), lr=0.05)
    return nn.Trainer(model, optimizer, nn.mse, progress=False, **options)


def weights(run):
    return [x for p in run.model.parameters() for x in p.tensor.reshape(-1).tolist()]


# ---- accumulation --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5])  # 5: batches of 5, 5, 5, 5 and 4 samples
def test_accumulated_batches_step_as_one_large_batch(size):
    parts = trainer(accumulate=3)
    parts.fit(batches(size), epochs=2)
    whole = trainer()
    whole.fit(batches(3 * size), epochs=2)
    assert parts.step == whole.step
    assert weights(parts) == pytest.approx(weights(whole), rel=1e-9)
    assert parts.history[-1]["train_loss"] == pytest.approx(whole.history[-1]["train_loss"])


def test_ranks_accumulate_together():
    def program(communicator):
        place = {"rank": communicator.rank, "world_size": communicator.world_size}
        run = trainer(accumulate=2, communicator=communicator)
        run.fit(batches(5, **place), epochs=2)
        return weights(run)

    alone = trainer()
    alone.fit(batches(10), epochs=2)
    for found in dist.threads.run(2, program):
        assert found == pytest.approx(weights(alone), rel=1e-9)


def test_an_accumulating_run_resumes_with_the_same_bits(tmp_path):
    class Stop(nn.Callback):
        def on_step(self, trainer):
            if trainer.step == 2:
                trainer.stop("enough")

    run = trainer(accumulate=3, out=tmp_path, callbacks=[Stop()])
    run.fit(batches(3), epochs=2)
    assert (run.epoch, run.batch) == (0, 6)
    run = trainer(accumulate=3, out=tmp_path)
    run.resume()
    run.fit(batches(3), epochs=2)
    whole = trainer(accumulate=3)
    whole.fit(batches(3), epochs=2)
    assert weights(run) == weights(whole)


# ---- averages ------------------------------------------------------------------------------------


def test_validation_and_prediction_use_the_averages():
    run = trainer()
    run.ema = nn.EMA(run.model, 0.5)
    run.fit(batches(6), epochs=2)
    own = weights(run)
    assert run.ema.updates == 8
    measured, predicted = run.evaluate(batches(24)), run.predict([(X,)])[0]
    assert weights(run) == own
    run.ema.copy_to()
    assert measured["loss"] == pytest.approx(nn.mse(run.model(X), Y).item())
    assert predicted.tolist() == run.model(X).tolist()


# ---- inference -----------------------------------------------------------------------------------


def test_predictions_come_batch_by_batch_without_a_tape_and_without_dropout():
    run = trainer()
    run.model = nn.Sequential(*run.model, nn.Dropout(0.9))
    outputs = run.predict(data.Batch(data.TensorDataset(X), 10))
    assert [output.shape for output in outputs] == [(10, 1), (10, 1), (4, 1)]
    assert not any(output.requires_grad for output in outputs) and run.model.training
    run.model.eval()
    assert ft.concatenate(outputs).tolist() == run.model(X).tolist()


@needs("float16")
def test_prediction_takes_several_inputs_and_has_the_precision_of_training():
    class Sum(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(3, 1)

        def forward(self, x, y):
            return self.layer(x) + self.layer(y)

    model = Sum()
    run = nn.Trainer(model, nn.SGD(model.parameters(), lr=0.1), nn.mse, precision="O1")
    x = ft.ones((2, 3))
    (found,) = run.predict([(x, x)])
    with ag.autocast("O1"):
        assert found.tolist() == model(x, x).tolist()
    assert found.dtype is ft.float16
