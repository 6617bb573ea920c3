"""ParallelMultiHeadAttention: the heads of attention divided over ranks."""

from __future__ import annotations

import fl_dist as dist
import fl_tensor as ft
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.cache import Cache
from fl_nn.parallel.collectives import copy_to
from fl_nn.parallel.sharded_parameter import ShardedParameter
from fl_nn.parallel.shares import divided
from fl_nn.parallel.tensor_parallel import RowParallelLinear, aligned_generator


class ParallelMultiHeadAttention(MultiHeadAttention):
    """`MultiHeadAttention` whose heads are divided over the ranks of `comm`: query, key and value,
    equal on all ranks, give (batch, T, size) on all. One all_reduce forward, one backward for each
    different input.

    Arguments, names and initial values of parameters are those of the plain layer. in_proj_weight
    has the rows of this rank's queries, keys and values; a cache has its heads. Ranks that seeded
    alike drop the same places of their heads. Raises ModuleError where heads or kv_heads do not
    divide, and for `relative`, whose weights all heads share: use `rotary`.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        comm: dist.Communicator,
        dropout: float = 0.0,
        bias: bool = True,
        kv_heads: int | None = None,
        head_size: int | None = None,
        rotary: float | None = None,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        where = "ParallelMultiHeadAttention"
        own_heads = divided(where, "heads", heads, comm)
        own_kv_heads = divided(where, "kv_heads", kv_heads or heads, comm)

        super().__init__(
            size, heads, dropout, bias, kv_heads, head_size, 0, rotary,
            generator=aligned_generator(comm, generator), dtype=dtype,
        )  # fmt: skip
        self.comm, self.heads, self.kv_heads = comm, own_heads, own_kv_heads
        inner, shared = heads * self.head_size, (kv_heads or heads) * self.head_size
        rows = (inner, shared, shared)
        self.in_proj_weight = ShardedParameter.of(self.in_proj_weight.tensor, comm, 0, rows)
        if self.in_proj_bias is not None:
            self.in_proj_bias = ShardedParameter.of(self.in_proj_bias.tensor, comm, 0, rows)
        self.out_proj = RowParallelLinear.of(self.out_proj, comm)  # type: ignore[assignment]

    def forward(
        self,
        query: ft.Array,
        key: ft.Array | None = None,
        value: ft.Array | None = None,
        mask: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        causal: bool = False,
        cache: Cache | None = None,
    ) -> ft.Array:
        """As the plain layer."""
        if value is key:
            value = None
        query = copy_to(query, self.comm)
        key, value = (None if x is None else copy_to(x, self.comm) for x in (key, value))
        return super().forward(query, key, value, mask, key_mask, causal, cache)
