"""A run that another number of ranks goes on with ends as one that was not interrupted."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from bits import flat
from cut import Cut, CutAt

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft

EPOCHS, SAMPLES, SIZE = 3, 37, 8  # 5 steps in an epoch


class Counting(data.Dataset):
    """Samples, and how often each was made in every epoch."""

    def __init__(self):
        self.x = ft.randn((SAMPLES, 3), ft.Generator(1), dtype=ft.float64)
        self.seen = Counter()
        self.now = 0

    def set_epoch(self, epoch):
        self.now = epoch

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        index = int(index)
        self.seen[self.now, index] += 1
        x = self.x[index]
        return x, ft.asarray(int(x[0].item() < x[1].item()), ft.int64)


def trained(communicator, folder, cut, resume, seed, every=1, dropout=0.0, seen=None):
    """Weights and history, or None of a run that is cut after so many steps."""
    ft.seed(100 * seed + communicator.rank)
    source = Counting()
    place = {"rank": communicator.rank, "world_size": communicator.world_size}
    batches = data.Batch(data.Shuffle(source, seed=seed or None), SIZE, **place)
    model = nn.Sequential(
        nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)
    ).to("float64")  # fmt: skip
    g = ft.Generator(5)
    for parameter in model.parameters():
        parameter.tensor = ft.randn(parameter.shape, g, dtype=ft.float64)
    optimizer = nn.AdamW(model.parameters(), lr=0.05)
    run = nn.Trainer(
        model,
        optimizer,
        nn.cross_entropy,
        communicator=communicator,
        meters={"error": nn.FrameErrorMeter()},
        schedule=nn.CosineAnnealingLR(optimizer, 15),
        ema=nn.EMA(model, 0.9),
        callbacks=[CutAt(cut)],
        out=folder,
        checkpoint_every=every,
        progress=False,
    )
    if resume:
        run.resume()
        source.seen.clear()
    try:
        history = run.fit(batches, epochs=EPOCHS)
    except Cut:
        return None, source.seen, run.step
    for record in history:
        record["seconds"] = 0
    weights = [p.tolist() for p in model.parameters()]
    averages = [x.tolist() for x in run.ema.averages.values()]
    return (weights, averages, history), source.seen, run.step


def started(world_size, folder, cut, resume, seed=7, **options):
    program = dist.threads.run if world_size > 1 else dist.LocalCommunicator.run
    return program(world_size, trained, folder, cut, resume, seed, *options.values())


@pytest.mark.parametrize("seed", [7, 0])  # 0: drawn, or 0 where ranks share
@pytest.mark.parametrize("before, after", [(2, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("cut", [5 + 3, 2 * 5 + 1])
def test_no_sample_is_repeated_or_left_out(tmp_path, before, after, cut, seed):
    ranks = started(before, tmp_path / "parts", cut, False, seed)
    # `cut` steps were made, and all but the last are in the checkpoint.
    whole = started(before, tmp_path / "whole", None, False, seed)[0][0]
    found = started(after, tmp_path / "parts", None, True, seed)
    expected, weights = list(flat(whole)), list(flat(found[0][0]))
    assert weights == pytest.approx(expected, rel=1e-11, abs=1e-11)
    assert all(list(flat(rank[0])) == weights for rank in found)

    epoch, step = divmod(cut - 1, 5)
    left = sum((seen for _, seen, _ in found), Counter())
    whole_epochs = {(e, i): 1 for e in range(epoch + 1, EPOCHS) for i in range(SAMPLES)}
    assert {key: n for key, n in left.items() if key[0] > epoch} == whole_epochs
    rest = {i for (e, i) in left if e == epoch}
    assert len(rest) == SAMPLES - step * SIZE
    done = sum((seen for _, seen, _ in ranks), Counter())
    # The step after the checkpoint was made twice, once in each run; no other sample was.
    again = {i for (e, i) in done if e == epoch} & rest
    assert len(again) == min(SIZE, SAMPLES - step * SIZE)


def test_ranks_draw_from_streams_of_their_own_and_the_same_each_time(tmp_path):
    started(1, tmp_path, 8, False, every=1, dropout=0.5)
    state = (tmp_path / "checkpoint.safetensors").read_bytes()

    def masks(communicator):
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1))
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.mse, communicator=communicator
        )
        run.resume(tmp_path / "dropout.safetensors")
        return model[0](ft.ones(64)).tolist(), ft.rand((3,)).tolist()

    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1))
    run = nn.Trainer(model, nn.SGD(model.parameters(), lr=0.1), nn.mse)
    run.save(tmp_path / "dropout.safetensors")
    first = dist.threads.run(2, masks)
    assert first[0] != first[1]
    assert dist.threads.run(2, masks) == first
    ends = []
    for _ in range(2):
        (tmp_path / "checkpoint.safetensors").write_bytes(state)
        ends.append([rank[0] for rank in started(2, tmp_path, None, True, every=1, dropout=0.5)])
    assert ends[0] == ends[1]


def dynamic(communicator, folder, cut, resume):
    """Batches by length, of which there are fewer with more ranks."""
    place = {"rank": communicator.rank, "world_size": communicator.world_size}
    x = ft.randn((24, 3), ft.Generator(1))
    source = data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))
    batches = data.DynamicBatch(source, [1] * 24, 4, **place)
    model = nn.Sequential(nn.Linear(3, 2))
    run = nn.Trainer(
        model,
        nn.SGD(model.parameters(), lr=0.1),
        nn.cross_entropy,
        communicator=communicator,
        callbacks=[CutAt(cut)],
        out=folder,
        checkpoint_every=1,
        progress=False,
    )
    if resume:
        run.resume()
    run.fit(batches, epochs=2)
    return run.step


def test_batches_of_another_size_go_on_between_epochs_alone(tmp_path):
    with pytest.raises(Cut):
        dynamic(dist.local(), tmp_path, 7, False)  # the checkpoint is of step 6: an epoch
    assert dist.threads.run(2, dynamic, tmp_path, None, True) == [9, 9]
    with pytest.raises(Cut):
        dynamic(dist.local(), tmp_path / "other", 9, False)
    with pytest.raises(dist.ProgramError, match="began with 6 batches per epoch, now there are 3"):
        dist.threads.run(2, dynamic, tmp_path / "other", None, True)


# ---- a rank that is killed -----------------------------------------------------------------------


def launched(folder, ranks, killed, dropout, *options):
    """The loss of the last epoch and the number of ranks in the end, under `fl-dist run`."""
    program = Path(__file__).with_name("restarted_program.py")
    start = "import sys; from fl_dist.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "run", "-n", ranks, *options, program]
    words = [str(word) for word in (*command, folder, killed, dropout)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    (line,) = [line for line in ended.stdout.splitlines() if "loss" in line]
    loss, size = line.split()[-2:]
    return float.fromhex(loss), int(size), ended.stderr


def test_a_restarted_run_ends_with_the_bits_of_one_that_nobody_killed(tmp_path):
    whole, *_ = launched(tmp_path / "whole", 2, "whole", 0.5)
    loss, size, said = launched(tmp_path / "parts", 2, "killed", 0.5, "--restarts", "1")
    assert "SIGKILL" in said
    assert (loss, size) == (whole, 2)


def test_a_restart_with_the_ranks_that_are_left_ends_with_the_same_loss(tmp_path):
    whole, *_ = launched(tmp_path / "whole", 1, "whole", 0.0)
    options = "--restarts", "1", "--min-ranks", "1"
    loss, size, _ = launched(tmp_path / "parts", 2, "killed", 0.0, *options)
    assert size == 1
    assert loss == pytest.approx(whole, rel=1e-11)
