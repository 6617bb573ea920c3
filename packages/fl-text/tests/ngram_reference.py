"""ARPA text and the definition of its scores, in plain Python."""

from __future__ import annotations

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
