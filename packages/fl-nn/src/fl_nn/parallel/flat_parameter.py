"""FlatParameter: parameters laid end to end, of which every rank owns a share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import fl_dist as dist
import fl_tensor as ft
from fl_memory.tags import GRADIENT, STATE, tagged
from fl_nn.parallel.shares import bounds
from fl_nn.parameter import Parameter


class FlatParameter:
    """Parameters of one dtype as one vector (size,). Rank r owns the elements from
    `sum(counts[:r])` on, `counts[r]` of them; counts differ by at most 1.

    names, parameters   what lies in it, in this order
    share               the elements of this rank, a Parameter (counts[rank],): what an optimizer
                        updates
    """

    def __init__(
        self, comm: dist.Communicator, names: Sequence[str], parameters: Sequence[Parameter]
    ) -> None:
        first = parameters[0]
        self.comm, self.names, self.parameters = comm, tuple(names), tuple(parameters)
        self.shapes = [parameter.shape for parameter in parameters]
        self.dtype, self.device, self.backend = first.dtype, first.device, first.backend
        self.offsets = [0]
        for shape in self.shapes:
            self.offsets.append(self.offsets[-1] + math.prod(shape))
        self.size = self.offsets[-1]
        self.counts = dist.even_counts(self.size, comm.world_size)
        self.start, self.stop = bounds(self.counts, comm.rank)
        self.share = Parameter(self.own_elements(self.value), first.requires_grad)

    @property
    def trained(self) -> bool:
        """Whether its parameters learn."""
        return self.share.requires_grad

    # ---- between parameters and the vector ---------------------------------------------------

    def value(self, index: int) -> ft.Tensor:
        """The tensor of a parameter."""
        return self.parameters[index].tensor

    def own_elements(self, tensor: Callable[[int], ft.Tensor]) -> ft.Tensor:
        """This rank's elements of the parameters' tensors, new memory. `tensor(i)` is called for
        those alone of which this rank has some."""
        pieces = [self.zeros((0,))]
        for index, (offset, end) in enumerate(zip(self.offsets, self.offsets[1:])):
            low, high = max(self.start, offset), min(self.stop, end)
            if low < high:
                flat = ft.reshape(tensor(index), (-1,))
                pieces.append(flat[low - offset : high - offset])
        with tagged(STATE):
            own = ft.concatenate(pieces)
            ft.eval(own)
        return own

    def unflatten(self, vector: ft.Tensor) -> list[ft.Tensor]:
        """The parameters' tensors from all elements (size,): views where the backend has some."""
        return [
            ft.reshape(vector[offset:end], shape)
            for offset, end, shape in zip(self.offsets, self.offsets[1:], self.shapes)
        ]

    # ---- communication -----------------------------------------------------------------------

    def gather(self, own: ft.Tensor) -> ft.Tensor:
        """Every rank's elements (size,), from those of this rank. All ranks call it."""
        whole: ft.Tensor = self.comm.all_gather_tensor(own, counts=self.counts)
        return whole

    def reduce(self, gradients: Mapping[int, ft.Tensor]) -> None:
        """Average the gradients of all ranks, by place, those that are missing as zeros, and add
        this rank's elements to the gradient of `share`. All ranks call it."""
        own = self.comm.reduce_scatter_tensor(self._flatten(gradients), "mean", counts=self.counts)
        self._accumulate(own)

    def start_reduction(self, gradients: Mapping[int, ft.Tensor]) -> dist.Work:
        """Begin to do so, for `finish_reduction`."""
        work: dist.Work = self.comm.reduce_scatter_tensor(
            self._flatten(gradients), "mean", counts=self.counts, async_op=True
        )
        return work

    def finish_reduction(self, work: dist.Work) -> None:
        """Wait, and add what has come."""
        self._accumulate(work.wait())

    def _flatten(self, gradients: Mapping[int, ft.Tensor]) -> ft.Tensor:
        wide = any(g.dtype is ft.float32 for g in gradients.values())
        dtype = ft.float32 if wide and self.dtype.itemsize < 4 else self.dtype
        with tagged(GRADIENT):
            return ft.concatenate(
                [
                    ft.reshape(gradients[index], (-1,)).astype(dtype)
                    if index in gradients
                    else self.zeros((math.prod(shape),), dtype)
                    for index, shape in enumerate(self.shapes)
                ]
            )

    def _accumulate(self, own: ft.Tensor) -> None:
        before = self.share.grad
        self.share.grad = own if before is None else before.tensor + own

    def zeros(self, shape: tuple[int, ...], dtype: ft.DType | None = None) -> ft.Tensor:
        """Zeros where the parameters are, of their dtype unless given."""
        return ft.full(shape, 0.0, dtype or self.dtype, self.device, backend=self.backend)
