"""The six models of the paper against their PyTorch twins, at full size: the same weights and
batch, then the loss and the gradient of every parameter.

Claim: float64 agrees to 1e-8, float32 to 1e-3, of the largest element of each gradient.

Where float32 does not, its distance from the float64 step is compared with that of PyTorch's own
float32: the medians over all gradients must be within a factor of two. ReLU and max pooling decide
between nearly equal values by their last bit, and one decision that falls otherwise can change the
gradients of a layer by some percent, in any library.

    python benchmarks/check_models.py [NAME ...] [--size 1] [--json FILE]

ASR in float64 needs 12 GB of memory.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from _measure import environment, report

import fl_memory
from models import MODELS
from models.compare import BOUNDS, compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--size", type=int, default=1, help="samples per batch")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    given = parser.parse_args()
    if unknown := set(given.names) - set(MODELS):
        parser.error(f"{', '.join(sorted(unknown))}: the models are {', '.join(MODELS)}")
    fl_memory.use("system")  # what one model leaves, the next may have
    rows = []
    for name in given.names or MODELS:
        start = time.perf_counter()
        found = compare(MODELS[name], {}, given.size)
        worst = {what: errors.worst()[0] for what, errors in found.items()}
        median = {what: errors.median() for what, errors in found.items()}
        agrees = worst["float64"] <= BOUNDS["float64"] and (
            worst["float32"] <= BOUNDS["float32"] or median["ours"] <= 2 * median["theirs"]
        )
        rows.append(
            {
                "model": name,
                "gradients": len(found["float64"].gradients),
                "float64": worst["float64"],
                "float32": worst["float32"],
                "in": found["float32"].worst()[1],
                "median": median["float32"],
                "ours, exact": worst["ours"],
                "median ": median["ours"],
                "PyTorch, exact": worst["theirs"],
                "median  ": median["theirs"],
                "s": time.perf_counter() - start,
                "agrees": "yes" if agrees else "NO",
            }
        )
        report(given, environment("torch", "fl-tensor"), rows)
    if any(row["agrees"] != "yes" for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
