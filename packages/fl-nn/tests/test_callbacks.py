"""Callbacks: when they are called, and what those of the library do."""

from __future__ import annotations

import math

import pytest

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import CheckpointError, TrainingError
from fl_tensor.reproducible import is_reproducible


def batches(count=64, size=16, seed=0):
    x = ft.randn((count, 2), ft.Generator(seed))
    return data.Batch(data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64)), size)


def trainer(*callbacks, lr=0.5, **options):
    g = ft.Generator(0)
    model = nn.Sequential(nn.Linear(2, 8, generator=g), nn.ReLU(), nn.Linear(8, 2, generator=g))
    optimizer = nn.SGD(model.parameters(), lr=lr)
    options.setdefault("progress", False)
    return nn.Trainer(model, optimizer, nn.cross_entropy, callbacks=callbacks, **options)


class Script(nn.Callback):
    """Validation losses as if they had been measured."""

    def __init__(self, *losses):
        self.losses = losses

    def on_epoch_end(self, trainer, record):
        record["valid_loss"] = self.losses[record["epoch"] - 1]


class Spy(nn.Callback):
    def __init__(self):
        self.calls = []

    def on_fit_start(self, trainer):
        self.calls.append(f"fit from {trainer.epoch}")

    def on_epoch_start(self, trainer):
        self.calls.append("epoch")

    def before_step(self, trainer):
        assert trainer.model[0].weight.grad is not None
        self.calls.append(f"before {trainer.step}")

    def on_step(self, trainer):
        self.calls.append(f"step {trainer.step}, batch {trainer.batch} of {trainer.batches}")

    def on_epoch_end(self, trainer, record):
        self.calls.append(sorted(record))

    def on_checkpoint(self, trainer, path):
        self.calls.append(path.name)

    def on_fit_end(self, trainer):
        self.calls.append("end")


def test_the_turns_of_a_run(tmp_path):
    spy = Spy()
    trainer(spy, out=tmp_path, checkpoint_every=2).fit(batches(48), batches(), epochs=1)
    record = ["epoch", "lr", "seconds", "step", "train_loss", "valid_loss"]
    assert spy.calls == [
        "fit from 0", "epoch", "before 0", "step 1, batch 1 of 3", "before 1",
        "step 2, batch 2 of 3", "checkpoint.safetensors", "before 2", "step 3, batch 3 of 3",
        record, "checkpoint.safetensors", "end",
    ]  # fmt: skip


def test_a_run_that_fails_ends_too():
    spy = Spy()
    with pytest.raises(TrainingError):
        trainer(spy).fit([(ft.full((2, 2), math.nan), ft.zeros(2, ft.int64))], epochs=1)
    assert spy.calls == ["fit from 0", "epoch", "before 0", "end"]


def test_all_of_a_run_is_reproducible():
    class Ask(nn.Callback):
        def on_step(self, trainer):
            assert is_reproducible()

        def on_epoch_end(self, trainer, record):
            assert is_reproducible()

    trainer(Ask()).fit(batches(), epochs=1)
    assert not is_reproducible()


def test_a_callback_may_change_the_learning_rate():
    class Halve(nn.Callback):
        rates = []

        def on_step(self, trainer):
            self.rates.append(trainer.optimizer.lr)
            trainer.optimizer.lr /= 2

    trainer(Halve()).fit(batches(), epochs=1)
    assert Halve.rates == [0.5, 0.25, 0.125, 0.0625]


def test_a_callback_may_stop_a_run_in_mid_epoch_and_it_goes_on_later(tmp_path):
    class StopAt(nn.Callback):
        def on_step(self, trainer):
            if trainer.step == 6:
                trainer.stop("six are enough")

    run = trainer(StopAt(), out=tmp_path)
    assert len(run.fit(batches(), epochs=3)) == 1
    assert (run.epoch, run.batch, run.step) == (1, 2, 6)
    resumed = trainer(out=tmp_path)
    resumed.resume()
    resumed.fit(batches(), epochs=3)
    whole = trainer()
    whole.fit(batches(), epochs=3)
    assert resumed.model[0].weight.tolist() == whole.model[0].weight.tolist()


def test_when_one_rank_says_stop_all_do():
    class StopOnRank1(nn.Callback):
        def on_step(self, trainer):
            if trainer.communicator.rank == 1 and trainer.step == 2:
                trainer.stop("rank 1 has seen enough")

    def program(communicator):
        run = trainer(StopOnRank1(), communicator=communicator)
        run.fit(batches(), epochs=2)
        return run.step

    assert dist.threads.run(2, program) == [2, 2]


