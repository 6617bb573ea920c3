"""``SparseGradient``: sparse gradients of tables, as row numbers and values."""

from __future__ import annotations

from typing import Any, final

import fl_tensor as ft
from fl_autograd.errors import GradError
from fl_autograd.mode import is_grad_enabled
from fl_autograd.rules.table import Rule
from fl_autograd.variable import Variable, recorded, variable
from fl_tensor.arguments import shape_of
from fl_tensor.html import element


@final
class SparseGradient(Variable):
    """The gradient of a table of which rows were looked up with ``lookup_rows``: ``values[i]`` of
    row ``indices[i]``, zeros in all others. Rows may come several times, and then add up.

    indices  int64 (k,)
    values   (k, ...): a Variable, with history where the gradient was recorded (``create_graph``)
    shape    the table's, (count, ...)

    Adds to others and to dense gradients; scales by numbers and scalars. ``coalesced()`` has every
    row once, ``to_dense()`` is the ordinary gradient. Whatever else needs the dense value raises
    GradError. Immutable.
    """

    __slots__ = ("_shape", "indices", "values")
    _is_sparse = True

    indices: ft.Tensor
    values: Variable

    def __init__(self, indices: ft.Tensor, values: ft.Array, shape: tuple[int, ...]) -> None:
        shape = shape_of("SparseGradient", shape)
        for name, x in (("indices", indices), ("values", values)):
            if not isinstance(x, ft.Array):
                raise ft.DTypeError(
                    f"[SparseGradient] {name} {type(x).__name__}: expected an array"
                )
        if values.shape != (*indices.shape, *shape[1:]) or indices.ndim != 1:
            raise ft.ShapeError(
                f"[SparseGradient] indices {indices.shape} and values {values.shape} of a table "
                f"{shape}: expected (k,) and (k, ...)"
            )
        self.indices = indices
        self.values = values if isinstance(values, Variable) else Variable(values)
        self._shape = shape
        self._backend, self._node = self.values._backend, None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> ft.DType:
        return self.values.dtype

    @property
    def device(self) -> ft.Device:
        return self.values.device

    @property
    def _adapter(self) -> Any:
        raise GradError(
            f"this gradient of a table {self._shape} holds {self.indices.size} rows and no dense "
            "value: work on its .indices and .values, ask for to_dense(), or look rows up densely "
            "(Embedding(sparse=False))"
        )

    def coalesced(self) -> SparseGradient:
        """The same with rising indices, each once."""
        if self.indices.size < 2:
            return self
        rows, place = ft.unique_inverse(self.indices)
        if rows.size == self.indices.size:
            order = ft.argsort(self.indices)
            return SparseGradient(rows, ft.gather(self.values, order, 0), self._shape)
        zeros = ft.zeros_like(self.values.tensor[: rows.size])
        return SparseGradient(rows, ft.scatter(zeros, place, self.values, 0, "add"), self._shape)

    def to_dense(self) -> Variable:
        """The gradient with all rows, a Variable."""
        like = self.values
        zeros = ft.full(self._shape, 0.0, like.dtype, like.device, backend=like.backend)
        return _as_variable(ft.scatter(zeros, self.indices, like, 0, "add"))

    def with_values(self, values: ft.Array) -> SparseGradient:
        """Other values for the same rows."""
        return SparseGradient(self.indices, values, self._shape)

    def detach(self) -> SparseGradient:
        return self.with_values(self.values.detach())

    def __add__(self, other: Any) -> Variable:
        if not isinstance(other, Variable):
            return NotImplemented
        if other.shape != self._shape:
            raise ft.ShapeError(f"[add] a gradient {other.shape} of a table {self._shape}")
        if not isinstance(other, SparseGradient):
            return _as_variable(ft.scatter(other, self.indices, self.values, 0, "add"))
        indices = ft.concatenate([self.indices, other.indices])
        both = SparseGradient(indices, ft.concatenate([self.values, other.values]), self._shape)
        # What is gathered over many passes stays below the size of the table.
        return both.coalesced() if indices.size > self._shape[0] else both

    __radd__ = __add__

    def __mul__(self, factor: Any) -> SparseGradient:
        return self.with_values(self.values * _scalar(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> SparseGradient:
        return self.with_values(self.values / _scalar(divisor))

    @property
    def nbytes(self) -> int:
        """Bytes of indices and values."""
        return self.indices.nbytes + self.values.nbytes

    def _copy(self) -> SparseGradient:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseGradient, (self.indices, self.values.tensor, self._shape)

    def __repr__(self) -> str:
        return f"SparseGradient({self.indices.size} rows of {self._shape}, {self.dtype})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return element("div", repr(self))


def lookup_rows(weight: ft.Array, indices: ft.Array) -> Any:
    """``ft.embedding(weight, indices)``: rows of a table (count, dim) at integer indices (...). Its
    gradient is a SparseGradient: time and memory go with the indices, not with the table.

    ``weight`` must be a leaf, since no operation before this one could take such a gradient
    (GradError otherwise).
    """
    if not isinstance(weight, Variable) or not weight.requires_grad or not is_grad_enabled():
        return ft.embedding(weight, indices)
    if not weight.is_leaf:
        raise GradError(
            f"[lookup_rows] the table {weight.shape} is the result of {weight.grad_fn}: a gradient "
            "of rows goes to a leaf alone; use ft.embedding"
        )
    where = indices.tensor if isinstance(indices, Variable) else indices
    found = ft.embedding(weight.tensor, where)
    saved = (_normalized_indices(where, weight.shape[0]), weight.shape)
    return recorded(found._adapter, weight._backend, _RULE, (weight._node,), saved)


def _normalized_indices(indices: ft.Array, count: int) -> ft.Array:
    # Each row under one number: negative ones count from the end.
    flat = ft.reshape(indices, (-1,)).astype(ft.int64)
    return ft.where(flat < 0, flat + count, flat)


def _lookup_gradient(
    ops: Any, g: Any, saved: tuple[Any, ...], ins: tuple[Any, ...]
) -> tuple[Any, ...]:
    indices, shape = saved
    values = g if isinstance(g, Variable) else variable(g, indices.backend, None)
    values = ft.reshape(values, (indices.size, *shape[1:]))
    return (SparseGradient(indices, values, shape),)


_RULE = Rule("lookup_rows", {"weight": _lookup_gradient})
_RULE.backward = _lookup_gradient


def to_dense(g: Variable) -> Variable:
    """``g`` with all rows, for those who compute with gradients of any kind."""
    return g.to_dense() if isinstance(g, SparseGradient) else g


def _as_variable(x: ft.Array) -> Variable:
    return x if isinstance(x, Variable) else Variable(x)


def _scalar(x: Any) -> Any:
    if isinstance(x, ft.Array) and x.size != 1:
        raise ft.ShapeError(f"[SparseGradient] scaled by {x.shape}: expected a number or a scalar")
    return x
