"""How fast beam search decodes emissions, beside flashlight-text (C++ with KenLM).

Claims (one thread): in the geometric mean at least 3x as fast, no row below 1.8x, n-best lists
equal. The first decode of a process takes at most 0.6 s with an empty cache of machine code, 0.1 s
with a warm one. Two threads decode a batch at least 1.7x as fast as one.

Words, 3-gram models and emissions are random, with a fixed seed. Times are those of the processor,
for one thread, and the libraries take turns. `same` counts the hypotheses of both n-best lists that
agree in score (to 1e-3), words and tokens.

    python benchmarks/decoders.py [--only lexicon-10k-ctc ...] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from _measure import environment, interleave, parsed, parser_of, report, timed

import fl_text as text
from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder, Trie
from fl_text.ngram import NGramModel

COMPARED = 50  # hypotheses of each list


@dataclass(frozen=True)
class Case:
    words: int  # of the lexicon; 0 for none
    tokens: int
    frames: int
    beam: int
    criterion: str
    kind: str  # of the emissions: "random", or "peaky" as those of a trained model
    log_add: bool = False
    beam_tokens: int = 0  # 0: all

    @property
    def name(self) -> str:
        head = f"lexicon-{self.words // 1000}k" if self.words else "free"
        more = f"-{self.beam_tokens}" if self.beam_tokens else ""
        log_add = "-logadd" if self.log_add else ""
        return (
            f"{head}-{self.criterion}-{self.kind}-T{self.frames}-N{self.tokens}"
            f"-beam{self.beam}{more}{log_add}"
        )

    @property
    def options(self) -> DecoderOptions:
        return DecoderOptions(
            beam_size=self.beam,
            beam_size_token=self.beam_tokens or self.tokens,
            beam_threshold=25.0 if self.beam < 1000 else 50.0,
            lm_weight=1.5,
            word_score=1.0,
            sil_score=-0.2,
            log_add=self.log_add,
            criterion=self.criterion,
        )


CASES = [
    *(
        Case(words, 30, 200, 50, criterion, kind)
        for words in (10_000, 0)
        for criterion in ("ctc", "asg")
        for kind in ("random", "peaky")
    ),
    Case(10_000, 30, 500, 50, "ctc", "peaky"),
    Case(10_000, 30, 500, 500, "ctc", "peaky"),
    Case(10_000, 30, 500, 500, "ctc", "random"),
    Case(10_000, 30, 500, 500, "asg", "peaky"),
    Case(10_000, 30, 500, 500, "asg", "random"),
    Case(10_000, 30, 300, 500, "ctc", "peaky", log_add=True),
    Case(10_000, 30, 300, 500, "asg", "peaky", log_add=True),
    Case(0, 30, 500, 50, "ctc", "peaky"),
    Case(0, 30, 500, 500, "ctc", "peaky"),
    Case(0, 30, 500, 500, "asg", "peaky"),
    Case(0, 30, 300, 500, "ctc", "peaky", log_add=True),
    Case(0, 30, 300, 500, "asg", "peaky", log_add=True),
    Case(0, 30, 200, 2500, "ctc", "random"),
    Case(200_000, 30, 1000, 50, "ctc", "peaky"),
    Case(200_000, 30, 1000, 500, "ctc", "peaky"),
    Case(200_000, 30, 300, 2500, "ctc", "peaky"),
    Case(200_000, 30, 300, 2500, "asg", "random"),
    Case(200_000, 1000, 300, 50, "ctc", "peaky"),
    Case(200_000, 1000, 300, 500, "ctc", "peaky"),
    Case(200_000, 1000, 300, 500, "ctc", "peaky", beam_tokens=100),
    Case(0, 1000, 100, 500, "ctc", "peaky", beam_tokens=100),
]
TINY = [Case(100, 10, 10, 5, "ctc", "peaky"), Case(0, 10, 10, 5, "asg", "random")]


def spellings(count: int, tokens: int, rng: np.random.Generator) -> list[list[int]]:
    """Words of 2 to 10 letters (tokens 1 to tokens - 2), which silence ends."""
    chance = np.arange(1, tokens - 1) ** -0.7
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        letters = 1 + rng.choice(tokens - 2, (count, 10), p=chance / chance.sum())
        for row, length in zip(letters, rng.integers(2, 11, count), strict=True):
            found[tuple(row[:length].tolist())] = None
    return [[*word, 0] for word in list(found)[:count]]


def write_arpa(path: Path, names: list[str], pairs: int, rng: np.random.Generator) -> None:
    """A random 3-gram model: closed under prefixes, not normalised."""
    count = len(names)
    chance = np.arange(1, count + 1) ** -0.9
    chance /= chance.sum()
    two = np.unique(rng.choice(count, (pairs, 2), p=chance), axis=0)
    last = rng.choice(count, pairs, p=chance)
    three = np.unique(np.column_stack([two[rng.integers(0, len(two), pairs)], last]), axis=0)
    two = np.unique(np.concatenate([two, three[:, 1:]]), axis=0)
    first = min(count, 500)

    def lines(words: np.ndarray, spread: float, backoff: bool) -> list[str]:
        scores = 0.6 * np.log10(chance[words[:, -1]]) - spread * rng.random(len(words))
        behind = -rng.random(len(words))
        spelled = [" ".join(names[k] for k in row) for row in words.tolist()]
        if not backoff:
            return [f"{p:.6f}\t{w}\n" for p, w in zip(scores, spelled, strict=True)]
        return [f"{p:.6f}\t{w}\t{b:.6f}\n" for p, w, b in zip(scores, spelled, behind, strict=True)]

    with path.open("w") as file:
        file.write(f"\\data\\\nngram 1={count + 3}\nngram 2={len(two) + first}\n")
        file.write(f"ngram 3={len(three)}\n\n\\1-grams:\n")
        file.write("-99\t<s>\t-0.5\n-2\t</s>\n-3.5\t<unk>\n")
        file.writelines(lines(np.arange(count)[:, None], 1.0, True))
        file.write("\n\\2-grams:\n")
        start = lines(np.arange(first)[:, None], 2.0, True)
        file.writelines(line.replace("\t", "\t<s> ", 1) for line in start)
        file.writelines(lines(two, 1.0, True))
        file.write("\n\\3-grams:\n")
        file.writelines(lines(three, 1.0, False))
        file.write("\n\\end\\\n")


@dataclass
class Shared:
    """Words, spellings and a language model of several cases."""

    names: list[str]
    words: list[str]
    spelled: list[list[int]]
    arpa: Path
    lm: NGramModel

    @property
    def scores(self) -> list[float]:
        known = self.lm.indices(self.words[:-1])
        start = np.full(len(known), self.lm.start, np.int32)
        return self.lm.score_words(start, known)[0].tolist()


@lru_cache(maxsize=1)
def problem(folder: str, words: int, tokens: int) -> Shared:
    rng = np.random.default_rng(words + tokens)
    spelled = spellings(words, tokens, rng) if words else []
    named = ["w" + "_".join(map(str, s[:-1])) for s in spelled]
    names = [f"t{k}" for k in range(tokens)]
    path = Path(folder) / f"{words}-{tokens}.arpa"
    pairs = 300_000 if words > 1000 else 20_000 if words else 60_000
    write_arpa(path, named or names, pairs, rng)
    return Shared(names, [*named, "<unk>"], spelled, path, NGramModel.from_arpa(path))


def emissions(case: Case, spelled: list[list[int]], rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(case.frames, case.tokens)) * (2 if case.kind == "random" else 1.5)
    if case.kind == "peaky":
        path: list[int] = []
        spelled = spelled or spellings(200, case.tokens, rng)
        while len(path) < case.frames:
            for token in spelled[rng.integers(len(spelled))]:
                more = int(rng.integers(1, 3))
                blank = case.tokens - 1 if case.criterion == "ctc" else token
                path += [token, *[blank] * more]
        x[np.arange(case.frames), path[: case.frames]] += 7
    x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
    return x.astype(np.float32)


def ours(case: Case, shared: Shared, transitions: Any) -> LexiconDecoder | LexiconFreeDecoder:
    tokens = text.Dictionary(shared.names)
    special: dict[str, Any] = {"silence": 0, "blank": case.tokens - 1, "transitions": transitions}
    if not case.words:
        return LexiconFreeDecoder(tokens, shared.lm, case.options, compat=True, **special)
    trie = Trie(shared.spelled, range(case.words), shared.scores, tokens=case.tokens)
    words = text.Dictionary(shared.words)
    return LexiconDecoder(trie, tokens, shared.lm, case.options, words=words, **special)


def theirs(case: Case, shared: Shared, transitions: Any) -> Any:
    """flashlight-text's decoder."""
    from flashlight.lib.text import decoder
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    o, asg = case.options, case.criterion == "asg"
    settings = {
        "beam_size": o.beam_size,
        "beam_size_token": o.beam_size_token,
        "beam_threshold": o.beam_threshold,
        "lm_weight": o.lm_weight,
        "sil_score": o.sil_score,
        "log_add": o.log_add,
        "criterion_type": decoder.CriterionType.ASG if asg else decoder.CriterionType.CTC,
    }
    dictionary = Dictionary()
    for name in shared.words if case.words else shared.names:
        dictionary.add_entry(name)
    lm = KenLM(str(shared.arpa), dictionary)
    blank = -1 if asg else case.tokens - 1
    flat = [] if transitions is None else transitions.ravel().tolist()
    if not case.words:
        options = decoder.LexiconFreeDecoderOptions(**settings)
        return decoder.LexiconFreeDecoder(options, lm, 0, blank, flat)
    trie = decoder.Trie(case.tokens, 0)
    for word, (spelling, score) in enumerate(zip(shared.spelled, shared.scores, strict=True)):
        trie.insert(spelling, word, score)
    trie.smear(decoder.SmearingMode.MAX)
    options = decoder.LexiconDecoderOptions(
        **settings, word_score=o.word_score, unk_score=-math.inf
    )
    return decoder.LexiconDecoder(options, trie, lm, 0, blank, case.words, flat, False)


