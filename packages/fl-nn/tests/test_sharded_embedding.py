"""A table divided over ranks trains as a whole one, and only its touched rows travel."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, parallel

COUNT, SIZE = 11, 3


def samples(rank, ranks):
    # Some rows twice, on one rank and on several; a rank may have none.
    indices = [[4, 9], [4, 4], [0, 10], [3, 9], [7, 1], [0, 0]][rank::ranks]
    return ft.asarray(indices, ft.int64)


def table():
    return ft.randn((COUNT, SIZE), ft.Generator(5))


def train(embedding, comm, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        x = embedding(samples(comm.rank, comm.world_size))
        ft.sum(x * x).backward()
        optimizer.step()


def train_whole(ranks):
    # The mean over ranks, each with the loss of its samples.
    embedding = nn.Embedding(COUNT, SIZE, sparse=True)
    embedding.weight.tensor = table()
    optimizer = nn.SparseAdam(embedding.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        x = embedding(samples(0, 1))
        (ft.sum(x * x) / ranks).backward()
        optimizer.step()
    return embedding.weight.tensor


def train_sharded(comm):
    embedding = parallel.ShardedEmbedding(COUNT, SIZE, comm)
    parallel.load_whole_state(embedding, {"weight": table()})
    train(embedding, comm, nn.SparseAdam(embedding.parameters(), lr=0.1))
    assert isinstance(embedding.weight.grad, ag.SparseGradient)
    return embedding.weight.assemble(embedding.weight.tensor).tolist()


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_a_table_trains_as_a_whole_one(ranks):
    for found in dist.threads.run(ranks, train_sharded):
        assert ft.allclose(ft.asarray(found), train_whole(ranks), 0, 1e-5)


def test_only_touched_rows_travel():
    def sizes(comm):
        embedding = parallel.ShardedEmbedding(1000, SIZE, comm)
        sent = []
        all_to_all = comm.all_to_all

        def counted(xs, **options):
            sent.append([x.size for r, x in enumerate(xs) if r != comm.rank])
            return all_to_all(xs, **options)

        comm.all_to_all = counted
        ft.sum(embedding(ft.asarray([1, 1, 999, 999, 2 + comm.rank]))).backward()
        return sent

    first, second = dist.threads.run(2, sizes)
    # Indices asked for, rows given, gradients sent back: each row once.
    assert first == [[1], [2 * SIZE], [1 * SIZE]]
    assert second == [[2], [1 * SIZE], [2 * SIZE]]


def test_each_rank_draws_its_own_rows():
    def draw(comm):
        ft.seed(0)
        embedding = parallel.ShardedEmbedding(8, 4, comm)
        return embedding.weight.tolist(), ft.rand((2,)).tolist()

    (one, after), (two, other) = dist.threads.run(2, draw)
    assert one != two and after == other


def test_refusals():
    def refused(comm):
        with pytest.raises(ModuleError, match="1 rows of 3 over 2 ranks"):
            parallel.ShardedEmbedding(1, 3, comm)
        embedding = parallel.ShardedEmbedding(4, 3, comm)
        with pytest.raises(ft.IndexingError, match="hold 4"):
            embedding(ft.asarray([0, 4]))

    dist.threads.run(2, refused)
