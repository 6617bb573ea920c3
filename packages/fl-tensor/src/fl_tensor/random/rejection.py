"""Random numbers by rejection: each element tries until a proposal is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fl_tensor import functions
from fl_tensor.functions.elementwise import where

if TYPE_CHECKING:
    from fl_tensor.random.generator import Generator

#: A place in the stream, in words, from which the seeds of further trials are drawn.
_TRIALS_OFFSET = 1 << 61
#: Of proposals of which two thirds are accepted, one in 10^30 needs more trials.
_MOST = 64


def until_accepted(
    generator: Generator, words: int, propose: Callable[[Generator], tuple[Any, Any]]
) -> Any:
    """The values of ``propose(stream)``, which draws ``words`` words and gives values and where
    they are accepted: each element of the first trial in which it is.

    The first trial draws from ``generator``, every further one from a stream of its own at the same
    place. So an element's number depends on its place in the stream alone, however many elements
    are drawn with it, and the generator moves on by one trial.
    """
    first, seeds = type(generator)(generator.seed), type(generator)(generator.seed)
    start = first.offset = generator._take(words)
    values, done = propose(first)
    if not done._backend.has_values:
        return values
    seeds.offset = _TRIALS_OFFSET
    for _ in range(_MOST):
        if done.all():
            break
        (stream,) = seeds.split(1)
        stream.offset = start
        found, accepted = propose(stream)
        values = where(done, values, found)
        done = functions.logical_or(done, accepted)
    return values
