"""``checked(backend)``: a backend that asserts the contract from both sides in a real run.

Every call is checked on entry for the front end's obligations: operands of one dtype, axes in range
and non-negative. It is checked on return for the backend's: shape, dtype and device of the rule.
For tests and debugging:

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
