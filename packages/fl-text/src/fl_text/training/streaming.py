"""Batches of a stream of text, for corpora that no index is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fl_dist as dist
import fl_nn as nn
from fl_data import DataError, Dataset, IterationError, Stream
from fl_dist import Communicator
from fl_text.datasets.shards import TextShards
from fl_text.datasets.token_chunks import TokenChunks
from fl_text.errors import TextError
from fl_text.recipe import Recipe
from fl_text.tokenizer import Tokenizer

#: Neighbours of a random order: twice as many samples are in memory.
SHUFFLED = 1024


def stream_of_batches(
    recipe: Recipe,
    paths: Sequence[str],
    tokenizer: Tokenizer,
    communicator: Communicator,
    seed: int,
    change: Callable[[Any, Any], Any] | None = None,
) -> Stream:
    """This rank's share of batches of the lines of files. All ranks read all files: each batch has
    the samples that it has on one rank. `change` is given samples and a generator."""
    samples: Stream = TokenChunks(
        TextShards(paths, seed=seed), tokenizer, recipe.context, eos=recipe.eos
    ).shuffle(SHUFFLED, seed)
    if change is not None:
        samples = samples.random_map(change, seed)
    ranks = communicator.world_size
    if ranks > 1:
        samples = samples.share(communicator.rank, ranks)
    return samples.batch(recipe.batch_size // ranks, skip_last=True)


class StreamBatches(Dataset):
    """A stream as epochs of `count` batches each, which are read in their order alone. Where the
    stream ends, its next pass begins, in another order. Raises `TextError` for a stream without a
    batch."""

    def __init__(self, stream: Stream, count: int) -> None:
        self._stream, self._count = stream, count
        self._batches = iter(stream)
        self._next = 0

    def __len__(self) -> int:
        return self._count

    def iterate(self, start: int = 0) -> Any:
        self._next = start
        return super().iterate(start)

    def __getitem__(self, index: int) -> Any:
        if index != self._next:
            raise IterationError(
                f"[StreamBatches] batch {index}, and the next one is {self._next}: a stream is "
                "read in its order"
            )
        found = next(self._batches, None)
        if found is None:
            self._stream.set_epoch(self._stream.epoch + 1)
            self._batches = iter(self._stream)
            found = next(self._batches, None)
        if found is None:
            raise TextError(
                f"[StreamBatches] {self._stream!r} has no batch: give more text, or a smaller "
                "context or batch"
            )
        self._next += 1
        return found

    def state(self) -> dict[str, Any]:
        """The place behind the last batch, plain values."""
        return self._batches.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on at a place. Raises `DataError` for one of another stream."""
        self._batches.load_state(state)


class StreamPlace(nn.Callback):
    """Keeps the place of each rank in its stream in checkpoints."""

    def __init__(self, batches: StreamBatches, communicator: Communicator) -> None:
        self.batches, self.communicator = batches, communicator
        self._everyones: list[Any] = []

    def on_step(self, trainer: nn.Trainer) -> None:
        self._everyones = dist.all_gather_object(self.communicator, self.batches.state())

    def on_skip(self, trainer: nn.Trainer) -> None:
        self.on_step(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The places of all ranks; none before the first step."""
        return {"places": self._everyones}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a place. Raises StateDictError when it is of another callback, or of another
        number of ranks."""
        places = state.get("places")
        if not isinstance(places, list) or not all(isinstance(each, Mapping) for each in places):
            raise nn.StateDictError("this is not the state of a StreamPlace")
        if places and len(places) != self.communicator.world_size:
            raise nn.StateDictError(
                f"the state is of {len(places)} ranks, and there are "
                f"{self.communicator.world_size}: resume on as many ranks as before"
            )
        if places:
            try:
                self.batches.load_state(places[self.communicator.rank])
            except DataError as error:
                raise nn.StateDictError(f"the place in the stream: {error}") from error
        self._everyones = places