def row_of(case: Case, folder: str, given: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shared = problem(folder, case.words, case.tokens)
    frames = emissions(case, shared.spelled, rng)
    transitions = None
    if case.criterion == "asg":
        transitions = (rng.normal(size=(case.tokens, case.tokens)) * 0.5).astype(np.float32)
    decoder = ours(case, shared, transitions)
    runs: dict[str, Any] = {"ours": lambda: decoder.decode(frames)}
    if not given.tiny:
        peer, (length, tokens) = theirs(case, shared, transitions), frames.shape
        runs["flashlight"] = lambda: peer.decode(frames.ctypes.data, length, tokens)
    times = fastest(runs, given.rounds)
    row = {"case": case.name, "ours ms": times["ours"] * 1e3}
    if not given.tiny:
        row["flashlight-text ms"] = times["flashlight"] * 1e3
        row["flashlight-text / ours"] = times["flashlight"] / times["ours"]
        row["same"] = agreeing(runs["ours"](), runs["flashlight"]())
    return row


def fastest(runs: dict[str, Any], rounds: int) -> dict[str, float]:
    """Seconds of this thread of each run, in turn: the least of the rounds, after one of ours."""
    runs["ours"]()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timed(run, 1, time.thread_time))
    return {name: min(found) for name, found in times.items()}


