"""A run that was interrupted and resumed ends with the same bits as one that was not."""

from __future__ import annotations

from itertools import count

import pytest
from cut import Cut, CutAt

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import CheckpointError

EPOCHS, STEPS = 3, 5  # steps per epoch


class Decay(nn.Callback):
    def on_step(self, trainer):
        trainer.optimizer.lr *= 0.95


def noise(sample, generator):
    return sample[0] + generator.normal((3,)) * 0.1, sample[1]


def dataset(rank=0, world_size=1, size=8):
    x = ft.randn((37, 3), ft.Generator(1))
    y = (x[:, 0] < x[:, 1]).astype(ft.int64)
    augmented = data.RandomTransform(data.TensorDataset(x, y), noise)
    return data.Batch(data.Shuffle(augmented, seed=2), size, rank=rank, world_size=world_size)


class Noisy(nn.Module):
    """Adds noise from the context's default generator in training."""

    def forward(self, x):
        return x + ft.randn(x.shape) * 0.01 if self.training else x


def make(out, communicator=None, interrupt_at=None, seed=0, callbacks=(), **options):
    """A run with everything that has state: dropout, statistics, moments, noise, a schedule."""
    ft.seed(seed + (communicator.rank if communicator else 0))
    model = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm(8), Noisy(), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2),
    )  # fmt: skip

    return nn.Trainer(
        model,
        nn.Adam(model.parameters(), lr=0.05, weight_decay=0.01),
        nn.cross_entropy,
        communicator=communicator,
        meters={"error": nn.FrameErrorMeter()},
        out=out,
        log_every=1,
        callbacks=[Decay(), CutAt(interrupt_at), *callbacks],
        progress=False,
        **options,
    )


def everything(run):
    """All state that a user can see, times aside."""
    model = {name: bytes(tensor.tobytes()) for name, tensor in run.model.state_dict().items()}
    optimizer = run.optimizer.state_dict()
    moments = {name: bytes(t.tobytes()) for name, t in optimizer.pop("tensors").items()}
    history = [{**record, "seconds": None} for record in run.history]
    generators = {name: g.state() for name, g in run.model.named_generators()}
    return model, optimizer, moments, history, generators, ft.default_generator().state()


def log_of(folder):
    records = nn.JsonLog(folder / "log.jsonl").read()
    return [{**record, "seconds": None} for record in records]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run = make(folder)
    run.fit(dataset(), dataset(), epochs=EPOCHS)
    return everything(run), log_of(folder)


@pytest.mark.parametrize(
    "interrupt_at, checkpoint_every, resumes_at",
    [
        (STEPS + 2, None, STEPS),  # from the checkpoint after the first epoch
        (STEPS + 3, 1, STEPS + 2),  # from the middle of an epoch
        (2 * STEPS, 2, 2 * STEPS - 2),  # interrupted between the last step and the validation
        (2 * STEPS + 2, STEPS, 2 * STEPS),  # checkpoint between the last step and the validation
        (3, 2, 2),  # in the first epoch
    ],
)
def test_interrupted_and_resumed(
    tmp_path, uninterrupted, interrupt_at, checkpoint_every, resumes_at
):
    run = make(tmp_path, interrupt_at=interrupt_at, checkpoint_every=checkpoint_every)
    with pytest.raises(Cut):
        run.fit(dataset(), dataset(), epochs=EPOCHS)

    run = make(tmp_path, seed=77)
    run.resume()
    assert run.step == resumes_at
    run.fit(dataset(), dataset(), epochs=EPOCHS)
    assert everything(run) == uninterrupted[0]
    assert log_of(tmp_path) == uninterrupted[1]


def scheduled(out, interrupt_at=None, seed=0, plateau=False):
    """A run with a schedule, clipping and averages."""
    ft.seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = nn.AdamW(model.parameters(), lr=0.05)
    if plateau:
        schedule = nn.ReduceLROnPlateau(optimizer, patience=0, threshold=10.0)
    else:
        parts = [nn.LinearLR(optimizer, 0.1, total_iters=4), nn.CosineAnnealingLR(optimizer, 12)]
        schedule = nn.SequentialLR(optimizer, parts, [4])
    return nn.Trainer(
        model,
        optimizer,
        nn.cross_entropy,
        out=out,
        schedule=schedule,
        callbacks=[nn.ClipGradNorm(0.1), CutAt(interrupt_at)],
        ema=nn.EMA(model, 0.9),
        checkpoint_every=1,
        progress=False,
    )


@pytest.mark.parametrize("plateau", [False, True])
def test_schedules_and_averages_are_resumed_too(tmp_path, plateau):
    whole = scheduled(tmp_path / "whole", plateau=plateau)
    whole.fit(dataset(), dataset(), epochs=EPOCHS)
    with pytest.raises(Cut):
        run = scheduled(tmp_path / "parts", STEPS + 3, plateau=plateau)
        run.fit(dataset(), dataset(), epochs=EPOCHS)
    run = scheduled(tmp_path / "parts", seed=7, plateau=plateau)
    run.resume()
    assert run.step == STEPS + 2
    run.fit(dataset(), dataset(), epochs=EPOCHS)
    assert everything(run) == everything(whole)
    assert run.schedule.state_dict() == whole.schedule.state_dict()
    averages = [run.ema.averages for run in (run, whole)]
    assert [x.tolist() for x in averages[0].values()] == [x.tolist() for x in averages[1].values()]
    rates = [record["lr"] for record in whole.history]
    assert rates[-1] < rates[0] and whole.schedule.last_epoch == (3 if plateau else 15)


