"""Names for classes of arrays that derive from ``Array``, as ``fl_autograd.Variable`` does:
operators, assignment, checks of results. A draft, like ``fl_tensor.extend``."""

from fl_tensor.arrays.operators import BINARY, UNARY
from fl_tensor.arrays.temporaries import TEMPORARY
from fl_tensor.arrays.temporaries import warn as warn_lost_assignment
from fl_tensor.dispatch.frontend import KINDS, VALUES, Answers, answer, prepare, same_value
from fl_tensor.refcounts import getrefcount

__all__ = [
    "BINARY",
    "KINDS",
    "TEMPORARY",
    "UNARY",
    "VALUES",
    "Answers",
    "answer",
    "getrefcount",
    "prepare",
    "same_value",
    "warn_lost_assignment",
]
