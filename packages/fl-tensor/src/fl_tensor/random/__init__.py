"""Random generators, the default generator, and functions that draw from it."""

from __future__ import annotations

from fl_tensor.random.categories import categorical_log_prob as categorical_log_prob
from fl_tensor.random.defaults import default_generator as default_generator
from fl_tensor.random.defaults import seed as seed
from fl_tensor.random.defaults import set_default_generator as set_default_generator
from fl_tensor.random.draws import Draws as Draws
from fl_tensor.random.functions import beta as beta
from fl_tensor.random.functions import categorical as categorical
from fl_tensor.random.functions import choice as choice
from fl_tensor.random.functions import exponential as exponential
from fl_tensor.random.functions import gamma as gamma
from fl_tensor.random.functions import integers as integers
from fl_tensor.random.functions import multinomial as multinomial
from fl_tensor.random.functions import permutation as permutation
from fl_tensor.random.functions import poisson as poisson
from fl_tensor.random.functions import rand as rand
from fl_tensor.random.functions import randn as randn
from fl_tensor.random.generator import Generator as Generator
from fl_tensor.random.generator import Size as Size


def __dir__() -> list[str]:
    from fl_tensor.public_names import public_names

    return public_names(globals())
