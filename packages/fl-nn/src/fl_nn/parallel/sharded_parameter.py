"""ShardedParameter: a part of a parameter, whose other parts are on other ranks."""

from __future__ import annotations

from typing import Any

import fl_dist as dist
import fl_tensor as ft
from fl_nn.parallel.shares import bounds
from fl_nn.parameter import Parameter


class ShardedParameter(Parameter):
    """The share that this rank has of a whole parameter, cut along one axis.

    comm      the ranks that have the shares
    axis      the axis that is cut
    sections  lengths of the parts of that axis that are cut one by one, such as the rows of
              queries, keys and values; their shares lie one below the other
    """

    __slots__ = ("axis", "comm", "sections")

    def __init__(
        self,
        share: ft.Tensor,
        comm: dist.Communicator,
        axis: int,
        sections: tuple[int, ...],
        requires_grad: bool = True,
    ) -> None:
        self.comm, self.axis, self.sections = comm, axis, sections
        super().__init__(share, requires_grad)

    @classmethod
    def of(
        cls,
        whole: ft.Tensor,
        comm: dist.Communicator,
        axis: int = 0,
        sections: tuple[int, ...] | None = None,
    ) -> ShardedParameter:
        """This rank's share of a whole parameter; one section unless given."""
        sections = sections or (whole.shape[axis],)
        return cls(_cut(whole, comm, axis, sections), comm, axis, sections)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of the whole parameter."""
        shape = list(self.shape)
        shape[self.axis] = sum(self.sections)
        return tuple(shape)

    def cut(self, whole: ft.Tensor) -> ft.Tensor:
        """This rank's share of a tensor of `whole_shape`, new memory."""
        return _cut(whole, self.comm, self.axis, self.sections)

    def assemble(self, own: ft.Tensor) -> ft.Tensor:
        """The whole from every rank's `own`, of the shape that the share has. All ranks of `comm`
        call it."""
        ranks = range(self.comm.world_size)
        first = ft.swapaxes(own, 0, self.axis)
        counts = [dist.even_counts(length, self.comm.world_size) for length in self.sections]
        totals = tuple(sum(of[rank] for of in counts) for rank in ranks)
        everyone = ft.split(self.comm.all_gather_tensor(first, counts=totals), totals, 0)
        if len(self.sections) == 1:
            whole = ft.concatenate(everyone, 0)
        else:
            parts = [ft.split(everyone[rank], [of[rank] for of in counts], 0) for rank in ranks]
            order = [parts[rank][i] for i in range(len(counts)) for rank in ranks]
            whole = ft.concatenate(order, 0)
        return ft.swapaxes(whole, 0, self.axis)

    def _copy(self) -> ShardedParameter:
        made = super()._copy()
        made.comm, made.axis, made.sections = self.comm, self.axis, self.sections
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (self.tensor, self.requires_grad)


def _cut(
    whole: ft.Tensor, comm: dist.Communicator, axis: int, sections: tuple[int, ...]
) -> ft.Tensor:
    parts, start = [], 0
    for length in sections:
        low, high = bounds(dist.even_counts(length, comm.world_size), comm.rank)
        parts.append(whole[(slice(None),) * axis + (slice(start + low, start + high),)])
        start += length
    share: ft.Tensor = ft.concatenate(parts, axis)
    ft.eval(share)
    return share


def whole_shape(parameter: Parameter) -> tuple[int, ...]:
    """The shape of the parameter, or of the whole one of which it is a share."""
    return parameter.whole_shape if isinstance(parameter, ShardedParameter) else parameter.shape


def assembled(parameter: Parameter, value: ft.Tensor) -> ft.Tensor:
    """`value`, of the shape of the parameter, for the whole one of which it is a share."""
    return parameter.assemble(value) if isinstance(parameter, ShardedParameter) else value


def own_part(parameter: Parameter, whole: ft.Tensor) -> ft.Tensor:
    """What of `whole` belongs to the parameter."""
    return parameter.cut(whole) if isinstance(parameter, ShardedParameter) else whole
