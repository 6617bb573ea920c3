"""The operations: what they are made of, and how they are differentiated."""

from __future__ import annotations

from typing import Any

from fl_autograd import extend
from fl_jit import api


def _swiglu(ops: Any, x: Any, gate: Any) -> Any:
    """``x * silu(gate)``, in any shapes that broadcast. Shazeer, "GLU variants improve
    Transformer", 2020."""
    return ops.multiply(x, ops.silu(gate))


def _swiglu_to_x(ops: Any, g: Any, gate: Any) -> Any:
    return ops.multiply(g, ops.silu(gate))


def _swiglu_to_gate(ops: Any, g: Any, x: Any, gate: Any) -> Any:
    # silu' = s + gate s (1 - s), where s is the sigmoid
    s = ops.sigmoid(gate)
    rest = ops.multiply(gate, ops.subtract(ops.constant(1.0, s), s))
    return ops.multiply(ops.multiply(g, x), ops.multiply(s, ops.add(ops.constant(1.0, s), rest)))


def _rms_norm(ops: Any, x: Any, *, eps: float = 1e-6) -> Any:
    """``x / sqrt(mean(x^2) + eps)`` over the last axis. Zhang and Sennrich, "Root mean square layer
    normalization", 2019."""
    return ops.multiply(x, _inverse(ops, x, eps))


def _inverse(ops: Any, x: Any, eps: float) -> Any:
    squares = ops.mean(ops.square(x), (len(x.shape) - 1,), True)
    return ops.rsqrt(ops.add(squares, ops.constant(eps, x)))


def _rms_norm_to_x(ops: Any, g: Any, x: Any, eps: float) -> Any:
    inverse = _inverse(ops, x, eps)
    unit = ops.multiply(x, inverse)
    along = ops.mean(ops.multiply(g, unit), (len(x.shape) - 1,), True)
    return ops.multiply(ops.subtract(g, ops.multiply(unit, along)), inverse)


SWIGLU = api.operation("acme.swiglu", _swiglu, roles="SS")
RMS_NORM = api.operation("acme.rms_norm", _rms_norm, roles="S")

swiglu = extend.defop("acme_swiglu", SWIGLU.run, x=_swiglu_to_x, gate=_swiglu_to_gate)
rms_norm = extend.defop("acme_rms_norm", RMS_NORM.run, x=_rms_norm_to_x)
