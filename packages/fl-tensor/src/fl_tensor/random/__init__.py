"""Random generators, and the default generator."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from fl_tensor.arguments import seed_of, shape_of
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.errors import ArgumentError
from fl_tensor.random.draws import Draws as Draws
from fl_tensor.random.generator import Generator as Generator
from fl_tensor.random.generator import Size as Size

_process_generator = Generator(0)
_context_generator: ContextVar[Generator | None] = ContextVar("fl_tensor_generator", default=None)


def default_generator() -> Generator:
    """The generator that random functions use here when none is passed."""
    return _context_generator.get() or _process_generator


def set_default_generator(generator: Generator) -> None:
    """Make ``generator`` the default in this context (a thread of its own, say) and those it
    starts. Raises ArgumentError for what is no Generator."""
    if not isinstance(generator, Generator):
        raise ArgumentError(f"[set_default_generator] {generator!r}: expected a Generator")
    _context_generator.set(generator)


def seed(n: int) -> Generator:
    """Restart the default generator from seed ``n``; returns it. Raises ArgumentError unless
    ``0 <= n < 2**64``."""
    generator = default_generator()
    generator.set_state({"seed": seed_of("seed", n), "offset": 0})
    return generator


def rand(shape: Size = (), generator: Generator | None = None, **options: Any) -> Tensor:
    """Uniform on [0, 1). Options as in ``Generator.uniform``."""
    return _generator("rand", generator).uniform(shape_of("rand", shape), **options)


def randn(shape: Size = (), generator: Generator | None = None, **options: Any) -> Tensor:
    """Standard normal. Options as in ``Generator.normal``."""
    return _generator("randn", generator).normal(shape_of("randn", shape), **options)


def _generator(op: str, given: Generator | None) -> Generator:
    if given is None:
        return default_generator()
    if not isinstance(given, Generator):
        raise ArgumentError(
            f"[{op}] generator {given!r}: expected a Generator; a shape is one argument, as in "
            f"{op}((2, 3))"
        )
    return given
