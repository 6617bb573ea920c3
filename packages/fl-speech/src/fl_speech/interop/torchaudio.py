"""Transforms and datasets of torchaudio among ours (extra `fl-speech[torchaudio]`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

import fl_tensor as ft
from fl_data import DataError, Dataset, Sample, check_index
from fl_speech.effects.effect import change_field
from fl_tensor.annotations import Checked

__all__ = ["TorchaudioDataset", "TorchaudioTransform"]

_seeding = threading.Lock()


class TorchaudioTransform(Checked):
    """A function on tensors of PyTorch, such as a module of `torchaudio.transforms`, as a function
    on ours: `fl_data.Transform(ds, fields={0: TorchaudioTransform(MelSpectrogram(16000))})`.

    Memory is shared in both directions (DLPack), and nothing is copied; a result of several tensors
    comes as a tuple. No gradients are recorded. Raises `DataError` for a function that writes to
    its argument: give it a clone.

    Where the function draws from PyTorch's generator (`TimeMasking`, ...),
    `fl_data.RandomTransform(ds, transform.on(0), seed)` seeds that for each sample, and leaves it
    as it was. Such calls run one at a time, and on the host.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        if not callable(function):
            raise ft.DTypeError(
                f"[TorchaudioTransform] {function!r} is not callable: give a module of "
                "torchaudio.transforms, or a function on tensors of PyTorch"
            )

    def __call__(self, x: ft.Array, generator: ft.Generator | None = None) -> Any:
        if not isinstance(x, ft.Array):
            raise ft.DTypeError(f"[TorchaudioTransform] a {type(x).__name__}: expected a Tensor")
        shown = torch.from_dlpack(x.detach())
        version = shown._version
        with torch.no_grad():
            if generator is None:
                found = self.function(shown)
            else:
                seed = generator.integers(0, 1 << 62, backend="numpy").item()
                with _seeding, torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(seed)
                    found = self.function(shown)
        if shown._version != version:
            raise DataError(
                f"[TorchaudioTransform] {self.function!r} wrote to its argument, whose memory is "
                "that of a Tensor: give lambda x: function(x.clone())"
            )
        return ours(found)

    def on(self, field: int | str = 0) -> Callable[[Sample, ft.Generator], Sample]:
        """A function `(sample, generator) -> sample` for `fl_data.RandomTransform`: the transform
        on one field of a sample, by number or name."""
        return partial(change_field, self, field)

    def __repr__(self) -> str:
        return f"TorchaudioTransform({self.function!r})"


class TorchaudioDataset(Dataset):
    """A dataset of torchaudio, or another one of PyTorch with a length, as ours.

    Tensors are shared, and nothing is copied. Numbers and texts stay as they are: batches stack
    numbers, and have no place for texts, so that `fields`, numbers or names of fields, may choose
    some: `TorchaudioDataset(LIBRISPEECH(root), fields=[0, 1])` has waveforms and rates.
    """

    def __init__(self, dataset: Any, fields: Sequence[int | str] | None = None) -> None:
        self.dataset = dataset
        self.fields = fields
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise ft.DTypeError(
                f"[TorchaudioDataset] a {type(dataset).__name__} has no length and no samples by "
                "number: give a dataset of torchaudio"
            )

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        sample = self.dataset[check_index(index, len(self), "TorchaudioDataset")]
        found: Any = sample if isinstance(sample, dict) else tuple(sample)
        if self.fields is not None:
            try:
                chosen = [found[field] for field in self.fields]
            except (KeyError, IndexError, TypeError):
                known = list(found) if isinstance(found, dict) else list(range(len(found)))
                raise DataError(
                    f"[TorchaudioDataset] fields {self.fields!r}: the sample has {known}"
                ) from None
            is_named = isinstance(found, dict)
            found = dict(zip(self.fields, chosen, strict=True)) if is_named else tuple(chosen)
        if isinstance(found, dict):
            return {name: ours(value) for name, value in found.items()}
        return tuple(ours(value) for value in found)

    def __repr__(self) -> str:
        return f"TorchaudioDataset({type(self.dataset).__name__}, {len(self)} samples)"


def ours(value: Any) -> Any:
    """Tensors of PyTorch as ours, over the same memory; also those in a tuple or a list, which
    becomes a tuple."""
    if isinstance(value, torch.Tensor):
        return ft.from_dlpack(value.detach())
    if isinstance(value, tuple | list):
        return tuple(ours(each) for each in value)
    return value
