"""Memory descriptors and primitive attributes: layouts in oneDNN's terms."""

from __future__ import annotations

from typing import TypeAlias

from fl_jit.kernels import Layout, Packed, Placement, UnsupportedError, dense
from fl_tensor import dtypes
from onednn_kernels.binding import Binding, Handle, dims

Shape: TypeAlias = tuple[int, ...]

_ANY = 1  # dnnl_format_tag_any
_DTYPES = {
    dtypes.float16: 1,
    dtypes.bfloat16: 2,
    dtypes.float32: 3,
    dtypes.int32: 4,
    dtypes.int8: 5,
    dtypes.uint8: 6,
    dtypes.float64: 7,
}
_MOST_AXES = 12


class Descriptor:
    """An owned memory descriptor. Two are equal if memory in one can be read as the other."""

    __slots__ = ("_as_parameter_", "_binding", "_handle")

    def __init__(self, binding: Binding, handle: Handle) -> None:
        self._binding = binding
        self._handle = handle
        self._as_parameter_ = handle.address

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Descriptor):
            return NotImplemented
        return bool(self._binding.c.dnnl_memory_desc_equal(self, other))

    __hash__ = None  # type: ignore[assignment]  # Packed has one

    @property
    def nbytes(self) -> int:
        return int(self._binding.c.dnnl_memory_desc_get_size(self))


def describe(binding: Binding, given: Placement, free: bool = False) -> Descriptor:
    """The descriptor of a layout; with ``free``, of its shape in any layout.

    Raises UnsupportedError for layouts that the library cannot describe: no elements, too many
    axes, strides that are negative, repeat elements or overlap, or an unsupported dtype.
    """
    if isinstance(given, Packed):
        if free:
            return _free(binding, given.dtype, given.shape)
        if not isinstance(given.opaque, Descriptor):
            raise UnsupportedError(f"{given!r} was packed by another library")
        return given.opaque
    dtype, shape, strides = given
    if strides is None or free:
        return _free(binding, dtype, shape)
    _check(dtype, shape)
    strides = _tidy(shape, strides)
    held = sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1)
    below = 1
    for stride, size in held:
        if stride < below:
            raise UnsupportedError(f"strides {strides} of {shape} repeat or overlap")
        below = stride * size
    code = _DTYPES[dtype]
    handle = binding.create(
        *("dnnl_memory_desc_create_with_strides", len(shape), dims(shape), code, dims(strides)),
        destroy="dnnl_memory_desc_destroy",
    )
    return Descriptor(binding, handle)


def describe_dense(binding: Binding, given: Placement) -> Descriptor:
    """The descriptor of a bias.

    The library's kernels ignore the strides of a bias. Raises UnsupportedError unless it is dense
    and row-major.
    """
    if isinstance(given, Layout) and given.strides is not None:
        plain = dense(given.shape, tuple(range(len(given.shape))))
        if any(s != p and n > 1 for n, s, p in zip(given.shape, given.strides, plain, strict=True)):
            raise UnsupportedError(f"oneDNN overlooks the strides of a bias: {given}")
    return describe(binding, given)


def copied(binding: Binding, address: int) -> Descriptor:
    """An owned copy of a descriptor that belongs to another object."""
    made = binding.create("dnnl_memory_desc_clone", address, destroy="dnnl_memory_desc_destroy")
    return Descriptor(binding, made)


def _free(binding: Binding, dtype: dtypes.DType, shape: Shape) -> Descriptor:
    _check(dtype, shape)
    handle = binding.create(
        *("dnnl_memory_desc_create_with_tag", len(shape), dims(shape), _DTYPES[dtype], _ANY),
        destroy="dnnl_memory_desc_destroy",
    )
    return Descriptor(binding, handle)


def _check(dtype: dtypes.DType, shape: Shape) -> None:
    if dtype not in _DTYPES:
        raise UnsupportedError(f"oneDNN has no dtype {dtype}")
    if 0 in shape or not 1 <= len(shape) <= _MOST_AXES:
        raise UnsupportedError(f"oneDNN takes 1 to {_MOST_AXES} axes with elements, not {shape}")


def _tidy(shape: Shape, strides: Shape) -> Shape:
    # The stride of an axis of size 1 has no meaning. The row-major one matches most layouts.
    plain = dense(shape, tuple(range(len(shape))))
    return tuple(p if n == 1 else s for n, s, p in zip(shape, strides, plain, strict=True))


def attributes(binding: Binding, accumulate: bool = False) -> Handle:
    """Primitive attributes with scratch memory from the caller.

    ``accumulate`` adds the old value of the result.
    """
    made = binding.create("dnnl_primitive_attr_create", destroy="dnnl_primitive_attr_destroy")
    binding.call("dnnl_primitive_attr_set_scratchpad_mode", made, 1)
    if accumulate:
        after = binding.create("dnnl_post_ops_create", destroy="dnnl_post_ops_destroy")
        binding.call("dnnl_post_ops_append_sum", after, 1.0, 0, 0)
        binding.call("dnnl_primitive_attr_set_post_ops", made, after)
    return made
