"""Batch normalization with weight and bias, and its gradients in training."""

from __future__ import annotations

from fl_jit.kernels.descriptors import BatchNorm, BatchNormGradient
from fl_jit.kernels.layout import Placement, row_major
from fl_jit.kernels.library import Kernel
from fl_jit.kernels.onednn import primitives
from fl_jit.kernels.onednn.binding import Binding, Handle
from fl_jit.kernels.onednn.descriptors import attributes, describe
from fl_jit.kernels.onednn.primitives import Operand, Primitive, assemble
from fl_tensor.dtypes import float32

_TRAINING, _INFERENCE, _BACKWARD = 64, 96, 128  # dnnl_prop_kind_t
_GIVEN_STATISTICS, _WEIGHT, _BIAS = 1, 2, 4


def prepare(binding: Binding, descriptor: BatchNorm) -> Kernel:
    """Batch normalization with given statistics, in one pass over x, or with those of x."""
    x, out, eps, training = descriptor
    made = _forward(binding, x, out, eps, training)
    channels = row_major(float32, x.shape[1:2])
    operands = [
        Operand(primitives.SRC, x),
        Operand(primitives.SCALE, channels),
        Operand(primitives.SHIFT, channels),
        Operand(primitives.MEAN, channels, output=training),
        Operand(primitives.VARIANCE, channels, output=training),
        Operand(primitives.DST, out, output=True),
    ]
    return assemble(Primitive(binding, made), operands)


def prepare_gradient(binding: Binding, descriptor: BatchNormGradient) -> Kernel:
    """The gradients of x, weight and bias."""
    x, gradient, out, eps = descriptor
    made = binding.create(
        *("dnnl_batch_normalization_backward_primitive_desc_create", binding.engine, _BACKWARD),
        *(describe(binding, out), describe(binding, gradient), describe(binding, x)),
        *(eps, _WEIGHT | _BIAS, _forward(binding, x, gradient, eps, True), attributes(binding)),
        destroy="dnnl_primitive_desc_destroy",
    )
    channels = row_major(float32, x.shape[1:2])
    operands = [
        Operand(primitives.SRC, x),
        Operand(primitives.DIFF_DST, gradient),
        Operand(primitives.SCALE, channels),
        Operand(primitives.MEAN, channels),
        Operand(primitives.VARIANCE, channels),
        Operand(primitives.DIFF_SCALE, channels, output=True),
        Operand(primitives.DIFF_SHIFT, channels, output=True),
        Operand(primitives.DIFF_SRC, out, output=True),
    ]
    return assemble(Primitive(binding, made), operands)


def _forward(binding: Binding, x: Placement, out: Placement, eps: float, training: bool) -> Handle:
    statistics = 0 if training else _GIVEN_STATISTICS
    return binding.create(
        *("dnnl_batch_normalization_forward_primitive_desc_create", binding.engine),
        *(_TRAINING if training else _INFERENCE, describe(binding, x), describe(binding, out)),
        *(eps, statistics | _WEIGHT | _BIAS, attributes(binding)),
        destroy="dnnl_primitive_desc_destroy",
    )
