"""``jit``: the NumPy backend, deferred.

Elementwise operations, reductions, changes of shape, contractions and random bits on arrays that
are large enough are put off; everything else runs at once, as it does in NumPy. Shapes and dtypes
are known, and wrong ones refused, when an operation is called.
"""

from __future__ import annotations

from fl_tensor.backends.jit.contracting import Contracting
from fl_tensor.backends.jit.elementwise import Elementwise
from fl_tensor.backends.jit.moving import Moving


class JitBackend(Elementwise, Moving, Contracting):
    """NumPy's arithmetic, put off until somebody looks."""

    CONTRACT = (1, 1)
    name = "jit"
