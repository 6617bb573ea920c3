"""Convolutions, dgrad and wgrad, over one to three spatial axes.

The library is fastest on channels-last images and on weights in its own blocked layout. Images are
used in the given layout, or are reordered into the layout that the library prefers.
``fl-jit tune`` measures both.

Weights with strides are packed at every call, which is cheap compared to the convolution. A caller
that reuses weights asks for the layout (strides None) and packs them once, with a Reorder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Kernel,
    Layout,
    Packed,
    Placement,
    UnsupportedError,
)
from onednn_kernels import primitives
from onednn_kernels.binding import Binding, Handle, dims
from onednn_kernels.memory_descriptors import Shape, attributes, describe, describe_dense
from onednn_kernels.pointwise import Product
from onednn_kernels.primitives import Operand, Primitive, assemble

AnyConvolution = Convolution | ConvDataGrad | ConvWeightGrad

_DIRECT = 1  # dnnl_convolution_direct
_TRAINING = 64  # dnnl_forward_training

#: Image layout of the primitive: the given one, or the one that the library prefers.
GIVEN, FREE = "given", "any"
#: The convolution as a GEMM.
PRODUCT = "product"


def candidates(binding: Binding, descriptor: AnyConvolution) -> dict[str, Callable[[], Kernel]]:
    """The kernels for a convolution, its dgrad or its wgrad; the usually fastest one is first.

    Raises UnsupportedError for other than one to three spatial axes, and for cropped images.
    """
    x, w, out = _roles(descriptor)
    spatial = len(out.shape) - 2
    if not 1 <= spatial <= 3:
        raise UnsupportedError(f"oneDNN convolves over one to three spatial axes, not {spatial}")
    for (low, high), step in zip(descriptor.padding, descriptor.stride, strict=True):
        if low < 0 or high <= -step:
            raise UnsupportedError(f"oneDNN does not crop: padding {descriptor.padding}")
    build = _BUILDERS[type(descriptor)]
    factories: dict[str, Callable[[], Kernel]] = {
        GIVEN: lambda: build(binding, descriptor, False),
        FREE: lambda: build(binding, descriptor, True),
    }
    pointwise = math.prod(w.shape[-spatial:]) == 1  # a GEMM, in either layout
    if not (pointwise or (_is_last(x) and _is_last(out))):
        factories = {name: factories[name] for name in (FREE, GIVEN)}
    elif not (_is_strided(x) or _is_strided(out)):
        del factories[FREE]  # would be the same
    if pointwise:
        product = {PRODUCT: lambda: Product(binding, descriptor)}
        first = isinstance(descriptor, ConvWeightGrad)
        factories = {**product, **factories} if first else {**factories, **product}
    return factories


def _roles(descriptor: AnyConvolution) -> tuple[Placement, Placement, Placement]:
    # (x, w, out) of the convolution, or of the convolution whose gradient this is
    if isinstance(descriptor, Convolution):
        return descriptor.x, descriptor.w, descriptor.out
    if isinstance(descriptor, ConvDataGrad):
        return descriptor.out, descriptor.w, descriptor.gradient
    return descriptor.x, descriptor.out, descriptor.gradient


def _is_strided(image: Placement) -> bool:
    # Whether the layout is given by strides.
    return isinstance(image, Layout) and image.strides is not None


def _is_last(image: Placement) -> bool:
    # Whether a reorder is of little use: channels are contiguous, or the image has no strides.
    if isinstance(image, Packed) or image.strides is None:
        return True
    return image.strides[1] == 1 or image.shape[1] == 1


def _weights(w: Placement, rank: int, groups: int) -> Placement:
    # The library requires a separate axis for the groups of weights.
    if len(w.shape) == rank + 1 or groups == 1:
        return w
    if isinstance(w, Packed):
        raise UnsupportedError(f"packed weights of {groups} groups have an axis for them, not {w}")
    features, *rest = w.shape
    shape = (groups, features // groups, *rest)
    if w.strides is None:
        return Layout(w.dtype, shape, None)
    return Layout(w.dtype, shape, (w.strides[0] * (features // groups), *w.strides))


def _window(descriptor: AnyConvolution) -> tuple[Any, ...]:
    # strides, dilations (the library counts from 0), padding before and after
    low, high = zip(*descriptor.padding, strict=True)
    dilation = [d - 1 for d in descriptor.dilation]
    return dims(descriptor.stride), dims(dilation), dims(low), dims(high)


def _forward_descriptor(
    binding: Binding,
    descriptor: AnyConvolution,
    free: bool,
    bias: Placement | None,
    attribute: Handle,
) -> Handle:
    # Also the hint that descriptors of gradients require.
    x, w, out = _roles(descriptor)
    w = _weights(w, len(x.shape), descriptor.groups)
    return binding.create(
        *("dnnl_convolution_forward_primitive_desc_create", binding.engine, _TRAINING, _DIRECT),
        *(describe(binding, x, free), describe(binding, w, free=True)),
        *(None if bias is None else describe_dense(binding, bias), describe(binding, out, free)),
        *(*_window(descriptor), attribute),
        destroy="dnnl_primitive_desc_destroy",
    )


def _plan(binding: Binding, made: Handle, operands: Sequence[Operand]) -> Kernel:
    return assemble(Primitive(binding, made), operands)


def _forward(binding: Binding, descriptor: Convolution, free: bool) -> Kernel:
    attribute = attributes(binding)
    made = _forward_descriptor(binding, descriptor, free, None, attribute)
    w = _weights(descriptor.w, len(descriptor.x.shape), descriptor.groups)
    operands = [
        Operand(primitives.SRC, descriptor.x),
        Operand(primitives.WEIGHTS, w),
        Operand(primitives.DST, descriptor.out, output=True),
    ]
    return _plan(binding, made, operands)


def _data(binding: Binding, descriptor: ConvDataGrad, free: bool) -> Kernel:
    attribute = attributes(binding)
    hint = _forward_descriptor(binding, descriptor, free, None, attribute)
    w = _weights(descriptor.w, len(descriptor.out.shape), descriptor.groups)
    made = binding.create(
        *("dnnl_convolution_backward_data_primitive_desc_create", binding.engine, _DIRECT),
        *(describe(binding, descriptor.out, free), describe(binding, w, free=True)),
        *(describe(binding, descriptor.gradient, free), *_window(descriptor), hint, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    operands = [
        Operand(primitives.DIFF_DST, descriptor.gradient),
        Operand(primitives.WEIGHTS, w),
        Operand(primitives.DIFF_SRC, descriptor.out, output=True),
    ]
    return _plan(binding, made, operands)


def _weights_gradient(binding: Binding, descriptor: ConvWeightGrad, free: bool) -> Kernel:
    attribute = attributes(binding)
    hint = _forward_descriptor(binding, descriptor, free, descriptor.bias, attribute)
    w = _weights(descriptor.out, len(descriptor.x.shape), descriptor.groups)
    bias = None if descriptor.bias is None else describe_dense(binding, descriptor.bias)
    made = binding.create(
        *("dnnl_convolution_backward_weights_primitive_desc_create", binding.engine, _DIRECT),
        *(describe(binding, descriptor.x, free), describe(binding, w, free=True)),
        *(
            bias,
            describe(binding, descriptor.gradient, free),
            *_window(descriptor),
            hint,
            attribute,
        ),
        destroy="dnnl_primitive_desc_destroy",
    )
    operands = [
        Operand(primitives.SRC, descriptor.x),
        Operand(primitives.DIFF_DST, descriptor.gradient),
    ]
    if descriptor.bias is not None:
        operands.append(Operand(primitives.DIFF_BIAS, descriptor.bias, output=True))
    return _plan(binding, made, [*operands, Operand(primitives.DIFF_WEIGHTS, w, output=True)])


_BUILDERS: dict[type, Any] = {
    Convolution: _forward,
    ConvDataGrad: _data,
    ConvWeightGrad: _weights_gradient,
}


def key(descriptor: AnyConvolution) -> str:
    """The descriptor as text: the key of a decision."""
    x, w, out = _roles(descriptor)
    numbers = [
        f"stride {_times(descriptor.stride)}",
        f"padding {' '.join(f'{low}:{high}' for low, high in descriptor.padding)}",
        f"dilation {_times(descriptor.dilation)}",
        f"groups {descriptor.groups}",
    ]
    more = ["bias"] if getattr(descriptor, "bias", None) is not None else []
    return " ".join([type(descriptor).__name__.lower(), str(x), str(w), str(out), *numbers, *more])


def _times(numbers: Shape) -> str:
    return "x".join(map(str, numbers))
