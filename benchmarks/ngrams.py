"""How fast n-gram models are read and mapped, beside KenLM, which runs in processes of its own.

Claims: an ARPA file of more than a million n-grams is read in at most KenLM's time, and the binary
form is mapped in at most 10 ms. The file is made with a fixed seed: words by Zipf's law, all
trigrams with their contexts and suffixes. Times are those of the processor; the libraries take
turns. Without `kenlm` only our times are printed.

    python benchmarks/ngrams.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fl_text.ngram import NGramModel, NGrams, Order, write_arpa

TOKENS, WORDS = 640_000, 80_000
KENLM = """
import sys, time
import kenlm
start = time.process_time()
kenlm.Model(sys.argv[1])
print(time.process_time() - start)
"""


def model(seed: int = 0) -> NGrams:
    """A model of random text: all its n-grams up to three words, with random values."""
    draw = np.random.default_rng(seed)
    share = 1 / np.arange(1, WORDS + 1) ** 0.95
    text = draw.choice(WORDS, TOKENS, p=share / share.sum()).astype(np.int32) + 3
    text[::16], text[15::16] = 1, 2  # sentences of 14 words, between <s> and </s>
    vocabulary = ["<unk>", "<s>", "</s>"]
    vocabulary += [
        "".join(map(chr, 97 + draw.integers(0, 26, 3 + k % 7))) + str(k) for k in range(WORDS)
    ]
    orders = []
    for n in (1, 2, 3):
        grams = np.lib.stride_tricks.sliding_window_view(text, n)
        grams = grams[(grams[:, :-1] != 2).all(axis=1)]
        words = (
            np.arange(WORDS + 3, dtype=np.int32)[:, None] if n == 1 else np.unique(grams, axis=0)
        )
        if n > 1:
            draw.shuffle(words)
        backoff = -draw.random(len(words)) if n < 3 else np.zeros(len(words))
        orders.append(Order(words, -draw.random(len(words)) * 5, backoff))
    return NGrams(vocabulary, orders)


def processor_time(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def kenlm_time(path: Path) -> float | None:
    done = subprocess.run([sys.executable, "-c", KENLM, str(path)], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    grams = model()
    with tempfile.TemporaryDirectory() as folder:
        arpa, binary = Path(folder, "model.arpa"), Path(folder, "model.ngram")
        write_arpa(arpa, grams)
        NGramModel.from_arpa(arpa).save(binary)
        read, mapped, theirs = list[float](), list[float](), list[float]()
        for _ in range(rounds):
            read.append(processor_time(lambda: NGramModel.from_arpa(arpa)))
            found = kenlm_time(arpa)
            theirs += [] if found is None else [found]
            mapped.append(processor_time(lambda: NGramModel.load(binary)))
    count = sum(len(order.words) for order in grams.orders)
    print(f"{count} n-grams: read {min(read):.3f} s, mapped {1000 * min(mapped):.1f} ms")
    if theirs:
        print(f"KenLM reads them in {min(theirs):.3f} s, {min(theirs) / min(read):.2f} times ours")


if __name__ == "__main__":
    main()
