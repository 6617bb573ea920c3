"""For another class of arrays, derived from ``Array`` as ``fl_autograd.Variable`` is: what its
operators, assignments and results need. Draft, like ``fl_tensor.extend``."""

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
