"""Schema versions of classes: files of older versions load through declared migrations."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft


def block(version, migrations=()):
    """A class Block as it was at a version, with the migrations that were declared by then."""
    at = version

    class Block(nn.Module):
        version = at

        def __init__(self):
            if at == 1:
                self.w = nn.Parameter(ft.ones((2, 3)))
            elif at == 2:
                self.weight = nn.Parameter(ft.ones((3, 2)))
            else:
                self.weight = nn.Parameter(ft.ones((3, 2)))
                self.bias = nn.Parameter(ft.ones((3,)))

    for since in migrations:
        nn.migration(Block, since)(to_2 if since == 1 else to_3)
    return Block


def to_2(state):
    """Version 2 turned the matrix round and gave it its proper name."""
    state["weight"] = state.pop("w").T


def to_3(state):
    """Version 3 has a bias."""
    state["bias"] = ft.zeros(state["weight"].shape[:1])


class Model(nn.Module):
    def __init__(self, block):
        self.blocks = [block(), block()]
        self.last = nn.Linear(3, 1)


def old_file(path, version):
    model = Model(block(version))
    for place, module in enumerate(model.blocks):
        for parameter in module.parameters():
            parameter.tensor = parameter.tensor * (place + 2.0)
    nn.save_weights(path, model)
    return path


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_every_version_load(tmp_path, version):
    model = Model(block(3, [1, 2]))
    nn.load_weights(old_file(tmp_path / "old", version), model)
    assert [m.weight[0, 0].item() for m in model.blocks] == [2.0, 3.0]
    assert model.blocks[1].weight.shape == (3, 2)
    assert model.blocks[1].bias.tolist() == [3.0 if version == 3 else 0.0] * 3


def test_checkpoints_of_older_versions_give_their_model(tmp_path):
    nn.save_checkpoint(tmp_path / "old", Model(block(1)))
    model = Model(block(3, [1, 2]))
    nn.load_checkpoint(tmp_path / "old").restore(model)
    assert model.blocks[0].weight.tolist() == [[1.0, 1.0]] * 3
    nn.load_checkpoint(tmp_path / "old").restore_model(model)
    nn.load_weights(tmp_path / "old", model)


def test_the_state_of_an_optimizer_is_not_given_to_another_model(tmp_path):
    old = Model(block(1))
    optimizer = nn.Adam(old.parameters())
    sum((p.sum() for p in old.parameters()), start=ft.zeros(())).backward()
    optimizer.step()
    nn.save_checkpoint(tmp_path / "old", old, optimizer)
    model = Model(block(2, [1]))
    before = model.blocks[0].weight.tolist()
    with pytest.raises(nn.CheckpointError, match=r"blocks.0 from version 1 to 2.*restore_model"):
        nn.load_checkpoint(tmp_path / "old").restore(model, nn.Adam(model.parameters()))
    assert model.blocks[0].weight.tolist() == before


def test_a_newer_file_asks_for_an_upgrade(tmp_path):
    with pytest.raises(nn.CheckpointError, match=r"version 3 of Block, here it is version 2.*upgr"):
        nn.load_weights(old_file(tmp_path / "new", 3), Model(block(2, [1])))


def test_a_missing_migration_is_named_with_the_way_out(tmp_path):
    path = old_file(tmp_path / "old", 1)
    with pytest.raises(nn.CheckpointError, match=r"blocks.0 was.*@nn.migration\(Block, 2\)"):
        nn.load_weights(path, Model(block(3, [1])))


def test_a_migration_that_fails_leaves_the_model_alone(tmp_path):
    Block = block(2)
    nn.migration(Block, 1)(lambda state: state.pop("nothing"))
    model = Model(Block)
    before = model.last.weight.tolist()
    with pytest.raises(nn.CheckpointError, match=r"migration of Block from version 1 failed.*noth"):
        nn.load_weights(old_file(tmp_path / "old", 1), model)
    assert model.last.weight.tolist() == before


def test_a_migration_must_leave_tensors(tmp_path):
    Block = block(2)
    nn.migration(Block, 1)(lambda state: state.update(weight=3))
    with pytest.raises(nn.CheckpointError, match="weight became a int"):
        nn.load_weights(old_file(tmp_path / "old", 1), Model(Block))


def test_what_a_migration_leaves_must_fit(tmp_path):
    Block = block(2)
    nn.migration(Block, 1)(lambda state: None)
    with pytest.raises(nn.CheckpointError, match=r"missing blocks.0.weight.*unexpected blocks.0.w"):
        nn.load_weights(old_file(tmp_path / "old", 1), Model(Block))


def test_an_outer_module_may_move_inner_ones_before_they_are_migrated(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            self.first = block(1)()

    nn.save_weights(tmp_path / "old", Net())

    class NewNet(nn.Module):
        version = 2

        def __init__(self):
            self.parts = [block(2, [1])()]

    NewNet.__name__ = "Net"

    @nn.migration(NewNet, 1)
    def _(state):
        for name in [name for name in state if name.startswith("first.")]:
            state["parts.0." + name.removeprefix("first.")] = state.pop(name)

    model = NewNet()
    nn.load_weights(tmp_path / "old", model)
    assert model.parts[0].weight.tolist() == [[1.0, 1.0]] * 3


def test_subclasses_inherit_the_way(tmp_path):
    class Block(block(2, [1])):
        pass

    model = Model(Block)
    nn.load_weights(old_file(tmp_path / "old", 1), model)
    assert model.blocks[0].weight.shape == (3, 2)


def test_a_class_that_the_file_did_not_have_is_not_migrated(tmp_path):
    class Net(nn.Module):
        pass

    nn.save_weights(tmp_path / "old", Net())

    class NewNet(nn.Module):
        version = 2

        def __init__(self):
            self.block = block(3)()

    NewNet.__name__ = "Net"
    nn.migration(NewNet, 1)(lambda state: state.update(block(3)().state_dict()))
    with pytest.raises(nn.CheckpointError, match="missing block.weight"):
        nn.load_weights(tmp_path / "old", NewNet())


def test_files_of_others_are_taken_to_be_as_we_are(tmp_path):
    model = Model(block(2, [1]))
    nn.save_tensors(tmp_path / "theirs", model.state_dict(), {"format": "pt"})
    nn.load_weights(tmp_path / "theirs", model)


def test_migrations_are_checked_when_they_are_declared():
    Block = block(2, [1])
    with pytest.raises(nn.ModuleError, match="has one from version 1"):
        nn.migration(Block, 1)
    with pytest.raises(nn.ModuleError, match="raise the version"):
        nn.migration(Block, 2)
    with pytest.raises(nn.ModuleError, match="raise the version"):
        nn.migration(Block, 0)


def test_two_classes_of_one_name_must_be_told_apart(tmp_path):
    model = nn.Sequential(block(1)(), block(2)())
    with pytest.raises(nn.ModuleError, match="two classes Block"):
        nn.save_weights(tmp_path / "x", model)
