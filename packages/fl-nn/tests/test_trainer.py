"""Trainer on one rank: what it does, writes, says, and refuses."""

from __future__ import annotations

import io
import json
import math
import re

import pytest

import fl_autograd as ag
import fl_data as data
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError


def samples(count=64, seed=0):
    """Points in the plane, and whether they lie above the diagonal."""
    x = ft.randn((count, 2), ft.Generator(seed))
    return data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))


def model(seed=0):
    g = ft.Generator(seed)
    return nn.Sequential(nn.Linear(2, 16, generator=g), nn.ReLU(), nn.Linear(16, 2, generator=g))


def trainer(net=None, **options):
    net = net or model()
    optimizer = nn.SGD(net.parameters(), lr=0.5, momentum=0.9)
    options.setdefault("progress", False)
    return nn.Trainer(net, optimizer, nn.cross_entropy, **options)


def batches(size=16, **options):
    return data.Batch(data.Shuffle(samples(**options)), size)


def test_training_learns():
    ft.seed(0)  # the order of the samples
    history = trainer(meters={"error": nn.FrameErrorMeter()}).fit(
        batches(count=400), data.Batch(samples(200, seed=1), 50), epochs=8
    )
    assert [record["epoch"] for record in history] == list(range(1, 9))
    assert history[-1]["step"] == 8 * 25
    assert history[-1]["train_loss"] < 0.5 * history[0]["train_loss"]
    assert history[-1]["valid_error"] < 5.0


def test_the_same_seeds_give_the_same_bits():
    def run():
        ft.seed(3)  # of the order of the batches
        return trainer().fit(batches(), batches(seed=1), epochs=2)

    first, second = run(), run()
    for one, other in zip(first, second):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize("validated", [False, True])
def test_a_plateau_is_one_of_the_validation_loss_if_there_is_one(validated):
    net = model()
    optimizer = nn.SGD(net.parameters(), lr=0.1)
    schedule = nn.ReduceLROnPlateau(optimizer)
    run = nn.Trainer(net, optimizer, nn.cross_entropy, schedule=schedule, progress=False)
    history = run.fit(batches(), batches(seed=1) if validated else None, epochs=2)
    losses = [record["valid_loss" if validated else "train_loss"] for record in history]
    assert schedule.best == min(losses)


def test_a_step_equals_the_same_step_by_hand():
    x, y = batches()[0]
    net = model()
    optimizer = nn.SGD(net.parameters(), lr=0.5, momentum=0.9)
    loss = nn.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()

    other = trainer()
    assert other.train_step((x, y)) == loss.item()
    for mine, theirs in zip(net.parameters(), other.model.parameters()):
        assert mine.tolist() == theirs.tolist()


def test_the_mean_loss_counts_samples_and_not_batches():
    net = nn.Sequential(nn.View((-1, 1)))
    net.unused = nn.Parameter(ft.zeros(1))
    loss = nn.Trainer(net, nn.SGD([net.unused], lr=0.0), nn.mse, progress=False)
    x = ft.asarray([[1.0], [1.0], [4.0]])
    found = loss.evaluate(data.Batch(data.TensorDataset(x, ft.zeros((3, 1))), 2))
    assert found == {"loss": pytest.approx(6.0)}


def test_evaluation_records_nothing_and_leaves_modes_and_statistics():
    net = nn.Sequential(nn.BatchNorm(2), nn.Dropout(), *model())
    run = trainer(net)
    seen = []
    net.register_forward_hook(lambda m, i, o: seen.append((o.requires_grad, net[1].training)))
    before = net.state_dict()
    run.evaluate(batches())
    assert set(seen) == {(False, False)} and net[1].training and ag.is_grad_enabled()
    assert {k: v.tolist() for k, v in net.state_dict().items()} == {
        k: v.tolist() for k, v in before.items()
    }


