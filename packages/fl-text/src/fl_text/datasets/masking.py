"""``TokenMasking``: the inputs and targets of masked language models.

Devlin et al., BERT: pre-training of deep bidirectional transformers for language understanding,
2019; spans as in Joshi et al., SpanBERT, 2020.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import fl_tensor as ft
from fl_data import DataError, Sample, check_count, mix
from fl_tensor.annotations import Checked
from fl_text.datasets.masking_kernel import Masking, mask_rows
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
        ordinary = [i for i in range(len(tokenizer)) if i not in self.special]
        if not ordinary:
            raise TextError("[TokenMasking] all tokens of the tokenizer are special")
        self._settings = Masking(
            bytearray(i in self.special for i in range(len(tokenizer))),
            array("q", ordinary),
            self.mask,
            mask_prob,
            random_prob,
            same_prob,
            self.mask_min_length,
        )

    def __call__(self, sample: Sample, generator: ft.Generator) -> Sample:
        tokens = _tokens(sample, 1, "integers (T,) of a text")
        hidden, wanted = self._masked(tokens, [generator])
        assert isinstance(sample, tuple)
        return (hidden, *sample[1:-1], wanted)

    def batch(self, batch: Sample, generators: Sequence[ft.Generator]) -> Sample:
        """What the samples of a batch, its first field `(N, T)`, give one by one with these
        generators: `RandomTransform` calls it for a `Batch`."""
        tokens = _tokens(batch, 2, "integers (N, T) of texts")
        if len(generators) != tokens.shape[0]:
            raise TextError(
                f"[TokenMasking.batch] {len(generators)} generators for {tokens.shape[0]} samples: "
                "give one for each"
            )
        hidden, wanted = self._masked(tokens, generators)
        assert isinstance(batch, tuple)
        return (hidden, *batch[1:-1], wanted)

    def _masked(
        self, tokens: ft.Array, generators: Sequence[ft.Generator]
    ) -> tuple[ft.Tensor, ft.Tensor]:
        seeds = array("q")
        for generator in generators:
            # 63 bits: the kernel has signed numbers.
            seeds.append(mix(generator.seed, generator.offset) >> 1)
            generator.offset += 1  # the next text has other numbers
        width = tokens.shape[-1]
        hidden = array("q")
        hidden.frombytes(ft.asarray(tokens, ft.int64).tobytes())
        wanted = array("q", [self.ignore_index]) * len(hidden)
        if hidden:
            chosen, state = bytearray(width), array("q", [0])
            mask_rows(self._settings, hidden, wanted, seeds, chosen, state)
        shape = tokens.shape
        return ft.asarray(hidden, ft.int64).reshape(shape), ft.asarray(wanted).reshape(shape)

    def __repr__(self) -> str:
        return f"TokenMasking(mask_prob={self.mask_prob}, mask_min_length={self.mask_min_length})"


def _tokens(sample: Sample, axes: int, what: str) -> ft.Array:
    tokens = sample[0] if isinstance(sample, tuple) and sample else None
    if not isinstance(tokens, ft.Array) or tokens.ndim != axes or not tokens.dtype.is_integer:
        found = f"{tokens.shape} of {tokens.dtype}" if isinstance(tokens, ft.Array) else "none"
        raise DataError(
            f"[TokenMasking] the first field of a sample must be the {what}, got {found}: put "
            "RandomTransform around the dataset, and Batch around that"
        )
    return tokens
