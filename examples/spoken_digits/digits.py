"""Single digits: takes 5-49 train and 0-4 test, or one speaker tests."""

from __future__ import annotations

from statistics import fmean

from tasks import Figure, Place, emissions, greedy, lexicon_rate, prepared, trained

from fl_speech.datasets import ListFile, read_digits

#: Points of word error rate that other criteria may lie above CTC.
POINTS = 1.5


def rates(place: Place, recipe: str, name: str, *options: str, hold: str = "") -> tuple[float, ...]:
    """Word error rates of a training on the test list: greedy, and of the ten words."""
    lists = prepared(place, *(("--hold-out", hold) if hold else ()))
    recogniser = trained(place, recipe, lists, name, *options)
    test = list(ListFile(lists / "test.lst", root="/"))
    return greedy(recogniser, test), lexicon_rate(recogniser, emissions(recogniser, test))


def ctc(place: Place) -> list[Figure]:
    """Letters by CTC, several seeds."""
    greedily, known, found = [], [], []
    for seed in range(place.seeds):
        name = f"ctc-{seed}"
        free, rate = rates(place, "spoken-digits-ctc", name, "--seed", str(seed))
        found += [
            Figure(f"seed {seed}: WER greedy", free, bar=5.0),
            Figure(f"seed {seed}: WER with lexicon", rate, bar=1.7),
        ]
        greedily.append(free)
        known.append(rate)
    mean = Figure("mean WER with lexicon", fmean(known), bar=1.0)
    return [*found, Figure("mean WER greedy", fmean(greedily)), mean]


def asg(place: Place) -> list[Figure]:
    """Letters by ASG."""
    return _beside_ctc(place, "asg")


def seq2seq(place: Place) -> list[Figure]:
    """Letters by attention."""
    return _beside_ctc(place, "seq2seq")


def _beside_ctc(place: Place, kind: str) -> list[Figure]:
    _, bound = rates(place, "spoken-digits-ctc", "ctc-0", "--seed", "0")
    free, rate = rates(place, f"spoken-digits-{kind}", f"{kind}-0", "--seed", "0")
    return [
        Figure("WER of ctc with lexicon", bound),
        Figure("WER greedy", free),
        Figure("WER with lexicon", rate, bar=bound + POINTS),
    ]


def speakers(place: Place) -> list[Figure]:
    """Each speaker held out once: letters by CTC, trained on the others; nothing is chosen."""
    found, known = [], []
    for name in sorted({one.speaker for one in read_digits(place.data)}):
        free, rate = rates(place, "spoken-digits-ctc", f"without-{name}", hold=name)
        found += [
            Figure(f"{name}: WER greedy", free),
            Figure(f"{name}: WER with lexicon", rate),
        ]
        known.append(rate)
    return [*found, Figure("mean WER with lexicon", fmean(known), bar=15.0)]
