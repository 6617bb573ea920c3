"""ARPA text and the definition of its scores, in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

Grams = dict[tuple[str, ...], tuple[float, float]]

TOY: Grams = {
    ("<unk>",): (-2.5, 0.0),
    ("<s>",): (-99.0, -0.25),
    ("</s>",): (-1.25, 0.0),
    ("the",): (-0.75, -0.5),
    ("cat",): (-1.5, -0.125),
    ("sat",): (-1.75, 0.25),
    ("été",): (-2.0, 0.0),
    ("<s>", "the"): (-0.375, -0.0625),
    ("the", "cat"): (-0.625, -0.1875),
    ("cat", "sat"): (-0.4375, 0.0),
    ("sat", "</s>"): (-0.3125, 0.0),
    ("<s>", "the", "cat"): (-0.1875, 0.0),
    ("the", "cat", "sat"): (-0.15625, 0.0),
}


def arpa(grams: Mapping[tuple[str, ...], tuple[float, float]], end: str = "\\end\\\n") -> str:
    """The ARPA file of n-grams with their log probabilities and backoffs."""
    highest = max(map(len, grams))
    orders = [[g for g in grams if len(g) == n] for n in range(1, highest + 1)]
    lines = ["\\data\\", *(f"ngram {n}={len(order)}" for n, order in enumerate(orders, 1)), ""]
    for n, order in enumerate(orders, 1):
        lines.append(f"\\{n}-grams:")
        for gram in order:
            log_prob, backoff = grams[gram]
            lines.append(
                f"{log_prob:.7g}\t{' '.join(gram)}" + (f"\t{backoff:.7g}" if n < highest else "")
            )
        lines.append("")
    return "\n".join(lines) + "\n" + end


def score(
    grams: Mapping[tuple[str, ...], tuple[float, float]], words: Iterable[str], bos: bool = True
) -> float:
    """log10 p(words) by the definition of backing off, with nothing but the n-grams."""
    highest, history, total = max(map(len, grams)), ("<s>",) if bos else (), 0.0
    for word in words:
        word = word if (word,) in grams else "<unk>"
        context = history[max(0, len(history) - highest + 1) :]
        while (*context, word) not in grams:
            total += grams.get(context, (0.0, 0.0))[1]
            context = context[1:]
        total += grams[(*context, word)][0]
        history = (*history, word)
    return total


def kneser_ney(
    sentences: list[str], highest: int, limits: list[int], fallback: tuple[float, ...] = ()
) -> Grams:
    """The interpolated modified Kneser-Ney model, from dictionaries and the definitions."""
    counts: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(highest + 1)]
    for sentence in sentences:
        words = ("<s>", *sentence.split(), "</s>")
        for n in range(1, highest + 1):
            counts[n].update(words[k : k + n] for k in range(len(words) - n + 1))
    vocabulary = {"<unk>", *(gram[0] for gram in counts[1])}
    probability: Grams = {}
    below = {(): 1 / (len(vocabulary) - 1)}
    backoffs: dict[tuple[str, ...], float] = {}
    for n in range(1, highest + 1):
        adjusted: Counter[tuple[str, ...]] = Counter()
        for gram, count in counts[n].items():
            if n == highest or (gram[0] == "<s>" and n > 1):
                adjusted[gram] = count
        for gram in counts[n + 1] if n < highest else ():
            if n == 1 or gram[1] != "<s>":
                adjusted[gram[1:]] += 1
        if n == 1:
            adjusted.pop(("<s>",), None)
        seen = Counter(adjusted.values())
        y = seen[1] / (seen[1] + 2 * seen[2])
        discounts = [0.0, *(k - (k + 1) * y * seen[k + 1] / seen[k] for k in (1, 2, 3))]
        if any(not 0 <= d <= k for k, d in enumerate(discounts)):
            discounts = [0.0, *fallback]
        total: Counter[tuple[str, ...]] = Counter()
        left: dict[tuple[str, ...], float] = {}
        own = {}
        for gram, count in adjusted.items():
            context, discount = gram[:-1], discounts[min(count, 3)]
            kept = n == 1 or counts[n][gram] > limits[n - 1]
            total[context] += count
            left[context] = left.get(context, 0.0) + (discount if kept else count)
            own[gram] = count - discount if kept else None
        backoffs |= {context: left[context] / total[context] for context in total}
        if n == 1:
            own[("<unk>",)] = 0.0
        now = {}
        for gram, value in own.items():
            context = gram[:-1]
            now[gram] = (value or 0.0) / total[context] + backoffs[context] * below[
                gram[1:] if n > 1 else ()
            ]
            if value is not None:
                probability[gram] = (now[gram], 0.0)
        if n == 1:
            probability[("<s>",)] = (1e-99, 0.0)
        below = now
    return {
        gram: (math.log10(p), math.log10(backoffs.get(gram, 1.0)) if len(gram) < highest else 0.0)
        for gram, (p, _) in probability.items()
    }
