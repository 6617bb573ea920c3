"""Files that all ranks write: read at any number of ranks, and without sharding."""

from __future__ import annotations

import json

import pytest
from test_sharded import Net, batch, close, optimizer_of, train_plain, values

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import CheckpointError, parallel


def step(comm, sharded, number):
    x, y = (part[comm.rank :: comm.world_size] for part in batch(number))
    sharded.zero_grad()
    nn.cross_entropy(sharded.model(x), y).backward()
    sharded.step()


def begin(comm, path, stage):
    model = Net().eval()
    sharded = parallel.Sharded(comm, model, optimizer_of(model), stage)
    step(comm, sharded, 0)
    parallel.save_checkpoint(path, comm, sharded, position={"step": 1}, metadata={"run": "a"})


def go_on(comm, path, stage):
    model = Net(5).eval()
    sharded = parallel.Sharded(comm, model, optimizer_of(model), stage)
    found = parallel.load_checkpoint(path, comm, sharded)
    assert found.position == {"step": 1} and found.metadata == {"run": "a"}
    step(comm, sharded, 1)
    return values(sharded.state_dict())


@pytest.mark.parametrize("writers, stage", [(1, 1), (2, 2), (2, 3), (4, 1), (4, 3)])
def test_a_checkpoint_is_read_at_another_number_of_ranks(tmp_path, writers, stage):
    path = tmp_path / "run.safetensors"
    dist.threads.run(writers, begin, path, stage)
    expected = train_plain(2)[1]
    for readers in (1, 2, 4):
        for found in dist.threads.run(readers, go_on, path, 4 - stage):
            close(found, expected)
    # And by one process that knows of no sharding.
    model = Net(5).eval()
    optimizer = optimizer_of(model)
    nn.load_checkpoint(path).restore(model, optimizer)
    x, y = batch(1)
    optimizer.zero_grad()
    nn.cross_entropy(model(x), y).backward()
    optimizer.step()
    close(values(model.state_dict()), expected)


def test_a_plain_checkpoint_goes_on_sharded(tmp_path):
    path = tmp_path / "run.safetensors"
    model = Net().eval()
    optimizer = optimizer_of(model)
    x, y = batch(0)
    nn.cross_entropy(model(x), y).backward()
    optimizer.step()
    position, metadata = {"step": 1}, {"run": "a"}
    nn.save_checkpoint(path, model, optimizer, position=position, metadata=metadata)
    for found in dist.threads.run(2, go_on, path, 3):
        close(found, train_plain(2)[1])


def test_all_ranks_write_their_part(tmp_path):
    path = tmp_path / "model.safetensors"

    def save(comm):
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(8)))
        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), 3)
        parallel.save_weights(path, comm, sharded)
        return values(sharded.state_dict())

    for _ in range(2):  # the second removes the files of the first
        expected = dist.threads.run(4, save)[0]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shards = sorted(set(index["weight_map"].values()))
    assert sorted(p.name for p in tmp_path.iterdir()) == [*shards, "model.safetensors.index.json"]
    sizes = [(tmp_path / shard).stat().st_size for shard in shards]
    assert len(shards) == 4 and max(sizes) < 1.3 * min(sizes)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(8)))
    nn.load_weights(tmp_path, model)  # as a folder of Hugging Face's
    assert values(model.state_dict()) == expected


def test_names_that_share_a_parameter_share_it_in_the_file(tmp_path):
    path = tmp_path / "tied.safetensors"

    class Tied(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    def save(comm):
        model = Tied()
        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), 3, units=[])
        parallel.save_weights(path, comm, sharded)
        parallel.load_weights(path, sharded)
        return values(sharded.state_dict())

    expected = dist.threads.run(2, save)[0]
    model = Tied()
    nn.load_weights(path, model)
    assert values(model.state_dict()) == expected
    assert model.first.weight is model.second.weight


class Parallel(nn.Module):
    def __init__(self, comm=None):
        if comm is None:
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        else:
            self.up = parallel.ColumnParallelLinear(4, 8, comm)
            self.down = parallel.RowParallelLinear(8, 4, comm)

    def forward(self, x):
        return self.down(ft.tanh(self.up(x)))