def test_two_callbacks_with_a_state_need_two_names():
    with pytest.raises(TrainingError, match="two callbacks are called 'EarlyStop'"):
        trainer(nn.EarlyStop(), nn.EarlyStop("train_loss"))
    other = nn.EarlyStop("train_loss")
    other.name = "other"
    assert {"EarlyStop", "other"} <= trainer(nn.EarlyStop(), other).parts.keys()


# ---- EarlyStop -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "losses, options, stops_after",
    [
        ([3.0, 2.0, 2.0, 2.1, 1.0], {"patience": 2}, 4),
        ([3.0, 2.0, 2.1, 1.9, 2.0], {"patience": 2}, 5),
        ([3.0, 2.9, 2.8, 2.7, 2.6], {"patience": 2, "min_delta": 0.15}, 5),
        ([3.0, 2.95, 2.9, 2.7, 2.6], {"patience": 2, "min_delta": 0.15}, 3),
        ([1.0, 2.0, 2.0, 1.0, 3.0], {"patience": 2, "mode": "max"}, 4),
        ([1.0, 1.05, 1.1, 1.3, 1.4], {"patience": 2, "mode": "max", "min_delta": 0.15}, 3),
        ([math.nan, math.nan, 1.0, 1.0, 1.0], {"patience": 2}, 2),
        ([3.0, math.nan, 2.0, math.nan, math.nan], {"patience": 3}, 5),
    ],
)
def test_early_stopping_waits_for_so_many_epochs(losses, options, stops_after):
    history = trainer(Script(*losses), nn.EarlyStop(**options)).fit(batches(), epochs=5)
    assert len(history) == stops_after


def test_early_stopping_counts_on_in_a_resumed_run(tmp_path):
    losses = [1.0, 2.0, 2.0, 2.0, 0.5]
    trainer(Script(*losses), nn.EarlyStop(patience=3), out=tmp_path).fit(batches(), epochs=3)
    for _ in range(2):  # the second time it has stopped already, and stays so
        run = trainer(Script(*losses), nn.EarlyStop(patience=3), out=tmp_path)
        run.resume()
        assert len(run.fit(batches(), epochs=5)) == 4


def test_a_figure_that_there_is_not_is_named_with_those_that_there_are():
    with pytest.raises(TrainingError, match=r"no figure 'valid_loss', but .*train_loss"):
        trainer(nn.EarlyStop()).fit(batches(), epochs=1)


# ---- KeepBest ------------------------------------------------------------------------------------


def kept(folder):
    return {path.name for path in folder.glob("*best*")}


def test_the_best_epochs_are_kept_and_listed(tmp_path):
    losses = [3.0, 1.0, 2.0, 0.5, math.nan]
    run = trainer(Script(*losses), nn.KeepBest(2), out=tmp_path)
    history = run.fit(batches(), epochs=5)
    files = [f"best-000{epoch}.safetensors" for epoch in range(6)]
    assert [record["best"] for record in history] == [
        [files[1]], [files[2], files[1]], [files[2], files[3]], [files[4], files[2]],
        [files[4], files[2]],
    ]  # fmt: skip
    assert kept(tmp_path) == {files[4], files[2]}
    best = nn.load_checkpoint(tmp_path / files[2])
    assert best.position["epoch"] == 2 and len(best.position["history"]) == 2


def test_of_equals_the_earlier_is_kept_and_more_may_be_better(tmp_path):
    run = trainer(Script(1.0, 1.0, 0.0), nn.KeepBest(1, mode="max"), out=tmp_path)
    assert run.fit(batches(), epochs=3)[-1]["best"] == ["best-0001.safetensors"]


def test_a_run_goes_on_from_a_best_checkpoint(tmp_path):
    def run(folder):
        return trainer(Script(1.0, 2.0, 3.0), nn.KeepBest(1), out=folder)

    whole = run(tmp_path / "whole")
    whole.fit(batches(), epochs=3)
    again = run(tmp_path / "again")
    again.resume(tmp_path / "whole" / "best-0001.safetensors")
    again.fit(batches(), epochs=3)
    assert again.model[0].weight.tolist() == whole.model[0].weight.tolist()
    assert [{**r, "seconds": 0} for r in again.history] == [
        {**r, "seconds": 0} for r in whole.history
    ]


class Killed(Exception):
    pass


class KillAtCheckpoint(nn.Callback):
    def on_checkpoint(self, trainer, path):
        if trainer.epoch == 2:
            raise Killed


