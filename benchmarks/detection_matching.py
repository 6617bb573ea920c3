"""How fast queries are matched with objects, beside SciPy once for each image.

Claim: a batch of 16 images with 100 queries is assigned faster than by a loop over
`scipy.optimize.linear_sum_assignment`, and the totals are equal.

A case is a batch of images with so many queries, and as many objects as a number drawn for each
image up to the most. Costs are those of DETR for random predictions, or uniform noise, which is
harder. Both sides get one array of costs (images, objects, queries) and the numbers of objects, on
one thread, and take turns. SciPy gets the part of each image.

    python benchmarks/detection_matching.py [--only NAME ...] [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _measure import environment, interleave, options, report
from _peers import require

import fl_tensor as ft
from fl_vision.detection import batched_linear_sum_assignment


class Case(NamedTuple):
    kind: str
    images: int
    queries: int
    objects: int
    fixed: bool = False  # the most objects in every image

    @property
    def name(self) -> str:
        most = f"{'' if self.fixed else 'to-'}{self.objects}"
        return f"{self.kind}-{self.images}x{self.queries}-objects-{most}"

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Costs (images, objects, queries) and the objects of each image."""
        rng = np.random.default_rng(0)
        shape = self.images, self.objects, self.queries
        counts = rng.integers(1, self.objects + 1, self.images)
        if self.fixed:
            counts[:] = self.objects
        if self.kind == "noise":
            return rng.random(shape), counts
        boxes, truth = (rng.random((self.images, n, 4)) for n in (self.queries, self.objects))
        costs = 5 * np.abs(truth[:, :, None] - boxes[:, None]).sum(-1)
        return costs - rng.dirichlet(np.ones(20), shape)[..., 0], counts


CASES = [
    Case("detr", 16, 100, 20),
    Case("detr", 16, 100, 100, True),
    Case("noise", 16, 100, 20),
    Case("noise", 16, 100, 100, True),
    Case("detr", 2, 100, 20),
    Case("detr", 4, 300, 60),
]
TINY = [Case("detr", 2, 10, 4), Case("noise", 2, 5, 5, True)]

Pairs = list[Any]


def sides(costs: np.ndarray, counts: np.ndarray, tiny: bool) -> dict[str, Callable[[], Pairs]]:
    found: dict[str, Callable[[], Pairs]] = {
        "ours": lambda: batched_linear_sum_assignment(costs, counts)
    }
    if not tiny:
        from scipy.optimize import linear_sum_assignment

        found["scipy"] = lambda: [
            linear_sum_assignment(cost[:count]) for cost, count in zip(costs, counts, strict=True)
        ]
    return found


def total(costs: np.ndarray, pairs: Pairs) -> float:
    return float(
        sum(c[rows, columns].sum() for c, (rows, columns) in zip(costs, pairs, strict=True))
    )


def row_of(case: Case, given: Any) -> dict[str, Any]:
    costs, counts = case.draw()
    cases = sides(costs, counts, given.tiny)
    totals = {name: total(costs, run()) for name, run in cases.items()}
    times = interleave(cases, given.rounds, given.moment, clock=time.process_time)
    row: dict[str, Any] = {"case": case.name, "ours us": times["ours"] * 1e6}
    if "scipy" in times:
        row["scipy us"] = times["scipy"] * 1e6
        row["scipy / ours"] = times["scipy"] / times["ours"]
        row["difference of totals"] = f"{abs(totals['ours'] - totals['scipy']):.0e}"
    return row


def main() -> None:
    given = options(__doc__)
    if not given.tiny:
        require(["scipy"], "pip install scipy, or --tiny")
    ft.set_num_threads(1)
    rows = []
    for case in TINY if given.tiny else CASES:
        if not given.only or any(part in case.name for part in given.only):
            rows.append(row_of(case, given))
            print(rows[-1], file=sys.stderr, flush=True)
    report(given, environment("scipy", "numpy", "llvmlite", "fl-vision"), rows)


if __name__ == "__main__":
    main()
