"""Rules of the gamma function's logarithm, its derivatives, and the inverse error function."""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.table import rule


def _erfinv(ops: Any, g: Any, out: Any) -> Any:
    slope = ops.exp(ops.multiply(out, out))
    return ops.multiply(g, ops.multiply(slope, ops.constant(math.sqrt(math.pi) / 2.0, g)))


rule("lgamma", x=lambda ops, g, x: ops.multiply(g, ops.digamma(x)))
rule("digamma", x=lambda ops, g, x: ops.multiply(g, ops.polygamma(x, 1)))
rule("polygamma", x=lambda ops, g, x, n: ops.multiply(g, ops.polygamma(x, n + 1)))
rule("erfinv", x=_erfinv)
