"""``TokenMasking``: the inputs and targets of masked language models.

Devlin et al., BERT: pre-training of deep bidirectional transformers for language understanding,
2019; spans as in Joshi et al., SpanBERT, 2020.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator

import fl_tensor as ft
from fl_data import DataError, Sample, check_count, mix
from fl_tensor.annotations import Checked
from fl_text.encoder import TextEncoder, check_encoder
from fl_text.errors import TextError

_ROLES = ("pad", "unk", "bos", "eos", "mask")


class TokenMasking(Checked):
    """`masking(sample, generator)` hides tokens of the first field, int64 `(T,)`, and replaces the
    last field by the targets: the tokens that were hidden, and elsewhere `ignore_index`. Fields
    between stay; a sample `(tokens,)` becomes `(input, target)`.

    It is the function of `fl_data.RandomTransform(ds, TokenMasking(tokenizer), seed)`: what is
    hidden depends on the seed, the epoch and the number of the sample alone.

    mask_prob        the share of tokens that are hidden. Of T tokens it is T * mask_prob, rounded
                     down or up at random, so that the mean is right.
    random_prob      of these, the share replaced by a random token that is not special
    same_prob        of these, the share that stays as it is; all others become the mask token
    mask_min_length  tokens are hidden in spans of at least so many neighbours. A run of tokens
                     between special ones that is shorter is left alone.

    Special tokens of `tokenizer` (padding, unknown, beginning, end, mask) are never hidden. Raises
    `TextError` for shares outside 0 .. 1 and a tokenizer without mask token, and `DataError` for
    samples without such a field.
    """

    def __init__(
        self,
        tokenizer: TextEncoder,
        mask_prob: float = 0.15,
        *,
        random_prob: float = 0.1,
        same_prob: float = 0.1,
        mask_min_length: int = 1,
        ignore_index: int = -100,
    ) -> None:
        shares = {"mask_prob": mask_prob, "random_prob": random_prob, "same_prob": same_prob}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise TextError(f"[TokenMasking] {name} is {share!r}: give a share in 0 .. 1")
        if random_prob + same_prob > 1:
            raise TextError(
                f"[TokenMasking] random_prob {random_prob} and same_prob {same_prob} are more than "
                "1 together: what is left is the share of the mask token"
            )
        check_encoder(tokenizer, "TokenMasking")
        self.mask_min_length = check_count(mask_min_length, "mask_min_length", "TokenMasking", 1)
        self.mask_prob, self.random_prob, self.same_prob = mask_prob, random_prob, same_prob
        self.mask, self.ignore_index = tokenizer.need("mask"), ignore_index
        found = (getattr(tokenizer, f"{role}_id", None) for role in _ROLES)
        self.special = frozenset(number for number in found if number is not None)
        self._ordinary = [i for i in range(len(tokenizer)) if i not in self.special]
        if not self._ordinary:
            raise TextError("[TokenMasking] all tokens of the tokenizer are special")

    def __call__(self, sample: Sample, generator: ft.Generator) -> Sample:
        tokens = _tokens(sample)
        targets = array("q", [self.ignore_index]) * len(tokens)
        # Numbers one by one cost far less than tensors of them, whose sizes would all differ.
        draw = random.Random(mix(generator.seed, generator.offset)).random
        generator.offset += 1  # the next text has other numbers
        for place in list(self._places(tokens, draw)):
            targets[place] = tokens[place]
            kind, other = draw(), draw()
            if kind < self.random_prob:
                tokens[place] = self._ordinary[int(other * len(self._ordinary))]
            elif kind >= self.random_prob + self.same_prob:
                tokens[place] = self.mask
        hidden, wanted = (ft.asarray(values, ft.int64) for values in (tokens, targets))
        assert isinstance(sample, tuple)
        return (hidden, *sample[1:-1], wanted)

    def _places(self, tokens: array[int], draw: Callable[[], float]) -> Iterator[int]:
        """What is hidden: spans that do not overlap, in every run of tokens that are not special.

        Of `n` tokens, `k` spans of `m` are as `k` of `n - k (m - 1)` places, each then widened to
        `m`: every choice is as likely.
        """
        least = self.mask_min_length
        for start, size in self._runs(tokens):
            count = min(int(self.mask_prob * size / least + draw()), size // least)
            slots = size - count * (least - 1)
            for number, slot in enumerate(_chosen(slots, count, draw)):
                first = start + slot + number * (least - 1)
                yield from range(first, first + least)

    def _runs(self, tokens: array[int]) -> Iterator[tuple[int, int]]:
        """Where tokens that are not special begin, and how many follow one another."""
        start = 0
        for place, token in enumerate([*tokens, self.mask]):
            if token in self.special:
                if place > start:
                    yield start, place - start
                start = place + 1

    def __repr__(self) -> str:
        return f"TokenMasking(mask_prob={self.mask_prob}, mask_min_length={self.mask_min_length})"


def _chosen(size: int, count: int, draw: Callable[[], float]) -> list[int]:
    """`count` different numbers below `size`, in order; every choice is as likely (R. Floyd, in
    Bentley, Programming pearls: a sample of brilliance, 1987)."""
    found: set[int] = set()
    for last in range(size - count, size):
        number = int(draw() * (last + 1))
        found.add(last if number in found else number)
    return sorted(found)


def _tokens(sample: Sample) -> array[int]:
    tokens = sample[0] if isinstance(sample, tuple) and sample else None
    if not isinstance(tokens, ft.Array) or tokens.ndim != 1 or not tokens.dtype.is_integer:
        what = f"{tokens.shape} of {tokens.dtype}" if isinstance(tokens, ft.Array) else "none"
        raise DataError(
            f"[TokenMasking] the first field of a sample must be the integers (T,) of a text, got "
            f"{what}: put RandomTransform around the dataset, and Batch around that"
        )
    return array("q", tokens.tolist())