@pytest.mark.defect("N14")
def test_an_order_without_a_seed_is_resumed_with_data_that_drew_another(tmp_path):
    def unseeded(seed):
        ft.seed(seed)
        x = ft.randn((37, 3), ft.Generator(1))
        y = (x[:, 0] < x[:, 1]).astype(ft.int64)
        augmented = data.RandomTransform(data.TensorDataset(x, y), noise)
        return data.Batch(data.Shuffle(augmented), 8)

    batches = unseeded(5)
    whole = make(tmp_path / "whole")
    whole.fit(batches, batches, epochs=EPOCHS)
    other = unseeded(6)
    assert [y.tolist() for _, y in other] != [y.tolist() for _, y in unseeded(5)]

    batches = unseeded(5)
    run = make(tmp_path / "parts", interrupt_at=STEPS + 3, checkpoint_every=1)
    with pytest.raises(Cut):
        run.fit(batches, batches, epochs=EPOCHS)
    other = unseeded(6)
    run = make(tmp_path / "parts", seed=77)
    run.resume()
    run.fit(other, other, epochs=EPOCHS)
    assert everything(run) == everything(whole)


def test_a_run_can_be_resumed_again_and_again(tmp_path, uninterrupted):
    for interrupt_at in range(3, 15, 3):
        seed = 0 if interrupt_at == 3 else interrupt_at
        run = make(tmp_path, interrupt_at=interrupt_at, checkpoint_every=1, seed=seed)
        if interrupt_at > 3:
            run.resume()
        with pytest.raises(Cut):
            run.fit(dataset(), dataset(), epochs=EPOCHS)
    run = make(tmp_path)
    run.resume()
    run.fit(dataset(), dataset(), epochs=EPOCHS)
    assert everything(run) == uninterrupted[0]


def test_a_finished_run_goes_on_with_more_epochs(tmp_path, uninterrupted):
    make(tmp_path).fit(dataset(), dataset(), epochs=EPOCHS - 1)
    run = make(tmp_path)
    run.resume(tmp_path / "checkpoint.safetensors")
    assert len(run.history) == EPOCHS - 1
    run.fit(dataset(), dataset(), epochs=EPOCHS)
    assert everything(run) == uninterrupted[0]


def test_two_ranks_resume_with_the_same_bits(tmp_path):
    def program(communicator, folder, interrupt_at, resume):
        place = communicator.rank, communicator.world_size
        run = make(folder, communicator, interrupt_at, seed=50 if resume else 0, checkpoint_every=1)
        if resume:
            run.resume()
        try:
            run.fit(dataset(*place), dataset(*place), epochs=EPOCHS)
        except Cut:
            return None
        return everything(run)

    whole = dist.threads.run(2, program, tmp_path / "whole", None, False)
    assert dist.threads.run(2, program, tmp_path / "parts", STEPS + 3, False) == [None, None]
    assert dist.threads.run(2, program, tmp_path / "parts", None, True) == whole
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


def test_other_data_is_refused(tmp_path):
    make(tmp_path).fit(dataset(), epochs=1)
    run = make(tmp_path)
    run.resume()
    with pytest.raises(CheckpointError, match="began with 5 batches per epoch, now there are 10"):
        run.fit(dataset(size=4), epochs=2)


def test_a_checkpoint_of_other_meters_is_refused(tmp_path):
    make(tmp_path).fit(dataset(), epochs=1)
    run = make(tmp_path)
    run.meters["top"] = nn.TopKMeter(1)
    with pytest.raises(CheckpointError, match="with these meters"):
        run.resume()


def test_a_checkpoint_that_no_trainer_wrote_is_refused(tmp_path):
    run = make(tmp_path)
    nn.save_checkpoint(tmp_path / "plain", run.model, run.optimizer)
    with pytest.raises(CheckpointError, match="not written by a Trainer"):
        run.resume(tmp_path / "plain")


def test_resume_needs_a_path_or_an_out_folder():
    with pytest.raises(CheckpointError, match="no out folder"):
        make(None).resume()


def test_a_new_run_in_an_old_folder_starts_its_log_anew(tmp_path):
    for _ in range(2):
        make(tmp_path, overwrite=True).fit(dataset(), epochs=1)
    assert [r["event"] for r in log_of(tmp_path)].count("start") == 1


def test_the_time_of_an_epoch_is_that_of_all_its_parts(tmp_path, monkeypatch):
    ticks = count()
    monkeypatch.setattr("fl_nn.training.trainer.time.monotonic", lambda: float(next(ticks)))
    with pytest.raises(Cut):
        make(tmp_path, interrupt_at=STEPS - 1, checkpoint_every=1).fit(dataset(), epochs=1)
    before = nn.load_checkpoint(tmp_path / "checkpoint.safetensors").position["seconds"]
    run = make(tmp_path)
    run.resume()
    run.fit(dataset(), epochs=1)
    assert run.history[0]["seconds"] > before > 0
