"""``ft.jit``: looking into deferred execution, and extending it. See docs/jit.md.

with ft.jit.profile() as report:
    step()
print(report)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_tensor import dispatch
from fl_tensor.backends.jit.backend import JitBackend
from fl_tensor.backends.jit.profile import Row as Row
from fl_tensor.backends.jit.profile import profile as profile
from fl_tensor.errors import ArgumentError

if TYPE_CHECKING:
    from fl_tensor.backends.jit.plan import Plan
    from fl_tensor.dispatch import BackendLike


def plans(backend: BackendLike = "jit") -> list[Plan]:
    """The plans that a deferred backend keeps, least recently used first. ``print`` one for its
    steps, ``plan.to_dot()`` draws it. Raises ArgumentError for a backend that makes none."""
    found = dispatch.get_backend(backend)
    if not isinstance(found, JitBackend):
        raise ArgumentError(f"[plans] backend {found.name!r} makes no plans: expected 'jit'")
    return found.plans.kept()
