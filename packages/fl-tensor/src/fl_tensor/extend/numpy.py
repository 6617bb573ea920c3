"""The NumPy backend as a base class: for backends that compute some operations faster.

Derive from ``NumpyBackend`` and override operations. Values are ``NumpyAdapter`` objects. Each has
an ``array`` and a ``dtype``; a derived class may add attributes. The rules:

* An array is never written to after its adapter was returned. The exception is a donated operand
  (``donate=True``) whose array is not shared: ``is_sole_owner``.
* Results come from ``memory.empty``: large ones are blocks of the memory manager in use.
* Single floats may be a ``Number``, a NumPy scalar without an array. ``adapt`` makes either.
* NumPy's floating-point warnings are off: ``errstate.call`` and ``errstate.quiet``.

This module imports NumPy, so ``fl_tensor.extend`` does not import it.
"""

from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy import errstate as errstate
from fl_tensor.backends.numpy import memory as memory
from fl_tensor.backends.numpy.adapter import (
    FROM_NUMPY,
    TO_NUMPY,
    Number,
    NumpyAdapter,
    adapt,
    is_sole_owner,
)
from fl_tensor.backends.numpy.shape_ops import slice_index

__all__ = [
    "FROM_NUMPY",
    "TO_NUMPY",
    "Number",
    "NumpyAdapter",
    "NumpyBackend",
    "adapt",
    "errstate",
    "is_sole_owner",
    "memory",
    "slice_index",
]
