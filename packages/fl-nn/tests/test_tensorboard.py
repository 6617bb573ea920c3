"""The TensorBoard callback, read back."""

from __future__ import annotations

import sys

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError


def trainer(*callbacks, **options):
    model = nn.Linear(2, 1, generator=ft.Generator(1))
    return nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.1), nn.mse, callbacks=callbacks, progress=False,
        **options,
    )  # fmt: skip


def batches():
    x = ft.randn((12, 2), ft.Generator(0))
    return data.Batch(data.TensorDataset(x, x[:, :1]), 4)


def test_without_the_extra_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(TrainingError, match=r'pip install "fl-nn\[tensorboard\]"'):
        nn.TensorBoard()


def events(folder):
    """(step, tag or "from here on") of what a folder holds, and the values by tag."""
    event_file_writer = pytest.importorskip("tensorboardX.proto.event_pb2")
    import struct

    order, values = [], {}
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        while raw:
            (length,) = struct.unpack("<Q", raw[:8])
            event = event_file_writer.Event.FromString(raw[12 : 12 + length])
            raw = raw[16 + length :]
            if event.HasField("session_log"):
                order.append((event.step, "from here on"))
            for value in event.summary.value:
                order.append((event.step, value.tag))
                values.setdefault(value.tag, []).append((event.step, value.simple_value))
    return order, values


def test_steps_and_epochs_are_curves(tmp_path):
    pytest.importorskip("tensorboardX")
    run = trainer(nn.ClipGradNorm(1.0), nn.TensorBoard(), out=tmp_path)
    history = run.fit(batches(), batches(), epochs=2)
    _, values = events(tmp_path / "tensorboard")
    assert [step for step, _ in values["step/loss"]] == [1, 2, 3, 4, 5, 6]
    assert values["step/loss"][-1][1] == pytest.approx(run.last_loss)
    assert values["step/samples_per_second"][0][1] > 0.0 and len(values["step/grad_norm"]) == 6
    assert values["epoch/valid_loss"] == [
        (record["step"], pytest.approx(record["valid_loss"])) for record in history
    ]


def test_every_so_many_steps_in_a_folder_of_choice(tmp_path):
    pytest.importorskip("tensorboardX")
    trainer(nn.TensorBoard(tmp_path / "curves", every=3)).fit(batches(), epochs=2)
    assert [step for step, _ in events(tmp_path / "curves")[1]["step/lr"]] == [3, 6]


def test_a_resumed_run_hides_what_came_after_its_checkpoint(tmp_path):
    pytest.importorskip("tensorboardX")

    class Cut(nn.Callback):
        def on_step(self, trainer):
            if trainer.step == 5:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        run = trainer(nn.TensorBoard(), Cut(), out=tmp_path)
        run.fit(batches(), epochs=2)
    run = trainer(nn.TensorBoard(), out=tmp_path)
    run.resume()
    run.fit(batches(), epochs=2)
    assert (4, "from here on") in events(tmp_path / "tensorboard")[0]


def test_a_folder_is_needed():
    pytest.importorskip("tensorboardX")
    with pytest.raises(TrainingError, match="no out folder: give a folder"):
        trainer(nn.TensorBoard()).fit(batches(), epochs=1)
    with pytest.raises(TrainingError, match="give a number of steps"):
        nn.TensorBoard(every=0)