def test_models_may_have_several_inputs():
    class Sum(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(ft.ones(()))

        def forward(self, x, y):
            return (x + y) * self.scale

    net = Sum()
    ds = data.TensorDataset(ft.ones((4, 1)), ft.ones((4, 1)), ft.full((4, 1), 2.0))
    run = nn.Trainer(net, nn.SGD(net.parameters(), lr=0.1), nn.mse, progress=False)
    assert run.fit(data.Batch(ds, 2), epochs=1)[0]["train_loss"] == 0.0


def test_each_epoch_has_its_own_order():
    seen = []

    class Spy(data.Shuffle):
        def set_epoch(self, epoch):
            seen.append(epoch)
            super().set_epoch(epoch)

    trainer().fit(data.Batch(Spy(samples()), 16), epochs=3)
    assert seen == [0, 1, 2]


# ---- files ---------------------------------------------------------------------------------------


def test_the_log_tells_the_run_line_by_line(tmp_path):
    run = trainer(out=tmp_path, log_every=2, metadata={"name": "plane"})
    history = run.fit(batches(), batches(seed=1), epochs=2)
    records = nn.JsonLog(tmp_path / "log.jsonl").read()
    assert [r["event"] for r in records] == ["start"] + ["step", "step", "epoch"] * 2
    assert records[0]["ranks"] == 1 and records[0]["metadata"] == {"name": "plane"}
    assert records[0]["parameters"] == sum(p.size for p in run.model.parameters())
    assert [r["step"] for r in records if r["event"] == "step"] == [2, 4, 6, 8]
    assert [{**r, "event": None} for r in records if r["event"] == "epoch"] == [
        {**r, "event": None} for r in history
    ]


def test_fit_again_goes_on_in_the_same_log(tmp_path):
    run = trainer(out=tmp_path)
    run.fit(batches(), epochs=1)
    run.fit(batches(count=32), epochs=3)  # other data, if one wants
    records = nn.JsonLog(tmp_path / "log.jsonl").read()
    assert [r.get("epoch") for r in records] == [None, 1, 2, 3]
    assert [r["step"] for r in run.history] == [4, 6, 8]


def test_the_final_checkpoint_holds_the_trained_model(tmp_path):
    run = trainer(out=tmp_path, metadata={"name": "plane"})
    run.fit(batches(), epochs=2)
    checkpoint = nn.load_checkpoint(tmp_path / "checkpoint.safetensors")
    twin = model(seed=1)
    checkpoint.restore_model(twin)
    assert twin[0].weight.tolist() == run.model[0].weight.tolist()
    assert checkpoint.metadata == {"name": "plane"}
    assert (checkpoint.position["epoch"], checkpoint.position["step"]) == (2, 8)


def test_nothing_is_written_without_an_out_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer().fit(batches(), epochs=1)
    assert not list(tmp_path.iterdir())


# ---- progress ------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_elsewhere_than_on_a_terminal_there_is_a_line_per_epoch():
    stream = io.StringIO()
    trainer(progress=True, stream=stream).fit(batches(), batches(), epochs=2)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 and "\r" not in stream.getvalue()
    assert lines[0].startswith("epoch 1/2  train_loss 0.") and "valid_loss" in lines[0]
    assert lines[0].endswith("samples/s")


def test_on_a_terminal_a_bar_is_drawn_and_removed(monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    stream = Terminal()
    trainer(progress=True, stream=stream).fit(batches(), epochs=1)
    bar, _, rest = stream.getvalue().rpartition("\r")
    assert "\repoch 1/1 [######..................] 1/4  loss " in bar
    assert re.search(r"1/4  loss [\d.]+  [\d.]+ samples/s  ETA \d+:\d\d", bar)
    assert rest.startswith("epoch 1/1  train_loss")


def test_a_long_epoch_in_a_file_says_something_every_ten_seconds(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    stream = io.StringIO()
    bar = nn.Progress("work", 100, stream=stream)
    for done in range(1, 101):
        clock[0] += 1.0
        bar.update(done, "fine")
    bar.finish()
    assert stream.getvalue().splitlines()[0] == "work  10/100  fine  1.0/s  ETA 1:30"
    assert len(stream.getvalue().splitlines()) == 10


def test_no_progress_says_nothing(capsys):
    trainer(progress=False).fit(batches(), epochs=1)
    assert capsys.readouterr() == ("", "")


# ---- errors --------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(tmp_path):
    run = trainer(out=tmp_path)
    run.fit(batches(), epochs=1)
    before = run.model[0].weight.tolist()
    bad = data.TensorDataset(ft.full((32, 2), math.nan), ft.zeros(32, ft.int64))
    with pytest.raises(TrainingError) as error:
        run.fit(data.Batch(bad, 8), epochs=2)
    text = str(error.value)
    assert "the loss is nan in epoch 2, batch 1 (step 5), lr=0.5" in text
    assert "Lower the learning rate" in text and "checkpoint.safetensors" in text
    assert run.model[0].weight.tolist() == before


@pytest.mark.parametrize(
    "train, words",
    [
        ([], "no training batches"),
        ([(ft.ones((2, 2)),)], "a batch is a tuple"),
        ([{"x": ft.ones((2, 2))}], "a batch is a tuple.*got dict"),
    ],
)
def test_batches_of_another_form_are_refused(train, words):
    with pytest.raises(TrainingError, match=words):
        trainer().fit(train, epochs=1)


def test_a_loss_that_is_not_a_scalar_is_refused():
    net = model()
    run = nn.Trainer(net, nn.SGD(net.parameters(), lr=0.1), nn.CrossEntropy("none"), progress=False)
    with pytest.raises(TrainingError, match=r"shape \(16,\)"):
        run.fit(batches(), epochs=1)


def test_log_records_are_json_lines(tmp_path):
    log = nn.JsonLog(tmp_path / "deep" / "log.jsonl")
    log.clear()
    log.write({"a": 1})
    there = log.position
    log.write({"b": [1.5]})
    assert log.read() == [{"a": 1}, {"b": [1.5]}]
    log.rewind(there)
    assert [json.loads(line) for line in log.path.read_text().splitlines()] == [{"a": 1}]


def test_figures_that_are_not_finite_are_null_in_the_log(tmp_path):
    log = nn.JsonLog(tmp_path / "log.jsonl")
    log.write({"loss": math.nan, "meters": {"best": [1.5, -math.inf]}, "name": "NaN"})
    assert log.read() == [{"loss": None, "meters": {"best": [1.5, None]}, "name": "NaN"}]
    assert b"NaN," not in log.path.read_bytes() and b"Infinity" not in log.path.read_bytes()
