"""Scores of n-gram models are those of KenLM, which runs in a process of its own: flashlight-text
brings another copy of it into this one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fl_text import TextFiles
from fl_text.ngram import NGramModel, estimate, write_arpa

CORPUS = Path(os.environ.get("FL_TEST_DATA", "/nowhere")) / "text" / "tinyshakespeare.txt"
COUNT = 10_000
KENLM = """
import json, kenlm, sys
path, sentences = json.load(sys.stdin)
model = kenlm.Model(path)
json.dump([[model.score(s, bos, eos) for s in sentences] for bos, eos in ((1, 1), (0, 0))],
          sys.stdout)
"""


def kenlm_scores(path: Path, sentences: list[str]) -> np.ndarray:
    done = subprocess.run(
        [sys.executable, "-c", KENLM],
        input=json.dumps([str(path), sentences]),
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout))


@pytest.mark.parametrize(("order", "missing"), [(3, False), (5, False), (4, True)])
def test_scores_of_sentences(tmp_path: Path, order: int, missing: bool) -> None:
    if not CORPUS.exists():
        pytest.skip("FL_TEST_DATA has no text/tinyshakespeare.txt")
    lines = [line.strip() for line in TextFiles(CORPUS) if line.strip()]
    path = tmp_path / "model.arpa"
    write_arpa(path, estimate(lines[:8000], order, discount_fallback=(0.5, 1, 1.5)))
    if missing:  # ends of longer n-grams, as in models of SRILM; KenLM refuses missing beginnings
        text = path.read_text("utf-8").split("\n")
        grams = [line.split("\t")[1].split() for line in text if line.count("\t") > 0]
        begun = {" ".join(gram[:3]) for gram in grams if len(gram) == 4}
        kept, removed = list[str](), 0
        for line in text:
            gram = line.split("\t")[1] if "\t" in line else ""
            gone = gram.count(" ") == 2 and gram not in begun and len(gram) % 3 > 0
            removed += gone
            kept += [] if gone else [line]
        k = next(k for k, line in enumerate(kept) if line.startswith("ngram 3="))
        kept[k] = f"ngram 3={int(kept[k][8:]) - removed}"
        assert removed > 100
        path.write_text("\n".join(kept), "utf-8")
    model, draw = NGramModel.from_arpa(path), random.Random(0)
    sentences = []
    for _ in range(COUNT):
        words = draw.choice(lines).split()[:12]
        if draw.random() < 0.5:  # other words, known or not, in another order
            words[draw.randrange(len(words))] = draw.choice([model.vocabulary[-7], "never-seen"])
            draw.shuffle(words)
        sentences.append(" ".join(words))
    theirs = kenlm_scores(path, sentences)
    for row, both in enumerate((True, False)):
        ours = model.score_sentences(sentences, bos=both, eos=both)
        # KenLM adds up single precision.
        np.testing.assert_allclose(ours, theirs[row], atol=1e-5, rtol=5e-7)
