"""What computes here what an entry of PyTorch's OpInfo database computes there.

``COUNTERPARTS`` maps the name of an entry (``name`` or ``name.variant``) to a function that takes
the arguments of its samples, tensors replaced by ours, and returns what PyTorch returns.
"""

from __future__ import annotations

from counterparts import elementwise, linear_algebra, networks, reductions, shaping
from counterparts.calls import Function

COUNTERPARTS: dict[str, Function] = {}
for family in (elementwise, reductions, shaping, linear_algebra, networks):
    twice = COUNTERPARTS.keys() & family.TABLE.keys()
    if twice:
        raise ValueError(f"{family.__name__} names operations again: {sorted(twice)}")
    COUNTERPARTS |= family.TABLE
