"""Files of weights: what several names share, shards, what is left of memory, and older files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from disk import inside

import fl_memory
import fl_nn as nn
import fl_tensor as ft


class Tied(nn.Module):
    """An embedding whose table is the output's matrix, too, unless `apart`."""

    def __init__(self, apart=False):
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        if not apart:
            self.head.weight = self.embedding.weight


def header(path):
    data = path.read_bytes()
    return json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])


# ---- what several names share --------------------------------------------------------------------


def test_shared_parameters_are_stored_once_and_loaded_under_both_names(tmp_path):
    model, twin = Tied(), Tied()
    nn.save_weights(tmp_path / "w", model)
    assert header(tmp_path / "w").keys() == {"__metadata__", "embedding.weight"}
    nn.load_weights(tmp_path / "w", twin)
    assert twin.head.weight.tolist() == model.embedding.weight.tolist()
    assert twin.head.weight is twin.embedding.weight


@pytest.mark.parametrize("kind", ["weights", "checkpoint"])
def test_what_was_one_parameter_is_one_again_in_a_model_with_two(tmp_path, kind):
    model = Tied(apart=True)
    if kind == "weights":
        nn.save_weights(tmp_path / "w", Tied())
        nn.load_weights(tmp_path / "w", model)
    else:
        nn.save_checkpoint(tmp_path / "w", Tied())
        nn.load_checkpoint(tmp_path / "w").restore(model)
    assert model.head.weight is model.embedding.weight
    assert len(list(model.parameters())) == 1


def test_on_request_both_get_values_of_their_own(tmp_path):
    nn.save_weights(tmp_path / "w", Tied())
    model = Tied(apart=True)
    nn.load_weights(tmp_path / "w", model, tie=False)
    assert model.head.weight is not model.embedding.weight
    assert model.head.weight.tolist() == model.embedding.weight.tolist()


@pytest.mark.parametrize("kind", [list, dict])
def test_parameters_in_lists_and_dicts_are_tied_again(tmp_path, kind):
    def build(tied):
        model, first = nn.ReLU(), nn.Parameter(ft.ones(2))
        items = [first, first if tied else nn.Parameter(ft.zeros(2))]
        model.parts = items if kind is list else dict(zip("ab", items))
        return model

    nn.save_weights(tmp_path / "w", build(True))
    model = build(False)
    nn.load_weights(tmp_path / "w", model)
    first, second = model.parts if kind is list else model.parts.values()
    assert first is second


def test_a_tuple_cannot_be_tied_and_the_model_stays_as_it_was(tmp_path):
    nn.save_weights(tmp_path / "w", Tied())
    model = nn.ReLU()
    model.embedding = nn.Embedding(5, 3)
    model.head = nn.Linear(3, 5, bias=False)
    weight = model.head.weight
    del model.head.weight
    model.head.held = (weight,)
    twin = Tied()
    twin.head = nn.Linear(3, 5, bias=False)
    twin.head.weight = None
    twin.head.held = (twin.embedding.weight,)
    nn.save_weights(tmp_path / "w", twin)
    before = weight.tolist()
    with pytest.raises(nn.CheckpointError, match="in a tuple"):
        nn.load_weights(tmp_path / "w", model)
    assert weight.tolist() == before


def test_a_file_that_has_both_names_must_have_the_same_values(tmp_path):
    apart, tied = Tied(apart=True), Tied()
    nn.save_weights(tmp_path / "w", apart)
    with pytest.raises(nn.CheckpointError, match=r"embedding.weight and head.weight differ"):
        nn.load_weights(tmp_path / "w", tied)
    apart.head.weight.tensor = apart.embedding.weight.tensor
    nn.save_weights(tmp_path / "w", apart)
    nn.load_weights(tmp_path / "w", tied)
    assert tied.head.weight.tolist() == apart.head.weight.tolist()


def test_a_state_dict_may_have_one_name_of_what_is_shared():
    model, values = Tied(), ft.ones((5, 3))
    model.load_state_dict({"head.weight": values})
    assert model.embedding.weight.tolist() == values.tolist()
    with pytest.raises(nn.StateDictError, match="missing embedding.weight"):
        model.load_state_dict({})


