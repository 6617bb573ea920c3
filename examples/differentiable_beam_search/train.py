"""Training through the beam search, on sentences that are drawn with a fixed seed.

    python examples/differentiable_beam_search/train.py

Each letter of a sentence lasts one to four frames, and a frame shows a noisy vector of its letter.
The model has a linear layer for the emissions, transitions, word scores, and two numbers.

*Local training* first: the layer classifies frames, transitions and word scores are the logarithms
of relative frequencies. The parts never meet before they are decoded together. Then the same model
is trained by the loss of the search, which needs the words alone.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from graphs import Best
from numbers_tape import Numbers
from search import Scores, Trie, search

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

LETTERS, WORDS, WIDTH, NOISE = 6, 12, 4, 1.3
BEAM, BATCH = 20, 10


class Sentence(NamedTuple):
    """What is seen (frames, WIDTH), the letter of each frame, and the words."""

    frames: Any
    letters: list[int]
    words: list[int]


def drawn(count: int, seed: int) -> tuple[list[list[int]], list[Sentence]]:
    """A lexicon, the same for all seeds, and ``count`` sentences of two to four words."""
    fixed, draw = random.Random(0), random.Random(seed)
    spellings = [
        [fixed.randrange(LETTERS) for _ in range(fixed.randint(2, 4))] for _ in range(WORDS)
    ]
    means = [[fixed.gauss(0.0, 1.0) for _ in range(WIDTH)] for _ in range(LETTERS)]
    after = [fixed.sample(range(WORDS), 3) for _ in range(WORDS)]  # words that often follow
    sentences = []
    for _ in range(count):
        words = [draw.randrange(WORDS)]
        for _ in range(draw.randint(1, 3)):
            words.append(draw.choice(after[words[-1]] if draw.random() < 0.8 else range(WORDS)))
        letters = [n for w in words for n in spellings[w] for _ in range(draw.randint(1, 4))]
        frames = [[draw.gauss(mean, NOISE) for mean in means[n]] for n in letters]
        sentences.append(Sentence(ft.asarray(frames), letters, words))
    return spellings, sentences


class Model(nn.Module):
    """Scores of a sentence."""

    def __init__(self) -> None:
        self.layer = nn.Linear(WIDTH, LETTERS)
        self.transitions = nn.Parameter(ft.zeros((LETTERS, LETTERS)))
        self.words = nn.Parameter(ft.zeros((WORDS + 1, WORDS)))
        self.lm_weight = nn.Parameter(ft.asarray(1.0))
        self.word_score = nn.Parameter(ft.asarray(0.0))

    def forward(self, frames: Any) -> Scores:
        emissions = ft.log_softmax(self.layer(frames), axis=-1)
        return Scores(emissions, self.transitions, self.words, self.lm_weight, self.word_score)


def log_frequencies(pairs: Iterator[tuple[int, int]], rows: int, columns: int) -> Any:
    """The logarithm of how often a column follows a row, with one more of each."""
    counts = [[1.0] * columns for _ in range(rows)]
    for row, column in pairs:
        counts[row][column] += 1.0
    return ft.asarray([[math.log(n / sum(row)) for n in row] for row in counts])


def train_locally(model: Model, sentences: Sequence[Sentence], steps: int = 100) -> None:
    """Each part by itself, with the letter of every frame given."""
    frames = ft.concatenate([s.frames for s in sentences])
    letters = ft.asarray([n for s in sentences for n in s.letters])
    optimizer = nn.Adam(model.layer.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.cross_entropy(model.layer(frames), letters).backward()
        optimizer.step()
    with ag.no_grad():
        pairs = (pair for s in sentences for pair in zip(s.letters, s.letters[1:]))
        model.transitions[:] = log_frequencies(pairs, LETTERS, LETTERS)
        pairs = (pair for s in sentences for pair in zip([WORDS, *s.words], s.words))
        model.words[:] = log_frequencies(pairs, WORDS + 1, WORDS)


def train_through_the_search(
    model: Model, trie: Trie, sentences: Sequence[Sentence], epochs: int
) -> Iterator[float]:
    """The mean loss of each epoch."""
    optimizer = nn.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        losses = []
        for start in range(0, len(sentences), BATCH):
            optimizer.zero_grad()
            for sentence in sentences[start : start + BATCH]:
                scores = model(sentence.frames)
                found = search(Numbers(), trie, scores, beam=BEAM, target=sentence.words)
                (found.loss / BATCH).backward()
                losses.append(found.loss.item())
            optimizer.step()
        yield sum(losses) / len(losses)


def error_rate(model: Model, trie: Trie, sentences: Sequence[Sentence]) -> float:
    """Wrong words of the best paths, divided by the number of words."""
    wrong = 0
    with ag.no_grad():
        for sentence in sentences:
            (_, words), _ = search(Best(), trie, model(sentence.frames), beam=BEAM)
            wrong += distance(words, sentence.words)
    return wrong / sum(len(sentence.words) for sentence in sentences)


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    """The least number of words to insert, delete and replace (Levenshtein, 1966)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def run(count: int, epochs: int, tried: int = 100) -> tuple[list[float], list[float]]:
    """The losses of the epochs, and the word error rates before and after on ``tried`` sentences
    that are in no training."""
    ft.seed(0)
    spellings, sentences = drawn(count, seed=1)
    _, new = drawn(tried, seed=2)
    trie, model = Trie(spellings), Model()
    train_locally(model, sentences)
    rates = [error_rate(model, trie, new)]
    losses = list(train_through_the_search(model, trie, sentences, epochs))
    return losses, [*rates, error_rate(model, trie, new)]


def main() -> None:
    losses, (before, after) = run(count=60, epochs=6)
    for epoch, loss in enumerate(losses):
        print(f"epoch {epoch}  loss {loss:.3f}")
    print(f"word error rate: {before:.1%} after local training, {after:.1%} after the search")


if __name__ == "__main__":
    main()
