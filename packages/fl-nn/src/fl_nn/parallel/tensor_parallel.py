"""Tensor parallel layers: one layer computed by several ranks, each with a share of its weights.

    hidden = parallel.ColumnParallelLinear(512, 2048, comm)
    back = parallel.RowParallelLinear(2048, 512, comm)
    y = back(ft.gelu(hidden(x)))          # one all_reduce forward, one backward

Parameters have the names of the plain layers, and the same initial values from the same seed: all
ranks draw as rank 0 does. (Shoeybi et al., "Megatron-LM", 2019.)
"""

from __future__ import annotations

import fl_dist as dist
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.linear import Linear
from fl_nn.module import Module
from fl_nn.parallel.collectives import copy_to, gather_from, reduce_from, scatter_to
from fl_nn.parallel.sharded_parameter import ShardedParameter
from fl_nn.parallel.shares import bounds, divided
from fl_nn.parameter import Parameter
from fl_nn.values import check_classes, tensor_of


def aligned_generator(comm: dist.Communicator, generator: ft.Generator | None) -> ft.Generator:
    """`generator`, or the default one, in the state that it has on rank 0 of `comm`: what all
    ranks draw from it is equal. All ranks call it."""
    own = generator or ft.default_generator()
    if comm.world_size > 1:
        own.set_state(dist.broadcast_object(comm, own.state()))
    return own


class ColumnParallelLinear(Module):
    """`Linear` whose outputs are divided: x (..., inputs), equal on all ranks, gives this rank's
    (..., outputs / ranks), or with `gather_output` all of (..., outputs).

    weight (outputs / ranks, inputs) and bias are `ShardedParameter` along axis 0. Raises
    ModuleError where the outputs do not divide.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        comm: dist.Communicator,
        bias: bool = True,
        gather_output: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        divided("ColumnParallelLinear", "outputs", outputs, comm)
        self.inputs, self.outputs, self.gather_output = inputs, outputs, gather_output
        self.comm = comm
        generator = aligned_generator(comm, generator)
        whole = Linear(inputs, outputs, bias, generator=generator, dtype=dtype)
        self.weight = ShardedParameter.of(whole.weight.tensor, comm)
        self.bias = None if whole.bias is None else ShardedParameter.of(whole.bias.tensor, comm)

    def forward(self, x: ft.Array) -> ft.Array:
        y = ft.linear(copy_to(x, self.comm), self.weight, self.bias)
        return gather_from(y, self.comm) if self.gather_output else y

    def extra_repr(self) -> str:
        return _described(self.inputs, self.outputs, self.comm, self.bias)


class RowParallelLinear(Module):
    """`Linear` whose inputs are divided: this rank's x (..., inputs / ranks), as
    ColumnParallelLinear leaves it, gives (..., outputs) on all ranks. Without `input_is_parallel`
    all have the same x (..., inputs).

    weight (outputs, inputs / ranks) is a `ShardedParameter` along axis 1, bias (outputs,) a plain
    one. Raises ModuleError where the inputs do not divide.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        comm: dist.Communicator,
        bias: bool = True,
        input_is_parallel: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        divided("RowParallelLinear", "inputs", inputs, comm)
        self.input_is_parallel = input_is_parallel
        generator = aligned_generator(comm, generator)
        self._take(Linear(inputs, outputs, bias, generator=generator, dtype=dtype), comm)

    @classmethod
    def of(cls, whole: Linear, comm: dist.Communicator) -> RowParallelLinear:
        """The layer with this rank's share of the weight of a plain one, and its bias."""
        divided("RowParallelLinear", "inputs", whole.inputs, comm)
        made = cls.__new__(cls, whole.inputs, whole.outputs, comm, whole.bias is not None)
        made.input_is_parallel = True
        made._take(whole, comm)
        return made

    def _take(self, whole: Linear, comm: dist.Communicator) -> None:
        self.inputs, self.outputs, self.comm = whole.inputs, whole.outputs, comm
        self.weight = ShardedParameter.of(whole.weight.tensor, comm, axis=1)
        self.bias = whole.bias

    def forward(self, x: ft.Array) -> ft.Array:
        if not self.input_is_parallel:
            x = scatter_to(x, self.comm)
        y = reduce_from(ft.linear(x, self.weight), self.comm)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return _described(self.inputs, self.outputs, self.comm, self.bias)


class VocabParallelEmbedding(Module):
    """`Embedding` whose rows are divided, also unevenly: indices (...), equal on all ranks, give
    (..., size) on all. weight (its rows, size) is a `ShardedParameter` along axis 0."""

    def __init__(
        self,
        count: int,
        size: int,
        comm: dist.Communicator,
        padding_idx: int | None = None,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < comm.world_size:
            raise ModuleError(
                f"[VocabParallelEmbedding] {count} rows over {comm.world_size} ranks: give at "
                "least one for each"
            )
        generator = aligned_generator(comm, generator)
        whole = Embedding(count, size, padding_idx, generator=generator, dtype=dtype)
        self.count, self.size, self.padding_idx = count, size, whole.padding_idx
        self.comm = comm
        self.weight = ShardedParameter.of(whole.weight.tensor, comm)
        self._start, self._stop = bounds(dist.even_counts(count, comm.world_size), comm.rank)

    def forward(self, indices: ft.Array) -> ft.Array:
        where = "[VocabParallelEmbedding] indices"
        check_classes(where, indices, self.count, "give it more rows")
        own = ft.logical_and(indices >= self._start, indices < self._stop)
        y = ft.embedding(self.weight, ft.where(own, indices - self._start, 0))
        y = ft.where(ft.expand_dims(own, -1), y, 0.0)
        if self.padding_idx is not None:
            # The padding row comes out as it is, but past the tape.
            y = ft.where(ft.expand_dims(indices == self.padding_idx, -1), tensor_of(y), y)
        return reduce_from(y, self.comm)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}, {self.comm.world_size} ranks"


def _described(inputs: int, outputs: int, comm: dist.Communicator, bias: Parameter | None) -> str:
    text = f"{inputs}, {outputs}, {comm.world_size} ranks"
    return text if bias is not None else f"{text}, bias=False"
