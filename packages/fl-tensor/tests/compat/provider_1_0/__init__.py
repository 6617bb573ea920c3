"""A tensor backend for tensor 1.0, in plain NumPy."""

from provider_1_0.backend import Provider as Provider
from provider_1_0.value import Value as Value
