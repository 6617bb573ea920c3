"""Single digits: takes 5-49 train and 0-4 test, or one speaker tests."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from tasks import Figure, Place, emissions, greedy, lexicon_rate, prepared, trained

from fl_speech.datasets import ListFile, Utterance, read_digits, write_list_file
from fl_speech.recipe import Recipe
from fl_speech.recogniser import load_recogniser

RECIPE = "spoken-digits-ctc"
EPOCHS = Recipe.read(RECIPE).epochs
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
        free, rate = rates(place, RECIPE, name, "--seed", str(seed))
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
    _, bound = rates(place, RECIPE, "ctc-0", "--seed", "0")
    free, rate = rates(place, f"spoken-digits-{kind}", f"{kind}-0", "--seed", "0")
    return [
        Figure("WER of ctc with lexicon", bound),
        Figure("WER greedy", free),
        Figure("WER with lexicon", rate, bar=bound + POINTS),
    ]


#: Other speakers have other channels and other vocal tracts.
OTHERS = ("--normalise", "per_feature", "--vtlp", "0.1")


def speakers(place: Place) -> list[Figure]:
    """Each speaker held out once: letters by CTC, trained on the others; nothing is chosen."""
    found, known = [], []
    for name in sorted({one.speaker for one in read_digits(place.data)}):
        free, rate = rates(place, RECIPE, f"without-{name}", *OTHERS, hold=name)
        found += [
            Figure(f"{name}: WER greedy", free),
            Figure(f"{name}: WER with lexicon", rate),
        ]
        known.append(rate)
    return [*found, Figure("mean WER with lexicon", fmean(known), bar=15.0)]


def speakers_in_torch(place: Place) -> list[Figure]:
    """The table of `speakers`, beside the same trainings in PyTorch, which run one after another
    and are not kept."""
    from torch_recogniser import train_in_torch

    own, known = speakers(place), []
    found = []
    for name in sorted({one.speaker for one in read_digits(place.data)}):
        recipe = load_recogniser(place.out / f"without-{name}").recipe
        lists = prepared(place, "--hold-out", name)
        recogniser = train_in_torch(recipe, lists)
        test = list(ListFile(lists / "test.lst", root="/"))
        known.append(lexicon_rate(recogniser, emissions(recogniser, test)))
        found.append(Figure(f"{name}: WER with lexicon, PyTorch", known[-1]))
    theirs = fmean(known)
    return [
        *found,
        Figure("mean WER with lexicon, PyTorch", theirs),
        Figure("mean WER with lexicon", own[-1].value, bar=theirs + 2.0),
    ]


def pseudo(place: Place) -> list[Figure]:
    """One take in five has words. A recogniser of those begins two more trainings of as many steps:
    on the same takes, and on all takes with the words that it hears in the others."""
    lists = prepared(place)
    few = place.out / "lists-fifth"
    test = list(ListFile(lists / "test.lst", root="/"))
    if not (few / "lexicon.txt").is_file():
        _write_fifth(lists, few)
    epochs = _epochs(place)
    again = sorted({1, max(1, epochs // 2)})
    more = ["--unlabelled", str(few / "unlabelled.lst"), "--relabel-decoder", "lexicon"]
    more += ["--relabel-epochs", ",".join(map(str, again))]
    long = ("--epochs", str(5 * epochs))
    first = trained(place, RECIPE, few, "fifth", last=long)
    begin = ("--from", str(place.out / "fifth"))
    runs = {
        "first": first,
        "alone": trained(place, RECIPE, few, "fifth-alone", *begin, last=long),
        "with pseudo-labels": trained(place, RECIPE, few, "fifth-pseudo", *begin, *more),
    }
    free, found = [], []
    for name, recogniser in runs.items():
        free.append(greedy(recogniser, test))
        rate = lexicon_rate(recogniser, emissions(recogniser, test))
        found.append(Figure(f"a fifth {name}: WER with lexicon", rate))
    return [
        *found,
        Figure("a fifth first: WER greedy", free[0]),
        Figure("a fifth alone: WER greedy", free[1]),
        # With lexicon both are at one word of 300.
        Figure("a fifth with pseudo-labels: WER greedy", free[2], bar=free[1] - 1e-6),
    ]


def _epochs(place: Place) -> int:
    """Epochs of the recipe, or those that the settings give."""
    given = place.settings
    return int(given[given.index("--epochs") + 1]) if "--epochs" in given else EPOCHS


def _write_fifth(lists: Path, folder: Path) -> None:
    """Lists of takes with words (every fifth) and without."""
    folder.mkdir(parents=True, exist_ok=True)
    labelled, others = [], []
    for one in ListFile(lists / "train.lst", root="/"):
        if int(one.id.rpartition("_")[2]) % 5 == 0:
            labelled.append(one)
        else:
            others.append(Utterance(one.id, one.path, one.duration_ms))
    write_list_file(folder / "train.lst", labelled)
    write_list_file(folder / "unlabelled.lst", others)
    for name in ("tokens.txt", "lexicon.txt"):
        (folder / name).write_bytes((lists / name).read_bytes())