def agreeing(mine: list[Any], others: list[Any]) -> str:
    count = min(COMPARED, max(len(mine), len(others)))
    same = sum(
        abs(h.score - r.score) < 1e-3
        and tuple(w for w in r.words if w >= 0) == tuple(h.words)
        and tuple(r.tokens[1:-1]) == tuple(h.tokens)
        for h, r in zip(mine[:count], others[:count], strict=False)
    )
    return f"{same}/{count}"


def thread_row(folder: str, given: argparse.Namespace) -> dict[str, Any]:
    """A batch of eight utterances in one thread and in two: time on the wall."""
    case = TINY[0] if given.tiny else Case(10_000, 30, 500, 500, "ctc", "peaky")
    shared, rng = problem(folder, case.words, case.tokens), np.random.default_rng(2)
    batch = [emissions(case, shared.spelled, rng) for _ in range(8)]
    decoder = ours(case, shared, None)
    runs = {n: lambda n=n: decoder.decode_batch(batch, n_best=1, threads=n) for n in (1, 2)}
    times = interleave({str(n): run for n, run in runs.items()}, given.rounds, 1e-4)
    return {
        "case": f"8 x {case.name}, 2 threads",
        "ours ms": times["2"] * 1e3,
        "1 thread / 2 threads": times["1"] / times["2"],
    }


def first_rows() -> list[dict[str, Any]]:
    """The first decode of a process: with an empty cache of machine code, then with a warm one."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty", "warm"):
            environment = {**os.environ, "FL_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
            done = subprocess.run(
                [sys.executable, __file__, "--serve"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                rows.append({"case": f"first decode, {name}, {state} cache", "ours ms": seconds})
    return rows


def serve() -> None:
    """Times the first decode of each decoder in this process, in ms of the processor."""
    letters = text.Dictionary(["|", "a", "b", "#"])
    lexicon = text.Lexicon({"ab": [["a", "b", "|"]]})
    frames = np.zeros((5, 4), np.float32)
    times = {}
    for name, make in {
        "lexicon": lambda: LexiconDecoder(lexicon, letters),
        "lexicon-free": lambda: LexiconFreeDecoder(letters),
    }.items():
        start = time.process_time()
        make().decode(frames)
        times[name] = 1e3 * (time.process_time() - start)
    print(json.dumps(times))


def main() -> None:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="of names of cases")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        serve()
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in TINY if given.tiny else CASES:
            if not given.only or any(part in case.name for part in given.only):
                rows.append(row_of(case, folder, given))
                print(rows[-1], file=sys.stderr, flush=True)
        if not given.only:
            rows += [thread_row(folder, given), *first_rows()]
    ratios = [row["flashlight-text / ours"] for row in rows if "flashlight-text / ours" in row]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rows.append({"case": "geometric mean", "flashlight-text / ours": mean})
    report(given, environment("flashlight-text", "llvmlite", "numpy", "fl-text"), rows)


if __name__ == "__main__":
    main()