# ---- shards --------------------------------------------------------------------------------------


def deep(layers=6, seed=0):
    ft.seed(seed)
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(layers)])


def test_a_model_is_written_in_shards_with_an_index(tmp_path):
    path, model = tmp_path / "model.safetensors", deep()
    nn.save_weights(path, model, shard_size=600)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert set(index["weight_map"]) == set(model.state_dict())
    assert set(index["weight_map"].values()) == {shard.name for shard in shards}
    assert index["metadata"]["total_size"] == 6 * (64 + 8) * 4
    assert len(shards) == 3 and shards[0].name.startswith("model-00001-of-00003-")
    for shard in shards:
        found = header(shard)
        del found["__metadata__"]
        assert max(entry["data_offsets"][1] for entry in found.values()) <= 600


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json", ""])
def test_shards_load_by_path_index_or_folder(tmp_path, name):
    model, twin = deep(), deep(seed=1)
    nn.save_weights(tmp_path / "model.safetensors", model, shard_size=600)
    nn.load_weights(tmp_path / name, twin)
    assert twin[5].weight.tolist() == model[5].weight.tolist()


def test_a_tensor_larger_than_a_shard_has_one_of_its_own(tmp_path):
    nn.save_weights(tmp_path / "m.safetensors", deep(2), shard_size=1)
    assert len(list(tmp_path.glob("*.safetensors"))) == 4
    nn.load_weights(tmp_path / "m.safetensors", deep(2, seed=1))


def test_what_fits_in_one_shard_is_a_plain_file(tmp_path):
    nn.save_weights(tmp_path / "model.safetensors", deep(), shard_size=1_000_000)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_checkpoints_may_be_shards(tmp_path):
    model = deep()
    optimizer = nn.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(ft.ones((1, 8))).sum().backward()
    optimizer.step()
    nn.save_checkpoint(
        tmp_path / "c.safetensors", model, optimizer, position={"step": 1}, shard_size=600
    )
    assert not (tmp_path / "c.safetensors").exists()
    twin = deep(seed=1)
    other = nn.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    checkpoint = nn.load_checkpoint(tmp_path / "c.safetensors")
    checkpoint.restore(twin, other)
    assert checkpoint.position == {"step": 1}
    assert twin[0].weight.tolist() == model[0].weight.tolist()
    kept = [s["momentum_buffer"].tolist() for s in optimizer.state]
    assert [s["momentum_buffer"].tolist() for s in other.state] == kept


