"""The gradient kit (install ``fl-autograd[testing]``).

    from acme_fl import AcmeBackend
    from fl_autograd.testing import GradientSuite

    class TestAcmeGradients(GradientSuite):
        backend = AcmeBackend

checks the gradient of every differentiable operation on a backend against central differences, with
the samples of ``fl_tensor.testing.CASES``.
"""

from __future__ import annotations

from fl_autograd.testing.suite import GradientSuite

__all__ = ["GradientSuite"]
