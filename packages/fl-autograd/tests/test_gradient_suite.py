"""Every differentiable operation against central differences, on the default backend."""

import fl_tensor as ft
from fl_autograd.testing import GradientSuite


class TestGradients(GradientSuite):
    backend = ft.current_backend()
