"""Tables of renaming: files of others become states of ours, and states of ours files of theirs."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Ignore, Keep, Merge, Rule, Split, Squeeze, Table, Tied, Transpose


class Model(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(3, 2), nn.Linear(2, 2)]
        self.register_buffer("count", ft.zeros((), ft.int64))


def numbers(shape, start=0):
    size = ft.zeros(shape).size
    return ft.arange(start, start + size, dtype=ft.float32).reshape(shape)


def theirs():
    """What another program would have for a Model: matrices the other way round, one bias."""
    return {
        "net.block0.w": numbers((3, 2)),
        "net.block1.w": numbers((2, 2), 10),
        "net.block0.b": numbers((2,), 20),
        "net.block1.b": numbers((2,), 30),
        "net.mask": numbers((1, 1)),
    }


TABLE = Table(
    Rule("net.block{i}.w", "layers.{i}.weight", Transpose()),
    Rule("net.block{i}.b", "layers.{i}.bias"),
    Ignore("net.mask"),
    Keep("count"),
)


def write(path, tensors):
    nn.save_tensors(path, tensors, {})
    return path


def read(path):
    with nn.open_tensors(path) as file:
        return {name: tensor.load().tolist() for name, tensor in file.tensors.items()}


def test_names_and_matrices_are_translated(tmp_path):
    model = Model()
    nn.load_weights(write(tmp_path / "x", theirs()), model, rename=TABLE)
    assert model.layers[0].weight.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert model.layers[0].weight.numpy().flags.c_contiguous
    assert model.layers[1].bias.tolist() == [30, 31]
    assert model.count.item() == 0


def test_the_same_table_writes_their_file(tmp_path):
    model = Model()
    nn.load_weights(write(tmp_path / "x", theirs()), model, rename=TABLE)
    nn.save_weights(tmp_path / "y", model, rename=TABLE)
    wanted = {name: x.tolist() for name, x in theirs().items() if name != "net.mask"}
    assert read(tmp_path / "y") == wanted


def test_parts_are_merged_and_split(tmp_path):
    layer = nn.Linear(2, 6, bias=False)
    parts = {f"{name}.weight": numbers((2, 2), 4 * i) for i, name in enumerate("qkv")}
    table = Table(Rule(["q.{p}", "k.{p}", "v.{p}"], "{p}", Merge(3)))
    nn.load_weights(write(tmp_path / "x", parts), layer, rename=table)
    assert layer.weight.tolist() == numbers((6, 2)).tolist()
    nn.save_weights(tmp_path / "y", layer, rename=table)
    assert read(tmp_path / "y") == {name: x.tolist() for name, x in parts.items()}


def test_a_whole_is_split_and_merged_in_unequal_parts(tmp_path):
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(2, 3, bias=False))
    table = Table(Rule("fused", ["0.weight", "1.weight"], Transpose(), Split([1, 3])))
    nn.load_weights(write(tmp_path / "x", {"fused": numbers((2, 4))}), model, rename=table)
    assert model[0].weight.tolist() == [[0, 4]]
    assert model[1].weight.tolist() == [[1, 5], [2, 6], [3, 7]]
    nn.save_weights(tmp_path / "y", model, rename=table)
    assert read(tmp_path / "y") == {"fused": numbers((2, 4)).tolist()}


def test_axes_are_dropped_and_reordered(tmp_path):
    model = nn.ReLU()
    model.register_buffer("x", ft.zeros((4, 2, 3)))
    table = Table(Rule("theirs", "x", Squeeze(1), Transpose((2, 0, 1))))
    nn.load_weights(write(tmp_path / "x", {"theirs": numbers((2, 1, 3, 4))}), model, rename=table)
    assert model.x.tolist() == ft.permute(numbers((2, 3, 4)), (2, 0, 1)).tolist()
    nn.save_weights(tmp_path / "y", model, rename=table)
    assert read(tmp_path / "y") == {"theirs": numbers((2, 1, 3, 4)).tolist()}


def test_a_path_stands_for_several_parts_of_a_name(tmp_path):
    model = Model()
    nn.save_weights(tmp_path / "x", model, rename=Table(Rule("a.{rest:path}", "{rest:path}")))
    assert set(read(tmp_path / "x")) == {f"a.{name}" for name in model.state_dict()}


def test_a_prefix_goes_in_front_of_their_names_or_ours(tmp_path):
    model = nn.Sequential(Model())
    table = TABLE.below("module.", "0.")
    nn.save_weights(tmp_path / "x", model, rename=table)
    assert "module.net.block0.w" in read(tmp_path / "x")
    nn.load_weights(tmp_path / "x", model, rename=table)


def test_the_first_rule_that_fits_takes_a_name():
    table = Table(Rule("a.special", "b"), Rule("a.{p}", "c.{p}"))
    found = table.to_ours({"a.special": ft.zeros(1), "a.other": ft.zeros(1)})
    assert sorted(found.tensors) == ["b", "c.other"]


def test_braces_in_a_dict_of_names_are_just_braces(tmp_path):
    layer = nn.Linear(1, 1, bias=False)
    nn.load_weights(
        write(tmp_path / "x", {"{w}": ft.ones((1, 1))}), layer, rename={"{w}": "weight"}
    )
    assert layer.weight.item() == 1
    nn.save_weights(tmp_path / "y", layer, rename={"{w}": "weight"})
    assert read(tmp_path / "y") == {"{w}": [[1.0]]}


# ---- names that share a tensor -------------------------------------------------------------------

TIED = Table(Rule("table", "weight"), Tied("head", of="table"))


@pytest.mark.parametrize("names", [["table"], ["head"], ["table", "head"]])
def test_a_tied_tensor_may_come_under_either_name(tmp_path, names):
    layer = nn.Embedding(2, 2)
    path = write(tmp_path / "x", {name: numbers((2, 2)) for name in names})
    nn.load_weights(path, layer, rename=TIED)
    assert layer.weight.tolist() == [[0, 1], [2, 3]]


def test_both_names_of_a_tied_tensor_are_written(tmp_path):
    nn.save_weights(tmp_path / "x", nn.Embedding(2, 2), rename=TIED)
    assert sorted(read(tmp_path / "x")) == ["head", "table"]


def test_tied_tensors_that_differ_are_refused(tmp_path):
    path = write(tmp_path / "x", {"table": numbers((2, 2)), "head": numbers((2, 2), 1)})
    with pytest.raises(nn.CheckpointError, match="head differs from table"):
        nn.load_weights(path, nn.Embedding(2, 2), rename=TIED)


# ---- what does not fit ---------------------------------------------------------------------------


def test_one_error_names_everything_and_the_model_stays_as_it_was(tmp_path):
    tensors = theirs()
    del tensors["net.block0.b"]
    tensors["net.extra"] = ft.zeros(1)
    tensors["net.block1.w"] = numbers((4, 2))
    model = Model()
    before = [p.tolist() for p in model.parameters()]
    with pytest.raises(nn.CheckpointError) as error:
        nn.load_weights(write(tmp_path / "x", tensors), model, rename=TABLE)
    text = str(error.value)
    assert "missing layers.0.bias (net.block0.b in the file)" in text
    assert "unexpected net.extra" in text
    assert "layers.1.weight has shape (2, 4), here (2, 2)" in text
    assert [p.tolist() for p in model.parameters()] == before


def test_a_part_that_is_missing_is_named(tmp_path):
    table = Table(Rule(["q", "k"], "weight", Merge(2)))
    path = write(tmp_path / "x", {"k": numbers((1, 2))})
    with pytest.raises(nn.CheckpointError, match="missing q, a part of weight"):
        nn.load_weights(path, nn.Linear(2, 2, bias=False), rename=table)


def test_parts_that_do_not_fit_one_another_are_named(tmp_path):
    table = Table(Rule(["q", "k"], "weight", Merge(2)))
    path = write(tmp_path / "x", {"k": numbers((1, 2)), "q": numbers((1, 3))})
    with pytest.raises(nn.CheckpointError, match=r"q, k: \[concatenate\].*"):
        nn.load_weights(path, nn.Linear(2, 2, bias=False), rename=table)


def test_a_name_that_no_rule_gives_is_missing(tmp_path):
    path = write(tmp_path / "x", {"w": numbers((2, 2))})
    with pytest.raises(nn.CheckpointError, match=r"missing bias \(no rule gives it\)"):
        nn.load_weights(path, nn.Linear(2, 2), rename=Table(Rule("w", "weight")))


def test_without_strict_what_fits_is_taken(tmp_path):
    tensors = {"net.block1.b": numbers((2,), 5), "net.extra": ft.zeros(1)}
    model = Model()
    nn.load_weights(write(tmp_path / "x", tensors), model, rename=TABLE, strict=False)
    assert model.layers[1].bias.tolist() == [5, 6]


def test_what_no_rule_writes_is_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(nn.CheckpointError, match="no rule for bias"):
        nn.save_weights(tmp_path / "x", nn.Linear(2, 2), rename=Table(Rule("w", "weight")))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Rule("a.{i}", "b"), "the same places"),
        (lambda: Rule("a.{i}.{i}", "b.{i}"), "each name once"),
        (lambda: Rule("a.{i:d}", "b.{i}"), "write {name} or {name:path}"),
        (lambda: Rule("a.{i", "b"), "template 'a.{i'"),
        (lambda: Rule(["a", "b"], "c"), "add a Merge or a Split"),
        (lambda: Rule([], "c"), "at least one name"),
        (lambda: Tied("a.{i}", of="b"), "the same places"),
    ],
)
def test_rules_that_cannot_work_are_refused_at_once(make, words):
    with pytest.raises(nn.ModuleError, match=words):
        make()


@pytest.mark.parametrize("found, own", [("float16", "float32"), ("float64", "float32")])
def test_another_floating_dtype_is_converted_on_request_alone(tmp_path, found, own):
    if not {ft.dtype(found), ft.dtype(own)} <= ft.current_backend().dtypes:
        pytest.skip("needs both dtypes")
    path = write(tmp_path / "x", {"w": ft.full((1, 1), 0.5, found)})
    layer = nn.Linear(1, 1, bias=False)
    with pytest.raises(nn.CheckpointError, match=f"weight is {found}, here {own}"):
        nn.load_weights(path, layer, rename={"w": "weight"})
    nn.load_weights(path, layer, rename={"w": "weight"}, cast=True)
    assert layer.weight.item() == 0.5 and layer.weight.dtype is ft.dtype(own)


def test_a_dtype_that_the_backend_lacks_is_named_before_anything_is_loaded(tmp_path, monkeypatch):
    backend = ft.current_backend()
    if ft.bfloat16 not in backend.dtypes:
        pytest.skip("needs a file in bfloat16")
    path = write(tmp_path / "x", {"a": ft.ones(1), "b": ft.ones(1, ft.bfloat16)})
    model = nn.ReLU()
    model.a, model.b = nn.Parameter(ft.zeros(1)), nn.Parameter(ft.zeros(1))
    fewer = backend.dtypes - {ft.bfloat16}
    monkeypatch.setattr(type(backend), "dtypes", fewer)
    with pytest.raises(nn.CheckpointError, match="b is bfloat16, which backend"):
        nn.load_weights(path, model, cast=True)
    assert model.a.item() == 0


def test_integers_are_never_converted(tmp_path):
    path = write(tmp_path / "x", {"weight": ft.ones((1, 1), ft.int32)})
    with pytest.raises(nn.CheckpointError, match="weight is int32"):
        nn.load_weights(path, nn.Linear(1, 1, bias=False), cast=True)
