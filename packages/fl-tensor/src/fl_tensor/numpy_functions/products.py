"""Products of vectors and matrices, the order of an Einstein sum, bits of bytes."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.derived.einsum import order_of
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of
from fl_tensor.functions.products import einsum_operands
from fl_tensor.numpy_functions.shaping import ravel

__all__ = ["einsum_path", "matvec", "packbits", "unpackbits", "vdot", "vecmat"]


def vdot(x: ArrayLike, y: ArrayLike) -> Any:
    """``sum(conj(x) * y)`` over all elements in C order, without axes."""
    x, y = operands_of("vdot", "NN", x, y)
    return ft.vecdot(ravel(x), ravel(y))


def matvec(x: ArrayLike, y: ArrayLike) -> Any:
    """Matrices (..., m, n) times vectors (..., n): (..., m); leading axes broadcast."""
    x, y = operands_of("matvec", "NN", x, y)
    return ft.squeeze(ft.matmul(x, ft.expand_dims(y, -1)), -1)


def vecmat(x: ArrayLike, y: ArrayLike) -> Any:
    """Conjugated vectors (..., m) times matrices (..., m, n): (..., n); leading axes broadcast."""
    x, y = operands_of("vecmat", "NN", x, y)
    return ft.squeeze(ft.matmul(ft.expand_dims(ft.conj(x), -2), y), -2)


def einsum_path(subscripts: str, *operands: ArrayLike) -> tuple[list[Any], str]:
    """In which order ``ft.einsum`` multiplies: ``["einsum_path", (i, j), ...]``, where each product
    goes to the end of the list of operands, and the same in words."""
    xs = einsum_operands("einsum_path", subscripts, operands)
    pairs = order_of(subscripts, [x.shape for x in xs])
    lines = [f"  {i} and {j} -> {shape}" for i, j, shape in pairs]
    text = "\n".join([f"einsum {subscripts!r}, products of operands:", *lines])
    return ["einsum_path", *((i, j) for i, j, _ in pairs)], text


# ---- bits ----------------------------------------------------------------------------------------


def packbits(x: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight elements at a time along ``axis`` (in C order without one) as the bits of a byte,
    uint8: not zero is a one. Zeros fill the last byte. ``"big"``: the first bit is the highest."""
    x = operand("packbits", "A", x)
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    bits = ft.moveaxis(ft.cast(x != 0, dtypes.int64), axis, -1)
    bits = ft.pad(bits, [(0, 0)] * (x.ndim - 1) + [(0, -bits.shape[-1] % 8)])
    weights = ft.bitwise_left_shift(1, _shifts("packbits", bits, bitorder))
    made = ft.sum(ft.reshape(bits, (*bits.shape[:-1], -1, 8)) * weights, -1)
    return ft.moveaxis(ft.cast(made, dtypes.uint8), -1, axis)


def unpackbits(
    x: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes (uint8) along ``axis``, in C order without one, as zeros and ones, uint8.
    ``count``: how many of them; more than there are gives zeros, a negative number leaves out that
    many at the end."""
    x = operand("unpackbits", "A", x)
    if x.dtype is not dtypes.uint8:
        raise ft.DTypeError(f"[unpackbits] x is {x.dtype}: expected uint8")
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    values = ft.cast(ft.expand_dims(ft.moveaxis(x, axis, -1), -1), dtypes.int64)
    bits = ft.bitwise_and(
        ft.bitwise_right_shift(values, _shifts("unpackbits", values, bitorder)), 1
    )
    size = 8 * values.shape[-2]
    bits = ft.reshape(bits, (*bits.shape[:-2], size))
    if count is not None:
        wanted = arguments.int_of("unpackbits", count, "count")
        more = wanted - size if wanted >= 0 else wanted
        bits = ft.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, more)])
    return ft.moveaxis(ft.cast(bits, dtypes.uint8), -1, axis)


def _shifts(op: str, like: Any, bitorder: str) -> Any:
    order = arguments.choice_of(op, bitorder, "bitorder", ("big", "little"))
    places = ft.arange(8, device=like.device, backend=like.backend)
    return ft.flip(places) if order == "big" else places
