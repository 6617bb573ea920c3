"""Maxima and means of windows, and their gradients."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.providers.layout import Layout, Placement
from fl_tensor.backends.providers.onednn import primitives
from fl_tensor.backends.providers.onednn.binding import Binding, Handle, dims
from fl_tensor.backends.providers.onednn.descriptors import attributes, describe
from fl_tensor.backends.providers.onednn.primitives import REMEMBERED, Operand, Primitive, assemble
from fl_tensor.backends.providers.problems import Pooling, PoolingGradient
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError

_KINDS = {"max": 0x1FF, "mean": 0x2FF, "mean_inside": 0x3FF}
_TRAINING, _INFERENCE = 64, 96


def prepare(binding: Binding, problem: Pooling) -> Kernel:
    """The largest element, or the mean, of each window."""
    attribute = attributes(binding)
    made = _forward(binding, problem, problem.x, problem.out, problem.workspace, attribute)
    operands = [Operand(primitives.SRC, problem.x)]
    if problem.workspace:
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands.append(Operand(primitives.DST, problem.out, output=True))
    return assemble(Primitive(binding, made), operands)


def prepare_gradient(binding: Binding, problem: PoolingGradient) -> Kernel:
    """What each place contributed to maxima or means."""
    attribute = attributes(binding)
    x, out = problem.out, problem.gradient
    hint = _forward(binding, problem, x, out, True, attribute)
    made = binding.create(
        *("dnnl_pooling_backward_primitive_desc_create", binding.engine, _kind(problem)),
        *(describe(binding, x), describe(binding, out), *_window(problem), hint, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    operands = [Operand(primitives.DIFF_DST, problem.gradient)]
    if problem.kind == "max":
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands.append(Operand(primitives.DIFF_SRC, problem.out, output=True))
    return assemble(Primitive(binding, made), operands)


def _forward(
    binding: Binding,
    problem: Pooling | PoolingGradient,
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
        *(_TRAINING if training else _INFERENCE, _kind(problem)),
        *(describe(binding, x), describe(binding, out), *_window(problem), attribute),
        destroy="dnnl_primitive_desc_destroy",
    )


def _kind(problem: Pooling | PoolingGradient) -> int:
    if problem.kind not in _KINDS:
        raise UnsupportedError(f"pooling {problem.kind!r}: oneDNN has {', '.join(_KINDS)}")
    return _KINDS[problem.kind]


def _window(problem: Pooling | PoolingGradient) -> tuple[Any, ...]:
    # strides, window, what lies between its elements, padding before and behind
    if not 1 <= len(problem.window) <= 3:
        raise UnsupportedError(f"oneDNN pools over one to three axes, not {problem.window}")
    low, high = zip(*problem.padding, strict=True)
    none = (0,) * len(problem.window)
    return dims(problem.stride), dims(problem.window), dims(none), dims(low), dims(high)