def test_a_tensor_parallel_checkpoint_is_that_of_the_plain_model(tmp_path):
    path = tmp_path / "run.safetensors"

    def one_step(model, optimizer):
        optimizer.zero_grad()
        ft.mean(model(ft.ones((2, 4))) ** 2).backward()
        optimizer.step()

    def save(comm):
        ft.seed(1)
        model = Parallel(comm)
        optimizer = nn.Adam(model.parameters())
        one_step(model, optimizer)
        parallel.save_checkpoint(path, comm, model, optimizer)

    def load(comm):
        ft.seed(2)
        model = Parallel(comm)
        optimizer = nn.Adam(model.parameters())
        parallel.load_checkpoint(path, comm, model, optimizer)
        one_step(model, optimizer)
        return values(parallel.whole_state_dict(model))

    dist.threads.run(4, save)
    ft.seed(1)
    model = Parallel()
    optimizer = nn.Adam(model.parameters())
    one_step(model, optimizer)
    other = Parallel()
    restored = nn.Adam(other.parameters())
    nn.load_checkpoint(path).restore(other, restored)
    close(values(other.state_dict()), values(model.state_dict()))
    one_step(model, optimizer)
    one_step(other, restored)
    close(values(other.state_dict()), values(model.state_dict()))
    for found in dist.threads.run(2, load):
        close(found, values(model.state_dict()))


def test_a_pipeline_writes_the_whole_model(tmp_path):
    path = tmp_path / "model.safetensors"

    def save(comm):
        stages = [nn.Linear(4, 4, generator=ft.Generator(i)) for i in range(3)]
        pipe = parallel.Pipeline(stages, comm, 2)
        parallel.save_weights(path, comm, pipe)
        parallel.load_weights(path, pipe)
        return values(pipe.state_dict())

    parts = dist.threads.run(3, save)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    nn.load_weights(path, model)
    assert values(model.state_dict()) == {k: v for part in parts for k, v in part.items()}


def test_generators_go_on_where_as_many_ranks_read(tmp_path):
    path = tmp_path / "run.safetensors"

    def save(comm):
        model = nn.Linear(2, 2)
        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), 1)
        ft.seed(comm.rank)
        parallel.save_checkpoint(path, comm, sharded)
        after = ft.rand((2,)).tolist()
        parallel.load_checkpoint(path, comm, sharded)
        return after, ft.rand((2,)).tolist()

    results = dist.threads.run(2, save)
    assert all(before == after for before, after in results)
    assert results[0] != results[1]


def test_a_failed_write_leaves_the_earlier_save(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    from fl_nn.parallel import checkpoint

    write = checkpoint.write_shard

    def save(comm):
        model = nn.Linear(4, 4, generator=ft.Generator(0))
        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), 2)
        parallel.save_weights(path, comm, sharded)
        before = sorted(p.name for p in tmp_path.iterdir())
        comm.barrier()

        def full(target, tensors):
            if "-00002-of" in target.name:
                raise OSError(28, "No space left on device")
            return write(target, tensors)

        monkeypatch.setattr(checkpoint, "write_shard", full)
        comm.barrier()
        with pytest.raises(CheckpointError, match="rank 1: .*No space left.*still whole"):
            parallel.save_weights(path, comm, sharded)
        comm.barrier()
        assert sorted(p.name for p in tmp_path.iterdir()) == before
        parallel.load_weights(path, sharded)

    dist.threads.run(2, save)


def test_what_does_not_fit_is_refused_on_every_rank(tmp_path):
    path = tmp_path / "run.safetensors"

    def refused(comm):
        model = Net()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), 3)
        parallel.save_checkpoint(path, comm, sharded)
        other = nn.Linear(3, 3)
        with pytest.raises(CheckpointError, match="unexpected first.weight"):
            parallel.load_weights(path, other)
        plain = Net()
        with pytest.raises(CheckpointError, match="of 'AdamW'"):
            parallel.load_checkpoint(path, comm, plain, nn.SGD(plain.parameters()))
        parallel.save_weights(path, comm, sharded)
        with pytest.raises(CheckpointError, match="not a training checkpoint"):
            parallel.load_checkpoint(path, comm, sharded)
        with pytest.raises(CheckpointError, match="must be plain"):
            parallel.save_checkpoint(path, comm, sharded, position={"x": object()})

    dist.threads.run(2, refused)


def test_a_path_that_is_a_folder_is_refused_on_every_rank(tmp_path):
    path = tmp_path / "model.safetensors"
    path.mkdir()

    def save(comm):
        model = nn.Linear(4, 4)
        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), 2)
        with pytest.raises(CheckpointError, match="rank 0: .*rank 1: "):
            parallel.save_weights(path, comm, sharded)

    dist.threads.run(2, save)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
