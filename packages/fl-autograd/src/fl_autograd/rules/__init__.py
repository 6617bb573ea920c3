"""The gradient rules, by family. Importing this package fills the table."""

from __future__ import annotations

from fl_autograd.rules import (
    attention,
    complex_parts,
    contractions,
    elementwise,
    extremes,
    fourier,
    fused,
    linalg,
    normalization,
    pooling,
    recurrent,
    reductions,
    shapes,
    special,
)
from fl_autograd.rules.table import NON_DIFFERENTIABLE, RULES, Rule, rule

__all__ = [
    "NON_DIFFERENTIABLE",
    "RULES",
    "Rule",
    "attention",
    "complex_parts",
    "contractions",
    "elementwise",
    "extremes",
    "fourier",
    "fused",
    "linalg",
    "normalization",
    "pooling",
    "recurrent",
    "reductions",
    "rule",
    "shapes",
    "special",
]
