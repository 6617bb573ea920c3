"""Word error rates of recognisers of spoken digits: `results.py ctc asg`.

Without names all experiments run, `speakers-torch` only where PyTorch is installed. Options:
`--data FOLDER` of the recordings, `--out FOLDER` for runs, and after `--` options of every
`fl-speech train`, such as `-- --epochs 2`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import connected
import digits
from tasks import Figure, Place

EXPERIMENTS = {
    "ctc": digits.ctc,
    "asg": digits.asg,
    "seq2seq": digits.seq2seq,
    "speakers": digits.speakers,
    "speakers-torch": digits.speakers_in_torch,
    "pseudo": digits.pseudo,
    "connected": connected.connected,
    "streaming": connected.streaming,
    "alignment": connected.alignment,
}


def measured(name: str, place: Place) -> list[Figure]:
    """The figures of an experiment, printed, and written as `{name}.json`."""
    start = time.perf_counter()
    found = EXPERIMENTS[name](place)
    took = time.perf_counter() - start
    for each in found:
        print(f"{name:10} {each}", flush=True)
    print(f"{name:10} took {took:.0f} s", flush=True)
    values = {"seconds": took, "figures": [each._asdict() for each in found]}
    (place.out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run experiments; the number of bars that were missed, at most 1."""
    own = list(arguments)
    settings = own[own.index("--") + 1 :] if "--" in own else []
    own = own[: own.index("--")] if "--" in own else own
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    data = os.environ.get("FL_TEST_DATA", "data")
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}")
    add("--data", type=Path, default=Path(data) / "fsdd" / "recordings", metavar="FOLDER")
    add("--out", type=Path, default=Path("runs") / "spoken-digits", metavar="FOLDER")
    add("--strings", type=int, default=1500, metavar="N", help="of training; a fifth to test")
    add("--seeds", type=int, default=3, metavar="N", help="of ctc (%(default)s)")
    given = parser.parse_args(own)
    for name in given.names:
        if name not in EXPERIMENTS:
            parser.error(f"{name}: the experiments are {', '.join(EXPERIMENTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    place = Place(given.data, given.out, tuple(settings), given.strings, given.seeds)
    names = given.names or [
        name
        for name in EXPERIMENTS
        if name != "speakers-torch" or importlib.util.find_spec("torch")
    ]
    figures = [each for name in names for each in measured(name, place)]
    missed = [each for each in figures if each.is_missed]
    print(f"{len(missed)} of {sum(each.bar is not None for each in figures)} bars missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
