"""``checked(backend)``: a backend that asserts the contract from both sides in a real run.

Every call is looked at on its way in (what the front end promises: operands of one dtype, axes in
range and non-negative) and on its way out (what the backend promises: shape, dtype and device of
the rule). For tests, and for hunting a fault in a run:

    ft.use(checked(ft.get_backend("acme")))
"""

from __future__ import annotations

from fl_tensor.backend import TensorBackend
from fl_tensor.wrappers import check, wrapped


def checked(backend: TensorBackend) -> TensorBackend:
    """A backend of the same class and state that checks each call.

    A broken promise raises BackendError that says whose it was: "front end" or "backend".
    """
    return wrapped(backend, check(nan=False, inf=False, operands=False))
