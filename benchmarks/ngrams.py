"""How fast n-gram models are read and mapped, beside KenLM, which runs in processes of its own.

Claims: an ARPA file of more than a million n-grams is read in at most KenLM's time, and the binary
form is mapped in at most 10 ms. The file is made with a fixed seed: words by Zipf's law, all
trigrams with their contexts and suffixes. Times are those of the processor; the libraries take
turns. Without `kenlm` only our times are printed.

    python benchmarks/ngrams.py [--rounds 5]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import environment, parsed, parser_of, report
from _peers import installed

from fl_text.ngram import NGramModel, NGrams, Order, write_arpa

TOKENS, WORDS = 640_000, 80_000
KENLM = """
import sys, time
import kenlm
start = time.process_time()
kenlm.Model(sys.argv[1])
print(time.process_time() - start)
"""


def model(tokens: int, words: int, seed: int = 0) -> NGrams:
    """A model of random text: all its n-grams up to three words, with random values."""
    draw = np.random.default_rng(seed)
    share = 1 / np.arange(1, words + 1) ** 0.95
    text = draw.choice(words, tokens, p=share / share.sum()).astype(np.int32) + 3
    text[::16], text[15::16] = 1, 2  # sentences of 14 words, between <s> and </s>
    vocabulary = ["<unk>", "<s>", "</s>"]
    vocabulary += [
        "".join(map(chr, 97 + draw.integers(0, 26, 3 + k % 7))) + str(k) for k in range(words)
    ]
    orders = []
    for n in (1, 2, 3):
        grams = np.lib.stride_tricks.sliding_window_view(text, n)
        grams = grams[(grams[:, :-1] != 2).all(axis=1)]
        found = (
            np.arange(words + 3, dtype=np.int32)[:, None] if n == 1 else np.unique(grams, axis=0)
        )
        if n > 1:
            draw.shuffle(found)
        backoff = -draw.random(len(found)) if n < 3 else np.zeros(len(found))
        orders.append(Order(found, -draw.random(len(found)) * 5, backoff))
    return NGrams(vocabulary, orders)


def processor_time(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def kenlm_time(path: Path) -> float:
    done = subprocess.run([sys.executable, "-c", KENLM, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kenlm failed: {done.stderr}")
    return float(done.stdout)


def main() -> None:
    given = parsed(parser_of(__doc__, rounds=5))
    compares = installed("kenlm") and not given.tiny
    grams = model(*((6_400, 800) if given.tiny else (TOKENS, WORDS)))
    times: dict[str, list[float]] = {"read": [], "mapped": [], "kenlm": []}
    with tempfile.TemporaryDirectory() as folder:
        arpa, binary = Path(folder, "model.arpa"), Path(folder, "model.ngram")
        write_arpa(arpa, grams)
        NGramModel.from_arpa(arpa).save(binary)
        for _ in range(given.rounds):
            times["read"].append(processor_time(lambda: NGramModel.from_arpa(arpa)))
            times["mapped"].append(processor_time(lambda: NGramModel.load(binary)))
            if compares:
                times["kenlm"].append(kenlm_time(arpa))
    row: dict[str, Any] = {"n-grams": sum(len(order.words) for order in grams.orders)}
    row |= {f"{name}, ms": 1e3 * min(found) for name, found in times.items() if found}
    if compares:
        row["read / kenlm"] = row["read, ms"] / row["kenlm, ms"]
    report(given, environment("numpy", "llvmlite", "kenlm", "fl-text", "fl-jit"), [row])


if __name__ == "__main__":
    main()
