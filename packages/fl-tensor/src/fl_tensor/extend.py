"""The extension interface: services for backends and for layers above the tensors (draft ``extend
1.0``).

Import these names from here: the modules that define them may move. Once the draft is final, a name
stays until the next major version.
"""

from fl_tensor.composition import cached_composition
from fl_tensor.dispatch.stack import Layer, Stack, active, operation_names, revived, under
from fl_tensor.dispatch.stack import current as current_stack
from fl_tensor.gc_control import gc_paused

__all__ = [
    "Layer",
    "Stack",
    "active",
    "current_stack",
    "operation_names",
    "revived",
    "cached_composition",
    "gc_paused",
    "under",
]
