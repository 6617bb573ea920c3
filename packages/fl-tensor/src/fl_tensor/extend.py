"""For who extends these packages: the public names beside those of the contract (draft, ``extend
1.0``).

Backends and layers above the tensors import services from here, not from where they are defined,
which may move. A name that is here stays, once the draft is final, until the next major version.
"""

from fl_tensor.collection import uncollected
from fl_tensor.composition import cached_composition
from fl_tensor.dispatch.stack import Layer, Stack, active, operation_names, revived, under
from fl_tensor.dispatch.stack import current as current_stack

__all__ = [
    "Layer",
    "Stack",
    "active",
    "current_stack",
    "operation_names",
    "revived",
    "cached_composition",
    "uncollected",
    "under",
]
