"""The registrations of this package: its passes and kernels."""

from __future__ import annotations

from acme_kernels import kernels, operations, passes
from fl_jit import api


def register() -> None:
    """The entry point of the group ``fl.jit.v1``; called once, before the first plan is made."""
    api.register_pass("acme-exponentials", passes.exponentials, after="common")
    api.register_kernel(operations.SWIGLU.name, api.elementwise(kernels.swiglu))
    api.register_kernel(operations.RMS_NORM.name, kernels.rms_norm)
    api.register_kernel("concatenate", kernels.concatenate)
