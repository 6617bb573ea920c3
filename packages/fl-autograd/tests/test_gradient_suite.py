"""Every differentiable operation against central differences, on the reference backend."""

from fl_autograd.testing import GradientSuite


class TestNumpyGradients(GradientSuite):
    backend = "numpy"
