"""Batch normalisation with weight and bias, a fused max(v, 0), and its gradients."""

from __future__ import annotations

from fl_tensor.backends.providers.layout import row_major
from fl_tensor.backends.providers.onednn import primitives
from fl_tensor.backends.providers.onednn.binding import Binding, Handle
from fl_tensor.backends.providers.onednn.descriptors import attributes, describe
from fl_tensor.backends.providers.onednn.primitives import REMEMBERED, Operand, Primitive, assemble
from fl_tensor.backends.providers.problems import BatchNorm, BatchNormGradient
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError
from fl_tensor.dtypes import float32

_TRAINING, _INFERENCE, _BACKWARD = 64, 96, 128
_GIVEN_STATISTICS, _WEIGHT, _BIAS, _RELU = 1, 2, 4, 8


def prepare(binding: Binding, problem: BatchNorm) -> Kernel:
    """Normalise, by the statistics of the batch (which are results then) or by given ones."""
    made = _forward(binding, problem, attributes(binding))
    channels = row_major(float32, problem.x.shape[1:2])
    operands = [
        Operand(primitives.SRC, problem.x),
        Operand(primitives.SCALE, channels),
        Operand(primitives.SHIFT, channels),
        Operand(primitives.MEAN, channels, output=problem.training),
        Operand(primitives.VARIANCE, channels, output=problem.training),
    ]
    if problem.relu and problem.training:
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands.append(Operand(primitives.DST, problem.out, output=True))
    return assemble(Primitive(binding, made), operands)


def prepare_gradient(binding: Binding, problem: BatchNormGradient) -> Kernel:
    """The gradients of x, weight and bias."""
    if problem.relu and not problem.training:
        raise UnsupportedError("a fused max(v, 0) has a gradient in training alone")
    attribute = attributes(binding)
    hint = _forward(binding, problem, attribute)
    made = binding.create(
        *("dnnl_batch_normalization_backward_primitive_desc_create", binding.engine, _BACKWARD),
        *(describe(binding, problem.out), describe(binding, problem.gradient)),
        *(describe(binding, problem.x), problem.eps, _flags(problem), hint, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    channels = row_major(float32, problem.x.shape[1:2])
    operands = [
        Operand(primitives.SRC, problem.x),
        Operand(primitives.DIFF_DST, problem.gradient),
        Operand(primitives.SCALE, channels),
        Operand(primitives.MEAN, channels),
        Operand(primitives.VARIANCE, channels),
    ]
    if problem.relu:
        operands.append(Operand(primitives.WORKSPACE, REMEMBERED))
    operands += [
        Operand(primitives.DIFF_SCALE, channels, output=True),
        Operand(primitives.DIFF_SHIFT, channels, output=True),
        Operand(primitives.DIFF_SRC, problem.out, output=True),
    ]
    return assemble(Primitive(binding, made), operands)


def _forward(binding: Binding, problem: BatchNorm | BatchNormGradient, attribute: Handle) -> Handle:
    out = problem.out if isinstance(problem, BatchNorm) else problem.gradient
    gradient = isinstance(problem, BatchNormGradient)
    kind = _TRAINING if problem.training or gradient else _INFERENCE
    return binding.create(
        *("dnnl_batch_normalization_forward_primitive_desc_create", binding.engine, kind),
        *(describe(binding, problem.x), describe(binding, out)),
        *(problem.eps, _flags(problem), attribute),
        destroy="dnnl_primitive_desc_destroy",
    )


def _flags(problem: BatchNorm | BatchNormGradient) -> int:
    statistics = 0 if problem.training else _GIVEN_STATISTICS
    return statistics | _WEIGHT | _BIAS | (_RELU if problem.relu else 0)
