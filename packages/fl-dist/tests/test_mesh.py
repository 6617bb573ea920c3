"""A mesh: groups along each axis, and sizes that do not fit."""

from __future__ import annotations

import pytest

import fl_dist as dist
import fl_tensor as ft


def members(comm, *sizes):
    mesh = dist.mesh(comm, *sizes)
    groups = (mesh.data, mesh.tensor, mesh.pipe)
    everyone = [[x.item() for x in group.all_gather(ft.asarray(comm.rank))] for group in groups]
    return everyone, [group.rank for group in groups], repr(mesh)


def test_a_world_of_eight_has_three_axes():
    found = dist.threads.run(8, members, 2, 2, 2)
    for rank, (groups, places, _) in enumerate(found):
        pipe, data, tensor = rank // 4, rank // 2 % 2, rank % 2
        assert places == [data, tensor, pipe]
        assert groups[0] == [pipe * 4 + d * 2 + tensor for d in range(2)]
        assert groups[1] == [pipe * 4 + data * 2 + t for t in range(2)]
        assert groups[2] == [p * 4 + data * 2 + tensor for p in range(2)]
    assert found[5][2] == "<Mesh rank 5 of 8: data 0 of 2, tensor 1 of 2, pipe 1 of 2>"


def test_data_is_what_is_left():
    for rank, (groups, places, _) in enumerate(dist.threads.run(4, members, None, 2)):
        assert places == [rank // 2, rank % 2, 0]
        assert groups == [[rank % 2, rank % 2 + 2], [rank // 2 * 2, rank // 2 * 2 + 1], [rank]]


def test_a_world_of_one_is_a_mesh():
    groups, places, _ = members(dist.local())
    assert groups == [[0], [0], [0]] and places == [0, 0, 0]


@pytest.mark.parametrize(
    "sizes, words",
    [
        ((2, 2, 2), "make 8 ranks, and there are 4"),
        ((1,), "make 1 ranks, and there are 4"),
        ((None, 3), "take 3 ranks, which do not divide the 4"),
        ((0, 2), "data=0"),
        ((2, True), "tensor=True"),
        ((2, 1, 2.0), "pipe=2.0"),
        ((2, None), "tensor=None"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_on_every_rank(sizes, words):
    def refused(comm):
        with pytest.raises(dist.ArgumentError) as error:
            dist.mesh(comm, *sizes)
        comm.barrier()  # nothing was sent: the ranks are in step
        return str(error.value)

    assert all(words in text for text in dist.threads.run(4, refused))
