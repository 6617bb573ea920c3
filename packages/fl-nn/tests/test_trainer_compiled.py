"""Trainer(compiled=True): the same training, by graphs."""

from __future__ import annotations

import io
import json

import pytest

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft


@pytest.fixture(autouse=True)
def numpy():
    with ft.use("numpy"):
        yield


def network():
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    )


def batches(count=36, size=6):
    x = ft.Generator(1).normal((count, 4))
    y = ft.argmax(x[:, :3], axis=1)
    return data.Batch(data.Shuffle(data.TensorDataset(x, y), seed=2), size)


def trainer(compiled, out=None, lr=0.01, **options):
    """With a schedule, clipping, a meter and averages, unless `options` say otherwise."""
    ft.seed(0)
    model = network()
    optimizer = nn.Adam(model.parameters(), lr)
    options = {
        "schedule": nn.CosineAnnealingLR(optimizer, 30),
        "ema": nn.EMA(model, 0.9, warm_up=True),
        "callbacks": [nn.ClipGradNorm(0.5)],
        "meters": {"accuracy": nn.FrameErrorMeter(accuracy=True)},
        **options,
    }
    return nn.Trainer(
        model, optimizer, nn.cross_entropy, out=out, progress=False, compiled=compiled, **options
    )


def state(run):
    """Everything that the run has come to, but times."""
    history = [{k: v for k, v in each.items() if k != "seconds"} for each in run.history]
    tensors = {**run.model.state_dict(), **run.optimizer.state_dict()["tensors"]}
    if run.ema is not None:
        tensors |= {f"ema.{name}": x for name, x in run.ema.averages.items()}
    values = {name: x.numpy().tobytes() for name, x in tensors.items()}
    numbers = run.optimizer.state_dict()["numbers"], run.optimizer.lr, run.step, run.last_loss
    scaler = run.scaler and run.scaler.state_dict()
    return history, values, numbers, scaler, ft.default_generator().state()


class Scale(nn.Callback):
    """Changes gradients, and counts, between backward and update."""

    def __init__(self):
        self.calls = 0

    def before_step(self, trainer):
        self.calls += 1
        for parameter in trainer.optimizer.parameters:
            parameter.grad = parameter.grad.tensor * 0.5


SETTINGS = {
    "all": dict,
    "accumulation": lambda: {"accumulate": 4},
    "mixed precision": lambda: {"precision": "O1", "scaler": nn.DynamicLossScaler(2.0**22)},
    "accumulation in mixed precision": lambda: {
        "precision": "O1",
        "scaler": nn.DynamicLossScaler(2.0**20, growth_interval=5),
        "accumulate": 2,
    },
    "plain": lambda: {"schedule": None, "ema": None, "callbacks": [], "meters": {}},
    "a hook between": lambda: {"callbacks": [Scale(), nn.ClipGradNorm(0.5)]},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_has_the_bits_of_a_run_without(name):
    runs = [trainer(compiled, **SETTINGS[name]()) for compiled in (False, True)]
    states = []
    for run in runs:
        run.fit(batches(), batches(12), epochs=3)
        states.append(state(run))
    assert states[0] == states[1]
    call = runs[1].compiled_step.call
    assert not call.reasons() and call.compiled_calls >= call.calls / 3, call.explain()
    assert runs[0].compiled_step is None


@pytest.mark.parametrize("name", ["all", "accumulation in mixed precision"])
def test_a_run_resumed_in_the_middle_has_the_bits_of_one_without_a_break(name, tmp_path):
    whole = trainer(True, **SETTINGS[name]())
    whole.fit(batches(), epochs=3)
    wanted = state(whole)

    class Stop(nn.Callback):
        def on_step(self, trainer):
            if trainer.step == 2:
                trainer.stop("enough")

    first = trainer(True, tmp_path, **SETTINGS[name]())
    first.callbacks.append(Stop())
    first.fit(batches(), epochs=3)
    assert 0 < first.batch < first.batches
    ft.seed(5)
    second = trainer(True, tmp_path, **SETTINGS[name]())
    second.resume()
    second.fit(batches(), epochs=3)
    assert state(second) == wanted
    assert second.compiled_step.call.compiled_calls >= 3


def test_a_loss_that_is_not_finite_is_the_same_error():
    def run(compiled):
        made = trainer(compiled, meters={}, ema=None)
        made.fit(batches(), epochs=1)
        before, generator = state(made), ft.default_generator().state()
        x, y = ft.full((6, 4), float("inf")), ft.zeros((6,), ft.int64)
        with pytest.raises(nn.DivergenceError) as caught:
            made.train_step((x, y))
        assert ft.default_generator().state() == generator
        weights = {name: p.tolist() for name, p in made.model.named_parameters()}
        return str(caught.value), weights, before[:2]

    assert run(True) == run(False)


def test_the_norm_of_the_gradients_is_a_figure():
    def run(compiled):
        made = trainer(compiled)
        found = []
        for batch in list(batches()) * 2:
            made.train_step(batch)
            found.append(made.figures["grad_norm"].item())
        return found

    assert run(True) == run(False)


def test_a_step_without_a_graph_runs_as_without_and_says_why_once(tmp_path):
    class Looking(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y * 2.0 if ft.sum(y).item() > 0 else y

    def run(compiled, **options):
        ft.seed(0)
        model = nn.Sequential(Looking(4, 8), nn.Linear(8, 3))
        optimizer = nn.SGD(model.parameters(), 0.1)
        made = nn.Trainer(model, optimizer, nn.cross_entropy, compiled=compiled, **options)
        made.fit(batches(), epochs=3)
        return made

    said = io.StringIO()
    plain = run(False, progress=False)
    made = run(True, out=tmp_path, stream=said)
    assert state_of_weights(made) == state_of_weights(plain)
    assert made.compiled_step.call.compiled_calls == 0
    assert said.getvalue().count("not compiled:") == 1 and "no data" in said.getvalue()
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (record,) = [each for each in records if each["event"] == "not compiled"]
    assert "no data" in record["reason"]


def state_of_weights(run):
    return {name: p.tolist() for name, p in run.model.named_parameters()}


def test_a_hook_that_changes_is_called_at_each_step():
    hook = Scale()
    made = trainer(True, callbacks=[hook])
    made.fit(batches(), epochs=2)
    assert hook.calls == made.step == 12
    assert made.compiled_step.call.compiled_calls == 11


def test_parts_may_be_replaced_between_steps():
    def run(compiled):
        made = trainer(compiled, meters={}, ema=None, callbacks=[])
        for i, batch in enumerate(list(batches()) * 2):
            if i == 4:
                made.loss = lambda output, target: 2.0 * nn.cross_entropy(output, target)
            if i == 8:
                made.callbacks.append(nn.ClipGradNorm(0.1))
            made.train_step(batch)
        return state(made)

    assert run(True) == run(False)


def test_several_ranks_train_without_a_graph():
    def run(communicator):
        model, said = nn.Linear(4, 3), io.StringIO()
        optimizer = nn.SGD(model.parameters(), 0.1)
        options = {"communicator": communicator, "compiled": True, "stream": said}
        made = nn.Trainer(model, optimizer, nn.cross_entropy, **options)
        made.fit(batches(), epochs=1)
        return made.compiled_step, said.getvalue().count("not compiled: several ranks")

    assert dist.threads.run(2, run) == [(None, 1), (None, 0)]
