"""The extension interface: services for backends and for layers above the tensors (draft ``extend
1.0``).

The contract (``fl_tensor.backend``) says what a backend must offer. This package says what
fl-tensor offers to a backend, or to a layer such as automatic differentiation. ``extend.rules`` has
the shape rules of derived operations, ``extend.numpy`` a NumPy backend to derive from. Graphs are
in ``fl_tensor.graph``. The guide is docs/extending-a-backend.md.

Import these names from here: the modules that define them may move. Until the draft is final, a
minor version may change them. After that, a name stays until the next major version.
"""

from fl_tensor import cache_files as cache_files
from fl_tensor import settings as settings
from fl_tensor import threads as threads
from fl_tensor.cached import cached_property
from fl_tensor.composition import cached_composition
from fl_tensor.dispatch.calls import attributes as operation_attributes
from fl_tensor.dispatch.frontend import apply_operation
from fl_tensor.dispatch.preconditions import Preconditions
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.dispatch.stack import (
    Layer,
    Stack,
    active,
    operation_names,
    revived,
    through,
    under,
)
from fl_tensor.dispatch.stack import current as current_stack
from fl_tensor.gc_control import gc_paused
from fl_tensor.refcounts import count_if_alone, getrefcount
from fl_tensor.reproducible import is_reproducible
from fl_tensor.roles import Scalar, Shape
from fl_tensor.wrappers.table import render as render_table

__all__ = [
    "BackendLike",
    "Layer",
    "Preconditions",
    "Scalar",
    "Shape",
    "Stack",
    "active",
    "apply_operation",
    "cache_files",
    "cached_composition",
    "cached_property",
    "count_if_alone",
    "current_stack",
    "gc_paused",
    "getrefcount",
    "is_reproducible",
    "operation_attributes",
    "operation_names",
    "render_table",
    "revived",
    "settings",
    "threads",
    "through",
    "under",
]
