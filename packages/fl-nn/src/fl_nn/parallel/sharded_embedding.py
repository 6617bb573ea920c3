"""ShardedEmbedding: a table whose rows are divided over ranks that train on different samples.

A rank gets from the owners the rows that its samples name, each once. It sends back their gradients
alone.
"""

from __future__ import annotations

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_autograd import extend
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parallel.collectives import exchange
from fl_nn.parallel.sharded_parameter import ShardedParameter
from fl_nn.parallel.shares import bounds
from fl_nn.parallel.tensor_parallel import aligned_generator
from fl_nn.values import check_classes, tensor_of


class ShardedEmbedding(Module):
    """Rows of a table (count, size) at this rank's indices (...): gives (..., size).

    weight is a `ShardedParameter` along axis 0, this rank's rows: standard normal, drawn by this
    rank alone. Its gradient is an `fl_autograd.SparseGradient` of the rows that some rank looked
    up. It is the mean over ranks already: do not average it again. For SparseAdam, Adagrad and SGD.

    All ranks of `comm` call it together, with any number of indices each, and go back through it
    together. Raises ModuleError for fewer rows than ranks, IndexingError for an index below 0 or
    from `count` on.
    """

    def __init__(
        self,
        count: int,
        size: int,
        comm: dist.Communicator,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < comm.world_size or size < 1:
            raise ModuleError(
                f"[ShardedEmbedding] {count} rows of {size} over {comm.world_size} ranks: give at "
                "least one row for each"
            )
        self.count, self.size, self.comm = count, size, comm
        self._counts = dist.even_counts(count, comm.world_size)
        self._start, stop = bounds(self._counts, comm.rank)
        own = aligned_generator(comm, generator).split(comm.world_size)[comm.rank]
        rows = init.normal((stop - self._start, size), generator=own, dtype=dtype)
        self.weight = ShardedParameter(rows, comm, 0, (count,))

    def forward(self, indices: ft.Array) -> ft.Array:
        check_classes("[ShardedEmbedding] indices", indices, self.count, "give it more rows")
        flat = ft.reshape(tensor_of(indices).astype(ft.int64), (-1,))
        rows, place = ft.unique_inverse(flat)
        requests = self._by_owner(rows)
        received = self.comm.all_to_all(requests)
        found = ag.lookup_rows(self.weight, ft.concatenate(received) - self._start)
        found = _mean_gradient(found, self.comm.world_size)
        answers = exchange(found, [x.size for x in received], [x.size for x in requests], self.comm)
        return ft.reshape(ft.gather(answers, place, 0), (*indices.shape, self.size))

    def _by_owner(self, rows: ft.Tensor) -> list[ft.Tensor]:
        # They rise, so that those of an owner are next to one another.
        ends = [bounds(self._counts, rank)[1] for rank in range(self.comm.world_size)]
        edges = [0, *(int(ft.count_nonzero(rows < end).item()) for end in ends)]
        return [rows[low:high] for low, high in zip(edges, edges[1:])]

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}, {self.comm.world_size} ranks"


# Every rank adds to the gradient of a row as if its samples were all; the batch is that of all.
_mean_gradient = extend.defop(
    "mean_gradient",
    lambda ops, x, ranks: x,
    x=lambda ops, g, ranks: ops.multiply(g, ops.constant(1.0 / ranks, g)),
)
