"""The six models of the paper against their PyTorch twins, at full size: the same weights and
batch, then the loss and the gradient of every parameter.

Claim: float64 agrees to 1e-8, float32 to 1e-3, of the largest element of each gradient.

Where PyTorch's own float32 is further than that from its float64, float32 decides nothing, and the
verdict is float64's. ReLU and max pooling decide between nearly equal values by their last bit; a
few of millions of decisions fall otherwise in any two float32 computations, and each is felt in all
layers below. (The miniatures in `tests/oracles` are small enough to agree in both.)

    python benchmarks/check_models.py [NAME ...] [--size 1] [--json FILE]

ASR in float64 takes 9 GB of memory.
"""

from __future__ import annotations

import time

from _measure import environment, parsed, parser_of, report

import fl_memory
from models import ALL_MODELS
from models.compare import BOUNDS, compare


def main() -> None:
    parser = parser_of(__doc__, rounds=None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL_MODELS))
    parser.add_argument("--size", type=int, default=1, help="samples per batch")
    given = parsed(parser)
    if unknown := set(given.names) - set(ALL_MODELS):
        parser.error(f"{', '.join(sorted(unknown))}: the models are {', '.join(ALL_MODELS)}")
    fl_memory.use("system")  # what one model leaves, the next may have
    rows = []
    for name in given.names or ALL_MODELS:
        start = time.perf_counter()
        found = compare(ALL_MODELS[name], ALL_MODELS[name].small if given.tiny else {}, given.size)
        worst = {what: errors.worst() for what, errors in found.items()}
        within = {dtype: worst[dtype][0] <= bound for dtype, bound in BOUNDS.items()}
        decides = worst["theirs"][0] <= BOUNDS["float32"]
        rows.append(
            {
                "model": name,
                "gradients": len(found["float64"].gradients),
                "float64": worst["float64"][0],
                "float32": worst["float32"][0],
                "in": worst["float32"][1],
                "ours to float64": worst["ours"][0],
                "PyTorch to float64": worst["theirs"][0],
                "median": found["ours"].median(),
                "median ": found["theirs"].median(),
                "s": time.perf_counter() - start,
                "agrees": agrees(within, decides),
            }
        )
        report(given, environment("torch", "fl-tensor"), rows)
    if any(row["agrees"] == "NO" for row in rows):
        raise SystemExit(1)


def agrees(within: dict[str, bool], decides: bool) -> str:
    """The verdict: "yes", "NO", or "in float64" where float32 `decides` nothing."""
    if not within["float64"] or (decides and not within["float32"]):
        return "NO"
    return "yes" if within["float32"] else "in float64"


if __name__ == "__main__":
    main()
