"""Checkpoints: what comes back, and what is refused without harm."""

from __future__ import annotations

import json
import os
import random
import struct

import pytest
from disk import inside

import fl_nn as nn
import fl_tensor as ft
from fl_nn import CheckpointError, FlError
from fl_tensor.testing import needs


def build(seed=0):
    ft.seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Dropout(0.5), nn.Linear(4, 2))
    return model, nn.Adam(model.parameters(), lr=0.01)


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.mse(model(ft.randn((8, 3))), ft.randn((8, 2)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def saved(tmp_path):
    model, optimizer = build()
    train(model, optimizer, 3)
    path = tmp_path / "run" / "model.safetensors"
    nn.save_checkpoint(path, model, optimizer, position={"step": 3}, metadata={"note": "é"})
    return path


def test_training_goes_on_with_the_same_bits(tmp_path):
    model, optimizer = build()
    train(model, optimizer, 3)
    path = tmp_path / "a.safetensors"
    nn.save_checkpoint(path, model, optimizer)
    expected = train(model, optimizer, 5)

    model, optimizer = build(seed=99)
    nn.load_checkpoint(path).restore(model, optimizer)
    assert train(model, optimizer, 5) == expected


def test_position_and_metadata_come_back(saved):
    checkpoint = nn.load_checkpoint(saved)
    assert checkpoint.position == {"step": 3} and checkpoint.metadata == {"note": "é"}
    assert checkpoint.optimizer["type"] == "Adam" and checkpoint.path == saved


@pytest.mark.parametrize(
    "dtype", sorted(ft.current_backend().dtypes - {ft.complex128}, key=str), ids=str
)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_buffers_of_every_dtype_and_shape_come_back(tmp_path, dtype, shape):
    model, twin = nn.ReLU(), nn.ReLU()
    values = ft.full(shape, 1, dtype)
    model.register_buffer("state", values)
    twin.register_buffer("state", ft.full(shape, 0, dtype))
    nn.save_checkpoint(tmp_path / "a", model)
    nn.load_checkpoint(tmp_path / "a").restore(twin)
    assert twin.state.dtype is dtype and twin.state.tolist() == values.tolist()


@needs("complex128")
def test_a_dtype_that_files_do_not_have_is_refused(tmp_path):
    model = nn.ReLU()
    model.register_buffer("state", ft.full(2, 1j, "complex128"))
    with pytest.raises(nn.CheckpointError, match=r"'model.state' is complex128"):
        nn.save_checkpoint(tmp_path / "a", model)


def test_other_programs_can_read_the_file(saved):
    safetensors = pytest.importorskip("safetensors")
    model, _ = build()
    entries = dict(safetensors.deserialize(saved.read_bytes()))
    weight = entries["model.0.weight"]
    assert weight["dtype"] == "F32" and weight["shape"] == [4, 3]
    nn.load_checkpoint(saved).restore_model(model)
    assert bytes(weight["data"]) == bytes(model[0].weight.tobytes())


def test_evaluation_needs_the_model_alone(saved):
    model, _ = build(seed=5)
    nn.load_checkpoint(saved).restore_model(model)
    other, optimizer = build(seed=6)
    nn.load_checkpoint(saved).restore(other, optimizer)
    x = ft.randn((2, 3))
    assert model.eval()(x).tolist() == other.eval()(x).tolist()


# ---- weights alone -------------------------------------------------------------------------------


def test_weights_alone_keep_their_names(tmp_path):
    model, _ = build()
    nn.save_weights(tmp_path / "w.safetensors", model)
    twin, _ = build(seed=1)
    nn.load_weights(tmp_path / "w.safetensors", twin)
    assert twin[0].weight.tolist() == model[0].weight.tolist()


def test_weights_of_others_load_through_a_table_of_names(tmp_path):
    source = nn.Sequential(nn.Linear(2, 1))
    nn.save_weights(tmp_path / "w", source)
    layer = nn.Linear(2, 1)
    nn.load_weights(tmp_path / "w", layer, rename={"0.weight": "weight", "0.bias": "bias"})
    assert layer.weight.tolist() == source[0].weight.tolist()
    with pytest.raises(CheckpointError, match="two tensors become 'weight'"):
        nn.load_weights(tmp_path / "w", layer, rename={"0.weight": "weight", "0.bias": "weight"})


def test_weights_load_from_a_checkpoint_too(saved):
    model, _ = build(seed=1)
    nn.load_weights(saved, model)
    twin, _ = build(seed=2)
    nn.load_checkpoint(saved).restore_model(twin)
    assert model[0].weight.tolist() == twin[0].weight.tolist()


def test_a_file_of_weights_is_no_checkpoint(tmp_path):
    nn.save_weights(tmp_path / "w", nn.Linear(1, 1))
    with pytest.raises(CheckpointError, match="load_weights"):
        nn.load_checkpoint(tmp_path / "w")


# ---- what does not fit ---------------------------------------------------------------------------


def test_another_model_is_refused_and_left_alone(saved):
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm(4), nn.Dropout(0.5))
    before = model[0].weight.tolist()
    with pytest.raises(CheckpointError) as error:
        nn.load_checkpoint(saved).restore_model(model)
    text = str(error.value)
    assert str(saved) in text and "0.weight has shape (4, 3), here (5, 3)" in text
    assert "unexpected 3.weight" in text and "Build the model with the settings" in text
    assert model[0].weight.tolist() == before


def test_another_dtype_is_refused_with_the_way_out(saved):
    model, _ = build()
    model.to(ft.float64)
    with pytest.raises(CheckpointError, match=r"0.weight is float32, here float64.*model.to"):
        nn.load_checkpoint(saved).restore_model(model)


def test_another_optimizer_is_refused_and_the_model_left_alone(saved):
    model, _ = build(seed=8)
    before = model[0].weight.tolist()
    with pytest.raises(CheckpointError, match="it is of 'Adam'"):
        nn.load_checkpoint(saved).restore(model, nn.SGD(model.parameters(), lr=0.1))
    assert model[0].weight.tolist() == before


def test_a_checkpoint_without_optimizer_says_so(tmp_path):
    model, optimizer = build()
    nn.save_checkpoint(tmp_path / "a", model)
    with pytest.raises(CheckpointError, match="no optimizer state"):
        nn.load_checkpoint(tmp_path / "a").restore(model, optimizer)


def test_random_generators_must_match(saved):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(CheckpointError, match="unexpected .*2.generator"):
        nn.load_checkpoint(saved).restore(model)


def test_a_newer_schema_asks_for_an_upgrade(saved, monkeypatch):
    monkeypatch.setattr("fl_nn.checkpoint.SCHEMA", 4)
    nn.save_checkpoint(saved, nn.Linear(1, 1))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="schema '4'.*upgrade"):
        nn.load_checkpoint(saved)


