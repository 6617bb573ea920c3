"""The default generator of each context."""

from __future__ import annotations

from contextvars import ContextVar

from fl_tensor.arguments import seed_of
from fl_tensor.errors import ArgumentError
from fl_tensor.random.generator import Generator

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


def generator_of(op: str, given: Generator | None) -> Generator:
    """``given``, or the default generator. Raises ArgumentError for what is no Generator."""
    if given is None:
        return default_generator()
    if not isinstance(given, Generator):
        raise ArgumentError(
            f"[{op}] generator {given!r}: expected a Generator; a shape is one argument, as in "
            f"{op}((2, 3))"
        )
    return given
