"""Recordings whose letters are tones, and list files of them."""

from __future__ import annotations

import math
import random
from pathlib import Path

import fl_tensor as ft
from fl_speech import save_audio
from fl_speech.datasets import Utterance, write_list_file

RATE = 8000
TONES = {"a": 500.0, "b": 900.0, "c": 1500.0}
WORDS = ("ab", "ba", "cab", "bc")
LETTER, GAP = 0.12, 0.10


def tone(hertz: float, seconds: float, level: float, noise: random.Random) -> list[float]:
    count = round(seconds * RATE)
    return [
        level * math.sin(2 * math.pi * hertz * i / RATE) + 0.003 * noise.uniform(-1, 1)
        for i in range(count)
    ]


def say(
    words: list[str], noise: random.Random
) -> tuple[list[float], list[tuple[str, float, float]]]:
    """Samples, and when each word is said, in seconds."""
    samples = tone(0, GAP, 0.0, noise)
    times = []
    for word in words:
        start = len(samples) / RATE
        for letter in word:
            samples += tone(TONES[letter] * noise.uniform(0.97, 1.03), LETTER, 0.3, noise)
        times.append((word, start, len(samples) / RATE))
        samples += tone(0, GAP, 0.0, noise)
    return samples, times


def write_recordings(folder: Path, count: int, seed: int, name: str) -> Path:
    """Recordings of one to three words below `folder`; the path of their list file."""
    noise = random.Random(seed)
    utterances = []
    for number in range(count):
        words = [noise.choice(WORDS) for _ in range(1 + number % 3)]
        samples, _ = say(words, noise)
        path = folder / f"{name}{number}.wav"
        save_audio(path, ft.asarray(samples, ft.float32), RATE)
        duration = 1000 * len(samples) / RATE
        utterances.append(Utterance(f"{name}{number}", str(path), duration, tuple(words)))
    write_list_file(folder / f"{name}.lst", utterances)
    return folder / f"{name}.lst"


def write_task(folder: Path, train: int = 24, test: int = 8) -> None:
    """Lists `train.lst` and `test.lst`, tokens and lexicon."""
    write_recordings(folder, train, 1, "train")
    write_recordings(folder, test, 2, "test")
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in "|abc"))
    lines = [f"{word} {' '.join(word)} |\n" for word in WORDS]
    (folder / "lexicon.txt").write_text("".join(lines))