def test_killed_right_after_a_checkpoint_what_it_lists_is_there_on_resuming(tmp_path):
    script = Script(3.0, 2.0, 1.0)
    with pytest.raises(Killed):
        run = trainer(script, KillAtCheckpoint(), nn.KeepBest(1), out=tmp_path)
        run.fit(batches(), epochs=3)
    assert run.history[-1]["best"] == ["best-0002.safetensors"]
    assert kept(tmp_path) == {"best-0001.safetensors"}
    run = trainer(script, nn.KeepBest(1), out=tmp_path)
    run.resume()
    run.fit(batches(), epochs=2)  # nothing left to train, but to put in order
    assert kept(tmp_path) == {"best-0002.safetensors"}
    assert nn.load_checkpoint(tmp_path / "best-0002.safetensors").position["epoch"] == 2


def test_a_new_run_replaces_the_files_of_an_older_one(tmp_path):
    trainer(Script(1.0), nn.KeepBest(), out=tmp_path, lr=0.1).fit(batches(), epochs=1)
    run = trainer(Script(1.0, 2.0), nn.KeepBest(), out=tmp_path, lr=0.2, overwrite=True)
    run.fit(batches(), epochs=2)
    best = nn.load_checkpoint(tmp_path / "best-0001.safetensors")
    assert best.position["history"] == run.history[:1]


def test_going_back_to_a_best_checkpoint_leaves_it_what_it_is(tmp_path):
    trainer(Script(1.0, 2.0, 3.0), nn.KeepBest(), out=tmp_path).fit(batches(), epochs=3)
    best = tmp_path / "best-0001.safetensors"
    run = trainer(Script(1.0, 2.0, 3.0), nn.KeepBest(), out=tmp_path)
    run.resume(best)
    run.fit(batches(), epochs=2)
    assert nn.load_checkpoint(best).position["epoch"] == 1


def test_without_links_the_best_are_copied(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    trainer(Script(1.0), nn.KeepBest(), out=tmp_path).fit(batches(), epochs=1)
    nn.load_checkpoint(tmp_path / "best-0001.safetensors")
    assert kept(tmp_path) == {"best-0001.safetensors"}


def test_keeping_the_best_needs_a_folder():
    with pytest.raises(TrainingError, match="no out folder to keep checkpoints in"):
        trainer(nn.KeepBest()).fit(batches(), epochs=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.EarlyStop(patience=0),
        lambda: nn.EarlyStop(min_delta=-1.0),
        lambda: nn.EarlyStop(mode="least"),
        lambda: nn.KeepBest(0),
        lambda: nn.KeepBest(mode="most"),
        lambda: nn.ClipGradNorm(0.0),
        lambda: trainer(accumulate=0),
        lambda: trainer(accumulate=1.5),
        lambda: trainer(checkpoint_every=0),
        lambda: trainer(checkpoint_every=-1),
        lambda: trainer(log_every=-1),
        lambda: trainer(nn.EarlyStop),
    ],
)
def test_settings_without_sense_are_refused(make):
    with pytest.raises(TrainingError, match="give"):
        make()


@pytest.mark.parametrize("callback", [nn.EarlyStop(), nn.KeepBest()])
def test_states_of_something_else_are_refused(callback):
    before = callback.state_dict()
    for state in ({}, {"best": "x", "waited": 1, "kept": [[1]]}, {"kept": 3, "waited": -1}):
        with pytest.raises(nn.StateDictError, match="not the state"):
            callback.load_state_dict(state)
    assert callback.state_dict() == before


def test_a_checkpoint_without_the_callback_is_refused(tmp_path):
    trainer(out=tmp_path).fit(batches(), epochs=1)
    with pytest.raises(CheckpointError, match="no EarlyStop state"):
        trainer(nn.EarlyStop("train_loss"), out=tmp_path).resume()


# ---- ClipGradNorm --------------------------------------------------------------------------------


def test_clipped_steps_are_short_and_the_norm_is_logged(tmp_path):
    run = trainer(nn.ClipGradNorm(0.01), lr=1.0, out=tmp_path, log_every=1)
    before = [p.tensor for p in run.model.parameters()]
    run.train_step(batches()[0])
    moved = sum(
        ft.sum(ft.square(p.tensor - q)).item() for p, q in zip(run.model.parameters(), before)
    )
    assert math.sqrt(moved) == pytest.approx(0.01, rel=1e-3)
    run.fit(batches(), epochs=1)
    steps = [r for r in nn.JsonLog(tmp_path / "log.jsonl").read() if r["event"] == "step"]
    assert all(record["grad_norm"] > 0.01 for record in steps) and len(steps) == 4
