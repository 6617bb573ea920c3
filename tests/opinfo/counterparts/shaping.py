"""Creation, shapes, indexing, gathering and scattering."""

from __future__ import annotations

import builtins
import itertools
import math
from typing import Any

import fl_tensor as ft
from counterparts.calls import Function, dtype_of, sizes


def _created(function: Function) -> Function:
    """A creation function: of what PyTorch may be told, dtype alone matters here."""

    def call(*args: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:
        for name in ("layout", "pin_memory", "memory_format", "requires_grad"):
            options.pop(name, None)
        return function(*args, dtype=dtype and dtype_of(dtype), **options)

    return call


def _new(function: Function) -> Function:
    """``x.new_ones(shape)`` and its like take the dtype of ``x``."""

    def call(x: Any, shape: Any, *values: Any, dtype: Any = None, **_: Any) -> Any:
        return function(tuple(shape), *values, dtype=dtype_of(dtype) if dtype else x.dtype)

    return call


def _slices(
    x: Any, axis: int, start: int | None, stop: int | None, step: int = 1
) -> tuple[Any, ...]:
    places: list[Any] = [builtins.slice(None)] * x.ndim
    places[axis] = builtins.slice(start, stop, step)
    return tuple(places)


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    start = int(start)
    start = start + x.shape[dim] if start < 0 else start
    return x[_slices(x, dim, start, start + length)]


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[_slices(x, dim, start, end, step)]


def _select(x: Any, dim: int, index: int) -> Any:
    return ft.take(x, ft.asarray(index % x.shape[dim]), axis=dim)


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    length = -(-x.shape[dim] // chunks)
    return _split(x, max(length, 1), dim)


def _split(x: Any, split_size_or_sections: Any = None, dim: int = 0, **options: Any) -> Any:
    size = options.get("split_size", split_size_or_sections)
    if isinstance(size, int):
        count, n = -(-x.shape[dim] // size) if size else 1, x.shape[dim]
        size = [min(size, n - i * size) for i in range(max(count, 1))]
    return ft.split(x, list(size), axis=dim)


def _tensor_split(x: Any, sections: Any, dim: int = 0) -> Any:
    n = x.shape[dim]
    if hasattr(sections, "shape"):
        sections = sections.tolist()
    if isinstance(sections, int):
        base, more = divmod(n, sections)
        edges = list(itertools.accumulate(base + (i < more) for i in range(sections - 1)))
    else:
        edges = list(sections)
    parts, start = [], 0
    for stop in [*edges, None]:
        parts.append(x[_slices(x, dim, start, stop)])
        start = stop
    return parts


def _split_along(axis_of_1d: int, axis: int) -> Function:
    return lambda x, sections: _tensor_split(x, sections, axis_of_1d if x.ndim == 1 else axis)


def _at_least(ndim: int) -> Function:
    def grow(x: Any) -> Any:
        if ndim == 3 and x.ndim == 2:
            return x[:, :, None]
        if ndim == 3 and x.ndim == 1:
            return x[None, :, None]
        return x.reshape((1,) * (ndim - x.ndim) + x.shape)

    def call(*xs: Any) -> Any:
        if len(xs) == 1 and isinstance(xs[0], (list, tuple)):
            xs = tuple(xs[0])
            return [grow(x) for x in xs]
        return grow(xs[0]) if len(xs) == 1 else [grow(x) for x in xs]

    return call


def _stack_along(axis_of_1d: int, axis: int, ndim: int) -> Function:
    grow = _at_least(ndim)

    def call(xs: Any) -> Any:
        xs = [grow(x) for x in xs]
        return ft.concatenate(xs, axis=axis_of_1d if xs[0].ndim == 1 else axis)

    return call


def _column_stack(xs: Any) -> Any:
    return ft.concatenate([x.reshape((-1, 1)) if x.ndim < 2 else x for x in xs], axis=1)


def _expand(x: Any, *shape: Any) -> Any:
    shape = sizes(shape)
    extra = len(shape) - x.ndim
    return ft.broadcast_to(x, [x.shape[i - extra] if n == -1 else n for i, n in enumerate(shape)])


def _repeat(x: Any, *repeats: Any) -> Any:
    return ft.tile(x, sizes(repeats))


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    first, last = start_dim % x.ndim, end_dim % x.ndim
    size = 1
    for n in x.shape[first : last + 1]:
        size *= n
    return x.reshape((*x.shape[:first], size, *x.shape[last + 1 :]))


def _unflatten(x: Any, dim: int, shape: Any) -> Any:
    dim %= x.ndim
    return x.reshape((*x.shape[:dim], *shape, *x.shape[dim + 1 :]))


def _squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return ft.squeeze(x)
    axes = [dim] if isinstance(dim, int) else list(dim)
    return ft.squeeze(x, axis=[a for a in axes if x.ndim and x.shape[a] == 1])


def _transposed(x: Any, dim0: int, dim1: int) -> Any:
    return ft.swapaxes(x, dim0, dim1) if x.ndim else x


def _roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    return ft.roll(x, shifts, axis=None if dims is None or dims == () else dims)


def _rot90(x: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    a, b = dims
    for _ in range(k % 4):
        x = ft.flip(ft.swapaxes(x, a, b), axis=a)
    return x


def _take(x: Any, index: Any) -> Any:
    return ft.take(x.reshape(-1), index)


def _index_select(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return ft.take(x.reshape(1), index.reshape(-1), axis=0).reshape(())
    return ft.take(x, index.reshape(-1), axis=dim)


def _gather(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return ft.take(x.reshape(1), index)
    within = tuple(
        builtins.slice(None) if a == dim % x.ndim else builtins.slice(0, n)
        for a, n in enumerate(index.shape)
    )
    return ft.take_along_axis(x[within], index, axis=dim)


def _scatter(mode: str) -> Function:
    """``scatter(x, dim, index, src)`` by the flat positions of what it writes."""

    def call(
        x: Any, dim: int, index: Any, src: Any, reduce: str | None = None, include_self: bool = True
    ) -> Any:
        if reduce not in (None, *_REDUCED):
            return NotImplemented
        if x.ndim == 0:
            found = call(x.reshape(1), 0, index.reshape(-1), src, reduce, include_self)
            return found.reshape(())
        if not hasattr(src, "shape"):
            src = ft.full(index.shape, src, dtype=x.dtype)
        source = src.reshape(-1) if src.ndim == 0 else src
        source = source[tuple(builtins.slice(0, n) for n in index.shape)] if index.ndim else source
        flat = _positions(x.shape, dim % x.ndim, index)
        kind, whole, flat = _REDUCED.get(reduce or "", mode), x.reshape(-1), flat.reshape(-1)
        if not include_self:
            whole = ft.scatter(whole, flat, _NEUTRAL[kind])
        written = ft.scatter(whole, flat, source.reshape(-1), mode=kind)
        return written.reshape(x.shape)

    return call


_NEUTRAL = {"add": 0.0, "max": -math.inf, "min": math.inf}
_REDUCED = {"add": "add", "sum": "add", "amax": "max", "amin": "min"}


def _positions(shape: Any, dim: int, index: Any) -> Any:
    stride, flat = 1, ft.zeros(index.shape, dtype="int64")
    for a in reversed(range(len(shape))):
        along = [-1 if i == a else 1 for i in range(len(shape))]
        place = index if a == dim else ft.arange(index.shape[a]).reshape(along)
        flat = flat + place * stride
        stride *= shape[a]
    return flat


def _index_write(mode: str) -> Function:
    """``index_add`` and ``index_copy``: whole slices along an axis."""

    def call(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
        if x.ndim == 0:
            return call(x.reshape(1), 0, index.reshape(-1), source.reshape(-1), alpha).reshape(())
        source = source.reshape(1) if source.ndim == 0 else source
        source = source if alpha == 1 else source * alpha
        return ft.scatter(x, index.reshape(-1), source, axis=dim, mode=mode)

    return call


def _index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    if x.ndim == 0:
        return _index_fill(x.reshape(1), 0, index, value).reshape(())
    index = index.reshape(-1)
    shape = [index.size if a == dim % x.ndim else n for a, n in enumerate(x.shape)]
    value = value.astype(x.dtype) if hasattr(value, "shape") else ft.asarray(value, x.dtype)
    filled = ft.broadcast_to(value, shape)
    return ft.scatter(x, index, filled, axis=dim, mode="set")


def _index_put(x: Any, places: Any, values: Any, accumulate: bool = False) -> Any:
    if accumulate:
        return NotImplemented
    y = x + 0 if x.dtype.kind != "b" else x | False
    y[tuple(places)] = values
    return y


def _select_scatter(x: Any, src: Any, dim: int, index: int) -> Any:
    places: list[Any] = [builtins.slice(None)] * x.ndim
    places[dim] = index
    return _written(x, tuple(places), src)


def _slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return _written(x, _slices(x, dim, start, end, step), src)


def _written(x: Any, places: Any, values: Any) -> Any:
    y = ft.positive(x) if x.dtype.kind != "b" else x | False
    y[places] = values
    return y


def _diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = x.shape[-1] + abs(offset)
    eye = ft.eye(x.shape[-1], n, k=offset if offset > 0 else 0, dtype=x.dtype)
    if offset < 0:
        eye = ft.eye(n, x.shape[-1], k=offset, dtype=x.dtype).T
        square = ft.swapaxes(x[..., :, None] * eye, -1, -2)
        square = ft.pad(square, [(0, 0)] * (square.ndim - 1) + [(0, n - square.shape[-1])])
    else:
        square = ft.pad(
            x[..., :, None] * eye, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1]), (0, 0)]
        )
    return ft.moveaxis(square, (-2, -1), (dim1, dim2))


def _meshgrid(*xs: Any, indexing: str = "ij") -> Any:
    if len(xs) == 1 and isinstance(xs[0], (list, tuple)):
        xs = tuple(xs[0])
    return ft.meshgrid(*(x.reshape(-1) for x in xs), indexing=indexing)


def _repeat_interleave(
    x: Any, repeats: Any, dim: int | None = None, output_size: int | None = None
) -> Any:
    if x.ndim == 0:
        x = x.reshape(1)
    return ft.repeat(x, repeats, axis=dim)


def _constant_pad(x: Any, pad: Any, value: Any = 0) -> Any:
    return pad_last(x, pad, "constant", value)


def pad_last(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """PyTorch lists pairs of widths from the last axis on."""
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return ft.pad(x, widths, mode=mode, value=0 if value is None else value)


def _arange(*args: Any, **options: Any) -> Any:
    args = (*args, *(options.pop(name) for name in ("end", "step") if name in options))
    return _created(ft.arange)(*args, **options)


def _linspace(start: Any, end: Any, steps: int, **options: Any) -> Any:
    return _created(ft.linspace)(_number(start), _number(end), steps, **options)


def _logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Any:
    return _created(ft.logspace)(_number(start), _number(end), steps, base=base, **options)


def _number(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def _eye(n: int, m: int | None = None, **options: Any) -> Any:
    return _created(ft.eye)(n, m, **options)


def _triangle_indices(function: Function) -> Function:
    def call(rows: int, columns: int, offset: int = 0, dtype: Any = None, **_: Any) -> Any:
        found = ft.stack(function(rows, k=offset, columns=columns))
        return found if dtype is None else found.astype(dtype_of(dtype))

    return call


def _take_along(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return ft.take_along_axis(x.reshape(-1), indices.reshape(-1), axis=0)
    return ft.take_along_axis(x, indices, axis=dim)


def _move(x: Any, source: Any, destination: Any) -> Any:
    return ft.moveaxis(x, source, destination)


def _unstack(x: Any, dim: int = 0) -> Any:
    return ft.unstack(x, axis=dim)


def _masked_select(x: Any, mask: Any) -> Any:
    x, mask = ft.broadcast_arrays(x, mask)
    return x[mask]


def _combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = [list(c) for c in choose(range(x.size), r)]
    index = ft.asarray(chosen, dtype="int64").reshape((len(chosen), r))
    return ft.take(x, index, axis=0)


def _cartesian(*xs: Any) -> Any:
    if len(xs) == 1:
        return xs[0]
    return ft.stack([g.reshape(-1) for g in ft.meshgrid(*xs, indexing="ij")], axis=1)


def _block_diag(*xs: Any) -> Any:
    rows = [x.reshape((1, -1)) if x.ndim < 2 else x for x in xs]
    width = sum(x.shape[1] for x in rows)
    out, left = [], 0
    for x in rows:
        out.append(ft.pad(x, [(0, 0), (left, width - left - x.shape[1])]))
        left += x.shape[1]
    return ft.concatenate(out, axis=0)


def _unravel(index: Any, shape: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    parts = []
    for n in reversed(shape):
        parts.append(ft.remainder(index, n))
        index = ft.floor_divide(index, n)
    return parts[::-1]


def _unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    if x.ndim == 0:
        return x.reshape(1) if size else x.reshape(1)[:0]
    count = (x.shape[dimension] - size) // step + 1
    starts = ft.arange(0, count)[:, None] * step + ft.arange(0, size)
    taken = ft.take(ft.moveaxis(x, dimension, 0), starts, axis=0)
    return ft.moveaxis(ft.moveaxis(taken, 1, -1), 0, dimension)


TABLE: dict[str, Function] = {
    "H": lambda x: ft.conj(x.T) if x.ndim else x,
    "T": lambda x: x.T if x.ndim == 2 else ft.permute(x, list(range(x.ndim))[::-1]),
    "mH": lambda x: ft.conj(ft.swapaxes(x, -1, -2)),
    "mT": lambda x: ft.swapaxes(x, -1, -2),
    "__getitem__": lambda x, places: x[places],
    "arange": _arange,
    "argwhere": ft.argwhere,
    "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2),
    "atleast_3d": _at_least(3),
    "block_diag": _block_diag,
    "broadcast_shapes": lambda *shapes: ft.broadcast_shapes(*shapes),
    "broadcast_tensors": lambda *xs: ft.broadcast_arrays(*xs),
    "broadcast_to": lambda x, shape: ft.broadcast_to(x, shape),
    "cartesian_prod": _cartesian,
    "cat": lambda xs, dim=0: ft.concatenate(list(xs), axis=dim),
    "chunk": _chunk,
    "column_stack": _column_stack,
    "combinations": _combinations,
    "constant_pad_nd": _constant_pad,
    "diag": lambda x, k=0: ft.diag(x, k),
    "diagflat": lambda x, offset=0: ft.diag(x.reshape(-1), offset),
    "diag_embed": _diag_embed,
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: ft.diagonal(x, offset, dim1, dim2),
    "diagonal_copy": lambda x, offset=0, dim1=0, dim2=1: ft.diagonal(x, offset, dim1, dim2),
    "dsplit": _split_along(2, 2),
    "dstack": _stack_along(2, 2, 3),
    "expand": _expand,
    "expand_as": lambda x, y: ft.broadcast_to(x, y.shape),
    "expand_copy": _expand,
    "eye": _eye,
    "flatten": _flatten,
    "flip": lambda x, dims: ft.flip(x, axis=dims),
    "fliplr": lambda x: ft.flip(x, axis=1),
    "flipud": lambda x: ft.flip(x, axis=0),
    "full": lambda shape, value, **o: _created(ft.full)(shape, value, **o),
    "full_like": lambda x, value, dtype=None, **_: ft.full_like(
        x, value, dtype=dtype and dtype_of(dtype)
    ),
    "gather": _gather,
    "hsplit": _split_along(0, 1),
    "hstack": _stack_along(0, 1, 1),
    "index_add": _index_write("add"),
    "index_copy": _index_write("set"),
    "index_fill": _index_fill,
    "index_put": _index_put,
    "index_select": _index_select,
    "item": lambda x: x.item(),
    "linspace": _linspace,
    "linspace.tensor_overload": _linspace,
    "logspace": _logspace,
    "logspace.tensor_overload": _logspace,
    "masked_select": _masked_select,
    "meshgrid.list_of_tensors": _meshgrid,
    "meshgrid.variadic_tensors": _meshgrid,
    "movedim": _move,
    "narrow": _narrow,
    "narrow_copy": _narrow,
    "new_full": _new(ft.full),
    "new_ones": _new(ft.ones),
    "new_zeros": _new(ft.zeros),
    "nn.functional.pad.circular": pad_last,
    "nn.functional.pad.constant": pad_last,
    "nn.functional.pad.reflect": pad_last,
    "nn.functional.pad.replicate": pad_last,
    "nn.functional.pad.replicate_negative": pad_last,
    "nonzero": lambda x, as_tuple=False: ft.nonzero(x) if as_tuple else ft.argwhere(x),
    "ones": lambda *shape, **o: _created(ft.ones)(sizes(shape), **o),
    "ones_like": lambda x, dtype=None, **_: ft.ones_like(x, dtype=dtype and dtype_of(dtype)),
    "permute": lambda x, dims: ft.permute(x, dims),
    "permute_copy": lambda x, dims: ft.permute(x, dims),
    "ravel": lambda x: x.reshape(-1),
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "reshape": lambda x, shape: ft.reshape(x, shape),
    "reshape_as": lambda x, y: ft.reshape(x, y.shape),
    "roll": _roll,
    "rot90": _rot90,
    "scatter": _scatter("set"),
    "scatter_add": _scatter("add"),
    **{f"scatter_reduce.{mode}": _scatter("set") for mode in ("sum", "amax", "amin")},
    "select": _select,
    "select_scatter": _select_scatter,
    "slice": _slice,
    "slice_scatter": _slice_scatter,
    "split": _split,
    "split.list_args": _split,
    "split_with_sizes": _split,
    "split_with_sizes_copy": _split,
    "unsafe_split": _split,
    "unsafe_chunk": _chunk,
    "squeeze": _squeeze,
    "squeeze.multiple": _squeeze,
    "squeeze_copy": _squeeze,
    "stack": lambda xs, dim=0: ft.stack(list(xs), axis=dim),
    "t": lambda x: x.T if x.ndim == 2 else x,
    "t_copy": lambda x: x.T if x.ndim == 2 else x,
    "take": _take,
    "take_along_dim": _take_along,
    "tensor_split": _tensor_split,
    "tile": lambda x, dims: ft.tile(x, dims),
    "transpose": _transposed,
    "transpose_copy": _transposed,
    "tril": lambda x, k=0: ft.tril(x, k),
    "tril_indices": _triangle_indices(ft.tril_indices),
    "triu": lambda x, k=0: ft.triu(x, k),
    "triu_indices": _triangle_indices(ft.triu_indices),
    "unbind": _unstack,
    "unbind_copy": _unstack,
    "unflatten": _unflatten,
    "unfold": _unfold,
    "unfold_copy": _unfold,
    "unravel_index": _unravel,
    "unsqueeze": lambda x, dim: ft.expand_dims(x, dim),
    "unsqueeze_copy": lambda x, dim: ft.expand_dims(x, dim),
    "view": lambda x, *shape: ft.reshape(x, sizes(shape)),
    "view_as": lambda x, y: ft.reshape(x, y.shape),
    "view_copy": lambda x, *shape: ft.reshape(x, sizes(shape)),
    "view_as_real": lambda x: ft.stack([ft.real(x), ft.imag(x)], axis=-1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "vsplit": _split_along(0, 0),
    "vstack": _stack_along(0, 0, 2),
    "zeros": lambda *shape, **o: _created(ft.zeros)(sizes(shape), **o),
    "zeros_like": lambda x, dtype=None, **_: ft.zeros_like(x, dtype=dtype and dtype_of(dtype)),
}
