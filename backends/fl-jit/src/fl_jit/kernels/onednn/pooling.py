"""Max pooling and mean pooling, and their gradients."""

from __future__ import annotations

from typing import Any

from fl_jit.kernels.descriptors import Pooling, PoolingGradient
from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.onednn import primitives
from fl_jit.kernels.onednn.binding import Binding, Handle, dims
from fl_jit.kernels.onednn.descriptors import attributes, describe
from fl_jit.kernels.onednn.primitives import REMEMBERED, Operand, Primitive, assemble

_KINDS = {"max": 0x1FF, "mean": 0x2FF, "mean_inside": 0x3FF}
_TRAINING, _INFERENCE = 64, 96


def prepare(binding: Binding, descriptor: Pooling) -> Kernel:
    """The maximum or the mean of each window."""
    attribute = attributes(binding)
    made = _forward(
        binding, descriptor, descriptor.x, descriptor.out, descriptor.workspace, attribute
    )
    operands = [Operand(primitives.SRC, descriptor.x)]
    if descriptor.workspace:
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands.append(Operand(primitives.DST, descriptor.out, output=True))
    return assemble(Primitive(binding, made), operands)


def prepare_gradient(binding: Binding, descriptor: PoolingGradient) -> Kernel:
    """The gradient of the input."""
    attribute = attributes(binding)
    x, out = descriptor.out, descriptor.gradient
    hint = _forward(binding, descriptor, x, out, True, attribute)
    made = binding.create(
        *("dnnl_pooling_backward_primitive_desc_create", binding.engine, _kind(descriptor)),
        *(describe(binding, x), describe(binding, out), *_window(descriptor), hint, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    operands = [Operand(primitives.DIFF_DST, descriptor.gradient)]
    if descriptor.kind == "max":
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands.append(Operand(primitives.DIFF_SRC, descriptor.out, output=True))
    return assemble(Primitive(binding, made), operands)


def _forward(
    binding: Binding,
    descriptor: Pooling | PoolingGradient,
    x: Placement,
    out: Placement,
    training: bool,
    attribute: Handle,
) -> Handle:
    for image in (x, out):
        if isinstance(image, Layout) and image.strides is None:
            raise UnsupportedError("pooling takes its images as they lie: give strides")
    return binding.create(
        *("dnnl_pooling_forward_primitive_desc_create", binding.engine),
        *(_TRAINING if training else _INFERENCE, _kind(descriptor)),
        *(describe(binding, x), describe(binding, out), *_window(descriptor), attribute),
        destroy="dnnl_primitive_desc_destroy",
    )


def _kind(descriptor: Pooling | PoolingGradient) -> int:
    if descriptor.kind not in _KINDS:
        raise UnsupportedError(f"pooling {descriptor.kind!r}: oneDNN has {', '.join(_KINDS)}")
    return _KINDS[descriptor.kind]


def _window(descriptor: Pooling | PoolingGradient) -> tuple[Any, ...]:
    # strides, window, dilation (the library counts from 0), padding before and after
    if not 1 <= len(descriptor.window) <= 3:
        raise UnsupportedError(f"oneDNN pools over one to three axes, not {descriptor.window}")
    low, high = zip(*descriptor.padding, strict=True)
    none = (0,) * len(descriptor.window)
    return dims(descriptor.stride), dims(descriptor.window), dims(none), dims(low), dims(high)