@pytest.mark.parametrize("sizes", [(600, 900), (600, None), (None, 600)])
def test_a_save_replaces_whatever_the_one_before_it_wrote(tmp_path, sizes):
    path, model = tmp_path / "model.safetensors", deep(seed=1)
    (tmp_path / "model-notes.safetensors").write_bytes(b"mine")
    nn.save_weights(path, deep(), shard_size=sizes[0])
    (tmp_path / f"model-00001-of-00002-{'0' * 8}.safetensors.partial").write_bytes(b"killed")
    nn.save_weights(path, model, shard_size=sizes[1])
    twin = deep()
    nn.load_weights(path, twin)
    assert twin[0].weight.tolist() == model[0].weight.tolist()
    kept = {p.name for p in tmp_path.iterdir()} - {"model-notes.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    if sizes[1] is None:
        assert kept == {"model.safetensors"}
    else:
        shards = set(json.loads(index.read_text())["weight_map"].values())
        assert kept == {index.name, *shards}


def test_a_save_that_fails_leaves_the_one_before_it(tmp_path, monkeypatch):
    path, model = tmp_path / "model.safetensors", deep()
    nn.save_weights(path, model, shard_size=600)
    before = sorted(p.name for p in tmp_path.iterdir())
    replace, calls = os.replace, []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return replace(*arguments)

    monkeypatch.setattr(os, "replace", inside(tmp_path, fail, replace))
    with pytest.raises(OSError, match="No space"):
        nn.save_weights(path, deep(seed=1), shard_size=600)
    monkeypatch.undo()
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    twin = deep(seed=2)
    nn.load_weights(path, twin)
    assert twin[0].weight.tolist() == model[0].weight.tolist()


@pytest.mark.parametrize("sizes", [(600, 600), (None, 600), (600, None)])
def test_at_every_moment_of_a_save_what_is_there_loads(tmp_path, monkeypatch, sizes):
    path, old, new = tmp_path / "model.safetensors", deep(seed=1), deep(seed=2)
    nn.save_weights(path, old, shard_size=sizes[0])
    values = [model[0].weight.tolist() for model in (old, new)]
    seen, targets = [], []

    def look():
        twin = deep()
        nn.load_weights(path, twin)
        seen.append(values.index(twin[0].weight.tolist()))

    def watched(call, note):
        def wrapped(*arguments, **options):
            look()
            result = call(*arguments, **options)
            note(arguments)
            look()
            return result

        return wrapped

    replace = watched(os.replace, lambda a: targets.append(a[1].name))
    monkeypatch.setattr(os, "replace", inside(tmp_path, replace, os.replace))
    monkeypatch.setattr(os, "fsync", watched(os.fsync, lambda a: None))
    unlink = watched(Path.unlink, lambda a: None)
    monkeypatch.setattr(Path, "unlink", inside(tmp_path, unlink, Path.unlink))
    nn.save_weights(path, new, shard_size=sizes[1])
    assert seen == sorted(seen) and set(seen) == {0, 1}
    assert targets[-1] == path.name + (".index.json" if sizes[1] else "")


def test_a_shard_size_is_a_number_of_bytes(tmp_path):
    with pytest.raises(nn.CheckpointError, match="shard_size is 0"):
        nn.save_weights(tmp_path / "x", deep(), shard_size=0)


# ---- reading -------------------------------------------------------------------------------------


def test_an_open_file_tells_shapes_and_reads_what_is_asked_for(tmp_path):
    nn.save_tensors(tmp_path / "x", {"a": ft.ones((2, 3)), "b": ft.zeros(4, ft.int64)}, {"k": "v"})
    with nn.open_tensors(tmp_path / "x") as file:
        assert file.metadata == {"fl_nn": "tensors", "k": "v"}
        assert {n: (t.shape, t.dtype.name) for n, t in file.tensors.items()} == {
            "a": ((2, 3), "float32"),
            "b": ((4,), "int64"),
        }
        a = file.tensors["a"].load()
    assert a.tolist() == [[1.0] * 3] * 2
    with pytest.raises(nn.CheckpointError, match="closed; load 'b' in the with block"):
        file.tensors["b"].load()


@pytest.mark.skipif(
    ft.current_backend().name not in ("numpy", "jit"), reason="memory is counted where blocks are"
)
@pytest.mark.parametrize("shard_size", [None, 3_000_000])
def test_loading_takes_the_memory_of_one_copy(tmp_path, shard_size):
    layers = [nn.Linear(500, 500, bias=False) for _ in range(10)]  # a million bytes each
    model = nn.Sequential(*layers)
    nn.save_weights(tmp_path / "x", model, shard_size=shard_size)
    with fl_memory.use("system"):
        before = fl_memory.current().stats().live_bytes
        manager = fl_memory.current()
        tracemalloc.start()
        nn.load_weights(tmp_path / "x", model)
        other = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peak = manager.stats().peak_live_bytes - before
    assert peak <= 11_000_000
    assert other <= 2_000_000


def test_metadata_are_strings(tmp_path):
    with pytest.raises(nn.CheckpointError, match="metadata are strings"):
        nn.save_tensors(tmp_path / "x", {}, {"k": 3})
    assert not list(tmp_path.iterdir())


def test_an_error_on_the_way_is_the_one_that_is_seen(tmp_path, monkeypatch):
    nn.save_weights(tmp_path / "x", nn.Linear(2, 2))

    def fail(data, *arguments):
        view = memoryview(data)[1:]  # which the frames of the error hold
        raise ft.DTypeError(f"no room for {len(view)} bytes")

    monkeypatch.setattr(ft, "frombytes", fail)
    with pytest.raises(nn.CheckpointError, match="tensor 'weight': no room for 15 bytes"):
        nn.load_weights(tmp_path / "x", nn.Linear(2, 2))


def test_a_model_built_without_values_gets_them_from_the_file(tmp_path):
    model = nn.Sequential(Tied(), nn.BatchNorm(3))
    nn.save_weights(tmp_path / "w", model)
    with ft.use("null"):
        twin = nn.Sequential(Tied(), nn.BatchNorm(3))
    nn.load_weights(tmp_path / "w", twin)
    assert twin[0].head.weight is twin[0].embedding.weight
    for name, value in model.state_dict().items():
        assert twin.state_dict()[name].tolist() == value.tolist()
    model.eval(), twin.eval()
    x = ft.ones((2, 3))
    assert twin[1](x).tolist() == model[1](x).tolist()


def test_a_model_built_without_values_must_get_all_of_them(tmp_path):
    nn.save_tensors(tmp_path / "w", {"weight": ft.ones((2, 2))}, {})
    with ft.use("null"):
        layer = nn.Linear(2, 2)
        layer.register_buffer("table", ft.ones(2), persistent=False)
    with pytest.raises(nn.CheckpointError, match="bias has no value.*table has no value"):
        nn.load_weights(tmp_path / "w", layer, strict=False)
    with pytest.raises(nn.CheckpointError, match="missing bias.*table has no value"):
        nn.load_weights(tmp_path / "w", layer)


# ---- files of earlier versions of this package ---------------------------------------------------


def write_old(path, tensors, metadata):
    """As fl-nn 0.1 did: one file, no notes about classes, every name of a shared tensor."""
    entries, data, end = {}, b"", 0
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        x = tensors[name]
        raw = bytes(x.tobytes())
        code = {"float32": "F32", "int64": "I64"}[x.dtype.name]
        entries[name] = {
            "dtype": code,
            "shape": list(x.shape),
            "data_offsets": [end, end + len(raw)],
        }
        digest.update(json.dumps([name, code, list(x.shape)]).encode())
        digest.update(raw)
        data, end = data + raw, end + len(raw)
    entries["__metadata__"] = {**metadata, "sha256": digest.hexdigest()}
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_weights_of_the_first_release_load(tmp_path):
    old = Tied()
    path = write_old(tmp_path / "w", old.state_dict(), {"format": "fl_nn.weights"})
    model = Tied()
    nn.load_weights(path, model)
    assert model.head.weight.tolist() == old.head.weight.tolist()


def test_classes_in_files_of_the_first_release_have_version_1(tmp_path):
    class Scale(nn.Module):
        version = 2

        def __init__(self):
            self.factor = nn.Parameter(ft.ones(2))

    nn.migration(Scale, 1)(lambda state: state.update(factor=state.pop("f") * 2.0))
    path = write_old(tmp_path / "w", {"0.f": ft.ones(2)}, {"format": "fl_nn.weights"})
    model = nn.Sequential(Scale())
    nn.load_weights(path, model)
    assert model[0].factor.tolist() == [2.0, 2.0]


def test_checkpoints_of_schema_2_load(tmp_path):
    model = nn.Linear(2, 2)
    state = {
        "optimizer": None,
        "parts": {},
        "generators": [{"": ft.default_generator().state()}],
        "position": {"step": 7},
        "metadata": {},
    }
    metadata = {"format": "fl_nn.checkpoint", "schema": "2", "state": json.dumps(state)}
    tensors = {f"model.{name}": x for name, x in model.state_dict().items()}
    path = write_old(tmp_path / "c", tensors, metadata)
    checkpoint, twin = nn.load_checkpoint(path), nn.Linear(2, 2)
    checkpoint.restore(twin)
    assert checkpoint.position == {"step": 7}
    assert twin.weight.tolist() == model.weight.tolist()
