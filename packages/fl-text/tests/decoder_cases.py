"""Random decoding problems without ties, for `decoder_reference` and for flashlight-text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder, Trie
from fl_text.dictionary import Dictionary
from fl_text.ngram import NGramModel


@dataclass
class Case:
    """One problem. Token 0 is silence, the last one the blank; the last word is unknown words."""

    seed: int
    options: DecoderOptions
    emissions: np.ndarray
    tokens: list[str]
    transitions: np.ndarray | None
    words: list[str] = field(default_factory=list)
    spellings: list[list[int]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    smearing: str = "max"
    token_lm: bool = False
    arpa: Path | None = None

    @property
    def is_free(self) -> bool:
        return not self.words

    @property
    def lexicon(self) -> list[tuple[list[int], int, float]]:
        return list(zip(self.spellings, self.labels, self.scores, strict=True))

    def decoder(
        self, *, compat: bool = False, **more: object
    ) -> LexiconDecoder | LexiconFreeDecoder:
        lm = more.pop("lm", None)
        if lm is None and self.arpa is not None:
            lm = NGramModel.from_arpa(self.arpa)
        tokens = Dictionary(self.tokens)
        own = {"silence": 0, "blank": len(self.tokens) - 1, "transitions": self.transitions}
        own.update(more)
        if self.is_free:
            return LexiconFreeDecoder(tokens, lm, self.options, compat=compat, **own)
        trie = Trie(
            self.spellings,
            self.labels,
            self.scores,
            tokens=len(self.tokens),
            smearing=self.smearing,
        )
        words = Dictionary(self.words)
        return LexiconDecoder(
            trie, tokens, lm, self.options, words=words, token_lm=self.token_lm, **own
        )


def random_case(seed: int, folder: Path, *, small: bool) -> Case:
    """A problem of the given number; `small` ones suit the interpreter and the reference."""
    rng = np.random.default_rng(seed)
    free, asg, log_add = (bool(rng.integers(2)) for _ in range(3))
    with_lm = bool(rng.integers(4))
    n = int(rng.choice([4, 5, 8] if small else [30, 30, 50, 100, 300, 1000]))
    frames = int(rng.integers(1, 8 if small else 60))
    beam = int(rng.choice([1, 2, 5, 12] if small else [1, 2, 5, 20, 50, 100, 500]))
    if n == 1000 and beam > 100:
        frames = min(frames, 15)
    options = DecoderOptions(
        beam_size=beam,
        beam_size_token=int(rng.choice([1, 3, 5, 20, 100, 250000])),
        beam_threshold=float(rng.choice([1.0, 5.0, 10.0, 25.0, 50.0, 1000.0])),
        lm_weight=float(rng.choice([0.5, 1.5, 3.0])) if with_lm else 0.0,
        word_score=float(rng.normal()),
        unk_score=float(rng.choice([-math.inf, -math.inf, -3.0])),
        sil_score=float(rng.normal() * 0.5),
        log_add=log_add,
        criterion="asg" if asg else "ctc",
    )
    logits = rng.normal(size=(frames, n)) * rng.choice([1.0, 3.0, 6.0])
    emissions = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    case = Case(
        seed,
        options,
        emissions.astype(np.float32),
        [f"t{k}" for k in range(n)],
        (rng.normal(size=(n, n)) * 0.7).astype(np.float32) if asg else None,
    )
    if not free:
        _add_words(case, rng, with_lm, int(rng.choice([3, 6] if small else [5, 50, 400])))
    if with_lm:
        names = case.tokens if free or case.token_lm else case.words[:-1]
        case.arpa = folder / f"{seed}.arpa"
        write_arpa(case.arpa, names, rng)
    return case


def _add_words(case: Case, rng: np.random.Generator, with_lm: bool, count: int) -> None:
    """Spellings. Where one path has several readings of one score, they have a separator."""
    case.token_lm = bool(rng.integers(5) == 0)
    unique = case.token_lm or not with_lm
    separator = unique or bool(rng.integers(2))
    if unique:
        case.options = replace(case.options, unk_score=-math.inf)
    letters = int(rng.choice([min(3, len(case.tokens) - 2), len(case.tokens) - 2]))
    for _ in range(count):
        word = (1 + rng.integers(letters, size=int(rng.integers(1, 6)))).tolist()
        if case.options.criterion == "asg":  # repetitions would be ties
            word = [t for k, t in enumerate(word) if k == 0 or t != word[k - 1]]
        case.spellings.append(word + [0] * separator)
    if unique:
        case.spellings = [list(s) for s in sorted({tuple(s) for s in case.spellings})]
    count = len(case.spellings)
    case.labels = list(range(count))
    if not unique:
        more = rng.integers(0, count, size=(2, count // 10))
        case.spellings += [case.spellings[k] for k in more[0]]
        case.labels += more[1].tolist()
    _at_most_six(case)
    case.scores = (-4 * rng.random(len(case.labels))).astype(np.float32).astype(float).tolist()
    case.words = [f"w{k}" for k in range(count)] + ["<unk>"]
    case.smearing = str(rng.choice(["none", "max", "logadd"]))


def _at_most_six(case: Case) -> None:
    """Leaves out what a trie would leave out, with a warning."""
    count: dict[tuple[int, ...], int] = {}
    kept = []
    for k, spelling in enumerate(map(tuple, case.spellings)):
        count[spelling] = count.get(spelling, 0) + 1
        if count[spelling] <= 6:
            kept.append(k)
    case.spellings = [case.spellings[k] for k in kept]
    case.labels = [case.labels[k] for k in kept]


def write_arpa(path: Path, words: list[str], rng: np.random.Generator) -> None:
    """A random 3-gram model of these words: closed under prefixes, not normalised.

    All scores are multiples of 2**-19: sums in float32 are exact, in whatever order.
    """
    count = len(words)
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, count, (3 * count, 2))}
    some = sorted(pairs)
    triples = {
        (*some[int(k)], int(w))
        for k, w in zip(
            rng.integers(0, len(some), 3 * count), rng.integers(0, count, 3 * count), strict=True
        )
    }
    pairs |= {triple[1:] for triple in triples}

    def gram(least: float, *ids: int | str, backoff: bool = True) -> str:
        names = " ".join(w if isinstance(w, str) else words[w] for w in ids)
        behind = f"\t{-rng.integers(1 << 18) / (1 << 18):.18f}" if backoff else ""
        return f"{-least - 1.5 * rng.integers(1 << 18) / (1 << 18):.19f}\t{names}{behind}\n"

    first = min(count, 20)
    with path.open("w", encoding="utf-8") as file:
        file.write(f"\\data\\\nngram 1={count + 3}\nngram 2={len(pairs) + first}\n")
        file.write(f"ngram 3={len(triples)}\n\n\\1-grams:\n")
        file.write("-99\t<s>\t-0.5\n-2\t</s>\n-3.5\t<unk>\n")
        file.writelines(gram(0.5, k) for k in range(count))
        file.write("\n\\2-grams:\n")
        file.writelines(gram(0.25, "<s>", k) for k in range(first))
        file.writelines(gram(0.25, *pair) for pair in sorted(pairs))
        file.write("\n\\3-grams:\n")
        file.writelines(gram(0.125, *triple, backoff=False) for triple in sorted(triples))
        file.write("\n\\end\\\n")


def differences(mine: list, theirs: list[tuple]) -> str:
    """What differs between n-best lists, "" if nothing: theirs has (score, words, tokens).

    Scores may differ by 1e-3; entries within 1e-4 may change places.
    """
    if len(mine) != len(theirs):
        return f"{len(mine)} entries, not {len(theirs)}"
    left = list(theirs)
    for k, h in enumerate(mine):
        if abs(h.score - theirs[k][0]) > 1e-3:
            return f"entry {k} has score {h.score}, not {theirs[k][0]}"
        near = [
            other
            for other in left
            if other[1:] == (h.words, h.tokens)
            and (abs(other[0] - h.score) <= 1e-4 + 1e-6 * abs(h.score) or other is theirs[k])
        ]
        if not near:
            return f"entry {k} is {h}, not {theirs[k]}"
        left.remove(near[0])
    return ""
