"""The registrations of this package: its passes and kernels."""

from __future__ import annotations

from acme_kernels import kernels, operations, passes
from fl_tensor import jit


def register() -> None:
    """The entry point of the group ``fl.jit.v1``; called once, before the first plan is made."""
    jit.register_pass("acme-exponentials", passes.exponentials, after="common")
    jit.register_kernel(operations.SWIGLU.name, jit.elementwise(kernels.swiglu))
    jit.register_kernel(operations.RMS_NORM.name, kernels.rms_norm)
    jit.register_kernel("concatenate", kernels.concatenate)
