"""Features of samples that come piece by piece."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft


class FeatureStream:
    """What `extractor.stream()` returns: the features of `extractor` for samples in pieces.

    `push(chunk)`, `(..., samples)`, returns the frames that are complete, `(..., k, size)`;
    `finish()` returns those that waited for later ones, and the stream begins anew. All pieces
    together are `extractor` of all samples, to rounding. Deltas delay frames by their windows.
    Memory is that of a few frames and the last chunk.

    Raises `ft.ShapeError` for a chunk with other leading axes than the first, and what the
    extractor raises.
    """

    def __init__(self, extractor: Any, *, generator: ft.Generator | None = None) -> None:
        self.extractor = extractor  # a FeatureExtractor, whose module imports this one
        self._generator = generator
        self._samples: Any = None  # those that later frames need
        self._skip = 0  # samples to come that lie between frames
        self._static: Any = None  # frames without derivatives, from number `_before` on
        self._before = self._done = 0  # of them `_done` are given out
        self._dither: ft.Generator | None = None
        self._begin()

    @property
    def frames(self) -> int:
        """How many frames there have been since the beginning."""
        return self._before + self._done

    def push(self, chunk: Any) -> Any:
        """The frames that `chunk` completes, `(..., k, size)`; k may be 0."""
        chunk = self.extractor._samples(chunk)
        if self._samples is not None:
            if chunk.shape[:-1] != self._samples.shape[:-1]:
                raise ft.ShapeError(
                    f"[stream] chunk {chunk.shape} after {self._samples.shape}: the axes before "
                    f"the last are those of the first chunk"
                )
            chunk = ft.concatenate([self._samples, chunk], axis=-1)
        skipped = min(self._skip, chunk.shape[-1])
        chunk, self._skip = chunk[..., skipped:], self._skip - skipped
        static = self.extractor._static(chunk, self._dither)
        count = static.shape[-2]
        stride = 1 if self.extractor.kind == "raw" else self.extractor.params.stride
        self._samples = chunk[..., count * stride :]
        self._skip += max(0, count * stride - chunk.shape[-1])
        if self._static is not None:
            static = ft.concatenate([self._static, static], axis=-2)
        self._static = static
        return self._emit(static.shape[-2] - self.extractor.context)

    def finish(self) -> Any:
        """The frames that are left, `(..., k, size)`."""
        static = self._static
        if static is None:
            raise ft.ArgumentError("[stream] finish before the first chunk: push samples first")
        rest = self._emit(static.shape[-2])
        self._begin()
        return rest

    def _begin(self) -> None:
        self._samples = self._static = None
        self._skip = self._before = self._done = 0
        self._dither = self.extractor._dither(self._generator)

    def _emit(self, end: int) -> Any:
        """Frames up to `end` of those that are kept, and forget what no later one needs."""
        end = max(end, self._done)
        found = self.extractor._derived(self._static)[..., self._done : end, :]
        drop = max(0, end - self.extractor.context)
        self._static = self._static[..., drop:, :]
        self._before, self._done = self._before + drop, end - drop
        return found