def test_metadata_must_be_plain(tmp_path):
    with pytest.raises(CheckpointError, match="plain values"):
        nn.save_checkpoint(tmp_path / "a", nn.Linear(1, 1), metadata={"model": object()})
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_a_checkpoint_error(tmp_path):
    with pytest.raises(CheckpointError, match="nothing.safetensors: cannot be read"):
        nn.load_checkpoint(tmp_path / "nothing.safetensors")


# ---- damage --------------------------------------------------------------------------------------


def test_every_truncation_is_noticed(saved, tmp_path):
    data = saved.read_bytes()
    lengths = [0, 1, 7, 8, 9, 100, *random.Random(0).sample(range(len(data)), 40), len(data) - 1]
    for length in lengths:
        saved.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="model.safetensors"):
            nn.load_checkpoint(saved)


def test_every_flipped_bit_is_noticed(saved):
    data = saved.read_bytes()
    draw = random.Random(1)
    for place in {*range(64), *draw.sample(range(len(data)), 400)}:
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        saved.write_bytes(changed)
        with pytest.raises(CheckpointError):
            nn.load_checkpoint(saved)


def test_bytes_after_the_end_are_noticed(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(CheckpointError):
        nn.load_checkpoint(saved)


def test_an_oversized_header_is_refused_unread(tmp_path):
    path = tmp_path / "huge"
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(CheckpointError, match="claims a header of 1152921504606846976 bytes"):
        nn.load_checkpoint(path)


@pytest.mark.parametrize(
    "header, words",
    [
        (b"not json", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "no table of tensors"),
        (b'{"__metadata__": {"format": 3}}', "no table of tensors"),
        (b'{"__metadata__": {"format": "fl_nn.checkpoint", "schema": "1"}}', "not a training"),
    ],
)
def test_headers_that_are_none_are_refused(tmp_path, header, words):
    path = tmp_path / "odd"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(CheckpointError, match=words):
        nn.load_checkpoint(path)


def weights_file(path, dtype, shape, data, **entries):
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)], **entries}
    header = json.dumps({"state": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


@pytest.mark.parametrize(
    "dtype, shape, data, words",
    [
        ("F32", [3], b"\0" * 8, "damaged"),
        ("F32", [-1], b"", "damaged"),
        ("F7", [2], b"\0" * 8, "damaged"),
        ("F8_E5M2", [8], b"\0" * 8, "dtype F8_E5M2, which is not supported|damaged"),
        ("BOOL", [2], b"\1\2", "bytes other than 0 and 1"),
    ],
)
def test_entries_that_make_no_sense_are_refused(tmp_path, dtype, shape, data, words):
    model = nn.ReLU()
    model.register_buffer("state", ft.zeros(2))
    with pytest.raises(CheckpointError, match=words):
        nn.load_weights(weights_file(tmp_path / "w", dtype, shape, data), model)


def test_offsets_outside_the_file_are_refused(tmp_path):
    path = weights_file(tmp_path / "w", "U8", [8], b"\0" * 8, data_offsets=[4, 12])
    with pytest.raises(CheckpointError, match="damaged"):
        nn.load_weights(path, nn.ReLU())


@pytest.mark.parametrize("state", ["{}", "[]", "3", "nonsense", "[" * 100_000])
def test_a_malformed_state_is_refused(tmp_path, state):
    from fl_nn.files.tensorfile import write_tensors

    path = tmp_path / "odd"
    write_tensors(path, {}, {"format": "fl_nn.checkpoint", "schema": "1", "state": state})
    with pytest.raises(CheckpointError, match="malformed"):
        nn.load_checkpoint(path)


# ---- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_the_previous_file_survives_a_write_that_fails(saved, monkeypatch, moment):
    before = saved.read_bytes()

    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    if moment == "write":
        monkeypatch.setattr("struct.pack", fail)
    elif moment == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(os, "replace", inside(saved.parent, fail, os.replace))
    with pytest.raises(OSError, match="No space"):
        nn.save_checkpoint(saved, nn.Linear(9, 9))
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    nn.load_checkpoint(saved)


def test_a_leftover_of_a_killed_writer_is_no_obstacle(saved):
    partial = saved.with_name(saved.name + ".partial")
    partial.write_bytes(b"half")
    nn.load_checkpoint(saved)
    nn.save_checkpoint(saved, nn.Linear(1, 1))
    assert not partial.exists() and nn.load_checkpoint(saved).model.keys() == {"weight", "bias"}


def test_checkpoint_errors_are_fl_errors_and_value_errors():
    assert issubclass(CheckpointError, FlError) and issubclass(CheckpointError, ValueError)
