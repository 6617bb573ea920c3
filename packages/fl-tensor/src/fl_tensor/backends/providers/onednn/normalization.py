"""Batch normalisation by given statistics, with weight and bias."""

from __future__ import annotations

from fl_tensor.backends.providers.layout import row_major
from fl_tensor.backends.providers.onednn import primitives
from fl_tensor.backends.providers.onednn.binding import Binding
from fl_tensor.backends.providers.onednn.descriptors import attributes, describe
from fl_tensor.backends.providers.onednn.primitives import Operand, Primitive, assemble
from fl_tensor.backends.providers.problems import BatchNorm
from fl_tensor.backends.providers.provider import Kernel
from fl_tensor.dtypes import float32

_INFERENCE = 96  # dnnl_forward_inference
_GIVEN_STATISTICS, _WEIGHT, _BIAS = 1, 2, 4


def prepare(binding: Binding, problem: BatchNorm) -> Kernel:
    """Normalise in one pass over x."""
    x = problem.x
    made = binding.create(
        *("dnnl_batch_normalization_forward_primitive_desc_create", binding.engine, _INFERENCE),
        *(describe(binding, x), describe(binding, problem.out), problem.eps),
        *(_GIVEN_STATISTICS | _WEIGHT | _BIAS, attributes(binding)),
        destroy="dnnl_primitive_desc_destroy",
    )
    channels = row_major(float32, x.shape[1:2])
    beside = primitives.SCALE, primitives.SHIFT, primitives.MEAN, primitives.VARIANCE
    operands = [
        Operand(primitives.SRC, x),
        *(Operand(argument, channels) for argument in beside),
        Operand(primitives.DST, problem.out, output=True),
    ]
    return assemble(Primitive(binding, made), operands)
