"""Repetition labels: `hello` as `h e l <1> o`, for criteria that merge equal neighbours.

Label `<n>` says that the token before it stands n more times. Collobert et al., "Wav2Letter: an
End-to-End ConvNet-based Speech Recognition System", 2016, section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fl_text.dictionary import Dictionary
from fl_text.errors import TextError


def pack_replabels(tokens: Sequence[int], dictionary: Dictionary, max_reps: int) -> list[int]:
    """Replace up to `max_reps` repetitions of a token by the label of their number.

    Raises `TextError` unless the dictionary has `<1>` .. `<max_reps>`. Without repetitions
    (`max_reps` 0 or less) the tokens stay.
    """
    if not tokens or max_reps <= 0:
        return list(tokens)
    labels = _labels(dictionary, max_reps)
    packed: list[int] = []
    before, repeated = -1, 0
    for token in tokens:
        if token == before and repeated < max_reps:
            repeated += 1
            continue
        if repeated:
            packed.append(labels[repeated - 1])
            repeated = 0
        packed.append(token)
        before = token
    if repeated:
        packed.append(labels[repeated - 1])
    return packed


def unpack_replabels(tokens: Sequence[int], dictionary: Dictionary, max_reps: int) -> list[int]:
    """Replace labels `<1>` .. `<max_reps>` by repetitions of the token before.

    A label that follows no token, or another label, is left out. Raises `TextError` as
    `pack_replabels` does.
    """
    if not tokens or max_reps <= 0:
        return list(tokens)
    counts = {label: count for count, label in enumerate(_labels(dictionary, max_reps), 1)}
    unpacked: list[int] = []
    before: int | None = None
    for token in tokens:
        count = counts.get(token)
        if count is None:
            unpacked.append(token)
            before = token
        elif before is not None:
            unpacked.extend([before] * count)
            before = None
    return unpacked


def tkn2idx(spelling: Iterable[str], dictionary: Dictionary, max_reps: int = 0) -> list[int]:
    """The numbers of the tokens of a spelling, packed; raises `TextError` for a token that the
    dictionary does not know."""
    return pack_replabels(dictionary.map_entries_to_indices(spelling), dictionary, max_reps)


def _labels(dictionary: Dictionary, max_reps: int) -> list[int]:
    labels = []
    for count in range(1, max_reps + 1):
        if (label := f"<{count}>") not in dictionary:
            raise TextError(
                f"[replabels] max_reps={max_reps} needs the tokens <1> .. <{max_reps}>, and "
                f"{label} is not in the dictionary: add it, or lower max_reps"
            )
        labels.append(dictionary.get_index(label))
    return labels
