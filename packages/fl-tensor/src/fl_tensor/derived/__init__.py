"""Derived operations: written once over a namespace of primitives, inherited by every backend.

Each is a function ``name(ops, x, ...)``. With ``ops`` a backend it computes on adapters; with
``ops`` a tape it computes on variables, so that its gradient follows from the primitives' rules.
Values have ``shape``, ``dtype`` and ``device``; ``ops.constant(2.0, x)`` is a 0-d value like ``x``.
The letters in the signatures are those of ``fl_tensor.roles``.
"""

from __future__ import annotations

from fl_tensor.derived import (
    attention,
    comparison,
    complex_parts,
    conv_gradient,
    diagonals,
    einsum,
    elementwise,
    fft,
    floats,
    linalg,
    loss,
    manipulation,
    nan,
    normalization,
    pooling,
    pooling_gradient,
    product,
    reduction,
    repetition,
    sampling,
    scan,
    search,
    sequence,
    statistics,
    truncation,
)

MODULES = (
    elementwise,
    floats,
    comparison,
    reduction,
    scan,
    nan,
    statistics,
    manipulation,
    repetition,
    diagonals,
    product,
    einsum,
    search,
    normalization,
    pooling,
    pooling_gradient,
    conv_gradient,
    loss,
    attention,
    sequence,
    sampling,
    truncation,
    complex_parts,
    linalg,
    fft,
)
