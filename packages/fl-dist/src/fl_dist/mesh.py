"""``mesh``: the ranks of a world as a grid with one axis for each kind of parallelism.

mesh = dist.mesh(comm, data=2, tensor=2, pipe=2)        # a world of 8
layer = ColumnParallelLinear(512, 2048, mesh.tensor)
mesh.data.all_reduce(gradient)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_dist.reducer import check_communicator


@dataclass(frozen=True)
class Mesh:
    """The groups of one rank: along each axis the ranks that differ from it there alone.

    world   all ranks
    data    ranks with the same part of the model, which have different samples
    tensor  ranks that compute the same layers together
    pipe    ranks with the stages of the model, one after another
    """

    world: Communicator
    data: Communicator
    tensor: Communicator
    pipe: Communicator

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name} {group.rank} of {group.world_size}"
            for name, group in (("data", self.data), ("tensor", self.tensor), ("pipe", self.pipe))
        )
        return f"<Mesh rank {self.world.rank} of {self.world.world_size}: {sizes}>"


def mesh(
    communicator: Communicator, data: int | None = None, tensor: int = 1, pipe: int = 1
) -> Mesh:
    """Arrange all ranks of ``communicator``, which all call it with the same sizes. ``data`` is
    what is left unless given. The number of a rank is ``(pipe * D + data) * T + tensor``: those of
    a tensor group, which talk most, are next to one another, on one host.

    Raises ArgumentError, before anything is sent, where the sizes do not multiply to the number of
    ranks.
    """
    check_communicator("mesh", communicator)
    world = communicator.world_size
    for name, size in (("data", data), ("tensor", tensor), ("pipe", pipe)):
        given = size is not None or name != "data"
        if given and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ArgumentError(f"[mesh] {name}={size!r}: give a number of ranks, at least 1")
    rest = tensor * pipe
    if data is None and world % rest:
        raise ArgumentError(
            f"[mesh] tensor={tensor} and pipe={pipe} take {rest} ranks, which do not divide the "
            f"{world} there are: give sizes that do"
        )
    data = world // rest if data is None else data
    if math.prod((data, tensor, pipe)) != world:
        raise ArgumentError(
            f"[mesh] data={data}, tensor={tensor}, pipe={pipe} make {data * rest} ranks, and there "
            f"are {world}: start as many, or leave data out for what is left"
        )
    place, t = divmod(communicator.rank, tensor)
    p, d = divmod(place, data)
    groups = [
        communicator.split(color, key)
        for color, key in ((p * tensor + t, d), (p * data + d, t), (d * tensor + t, p))
    ]
    assert groups[0] is not None and groups[1] is not None and groups[2] is not None
    return Mesh(communicator, *groups)  # type: ignore[arg-type]
