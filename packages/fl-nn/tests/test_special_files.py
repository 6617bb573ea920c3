"""Links are written through; what is no regular file is neither read nor replaced."""

from __future__ import annotations

import os

import pytest

import fl_nn as nn
import fl_tensor as ft


def model():
    return nn.Linear(2, 3)


READERS = {
    "load_weights": lambda path: nn.load_weights(path, model()),
    "load_checkpoint": nn.load_checkpoint,
    "open_tensors": nn.open_tensors,
    "JsonLog.read": lambda path: nn.JsonLog(path).read(),
    "arch": lambda path: nn.build_sequential(path, 2, 3),
}
WRITERS = {
    "save_weights": lambda path: nn.save_weights(path, model()),
    "save_checkpoint": lambda path: nn.save_checkpoint(path, model()),
    "shards": lambda path: nn.save_weights(path, model(), shard_size=16),
    "save_tensors": lambda path: nn.save_tensors(path, {"x": ft.ones(3)}, {}),
    "JsonLog.write": lambda path: nn.JsonLog(path).write({"x": 1}),
    "JsonLog.clear": lambda path: nn.JsonLog(path).clear(),
}


@pytest.mark.defect("V13")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_fifo_is_not_read(read, fifo):
    with pytest.raises(ft.FlError, match="fifo: .*it is a FIFO, not a regular file"):
        read(fifo)


@pytest.mark.defect("V14")
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_fifo_is_not_written(write, fifo):
    with pytest.raises(ft.FileError, match="fifo: it is a FIFO, not a regular file"):
        write(fifo)
    assert os.listdir(fifo.parent) == ["fifo"]


@pytest.mark.defect("V14", "V18")
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_folder_is_not_replaced(write, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ft.FileError, match="folder: it is a folder, not a regular file"):
        write(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def through_links():
    # The log has always been written through links; shards have names of their own.
    for name, write in WRITERS.items():
        if name != "shards":
            marks = () if "JsonLog" in name else pytest.mark.defect("V14")
            yield pytest.param(write, id=name, marks=marks)


@pytest.mark.parametrize("write", list(through_links()))
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_written_through(write, exists, tmp_path):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and target.is_file()
    assert os.listdir(target.parent) == ["target"]
    written = target.stat().st_size
    write(tmp_path / "plain")
    assert (tmp_path / "plain").stat().st_size == written


@pytest.mark.defect("V14")
def test_the_weights_of_a_link_are_those_that_were_saved(tmp_path):
    link = tmp_path / "latest.safetensors"
    link.symlink_to("weights.safetensors")
    saved, loaded = model(), model()
    nn.save_weights(link, saved)
    nn.load_weights(tmp_path / "weights.safetensors", loaded)
    assert (loaded.weight == saved.weight).all()


@pytest.mark.defect("V14")
def test_a_best_checkpoint_is_no_second_link_to_the_last_one(tmp_path):
    (tmp_path / "checkpoint.safetensors").symlink_to("target.safetensors")

    class Losses(nn.Callback):
        def on_epoch_end(self, trainer, record):
            record["valid_loss"] = float(record["epoch"])

    x = ft.ones((4, 2))
    net = model()
    run = nn.Trainer(
        net,
        nn.SGD(net.parameters(), 0.1),
        nn.mse,
        callbacks=[Losses(), nn.KeepBest(1)],
        out=tmp_path,
        progress=False,
    )
    run.fit([(x, ft.ones((4, 3)))], epochs=2)
    assert nn.load_checkpoint(tmp_path / "target.safetensors").position["epoch"] == 2
    best = tmp_path / "best-0001.safetensors"
    assert not best.is_symlink() and nn.load_checkpoint(best).position["epoch"] == 1
