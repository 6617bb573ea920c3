"""Many descriptors of a kind, for one kernel library."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fl_jit.kernels import KernelLibrary
from fl_jit.testing.guarded import Regions
from stress_test import draws
from stress_test.check import DisagreementError, check, has_elements

#: Kernels of this many problems are kept in memory at a time.
_KEPT = 200


@dataclass
class Report:
    """What came out. ``refused`` and ``failures`` are (number, what was wrong) of problems; what is
    refused has no elements, or the library may refuse it."""

    computed: int = 0
    worst: float = 0.0
    refused: list[tuple[int, str]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    kernels: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            f"{self.computed} computed, {len(self.refused)} refused, {len(self.failures)} failed; "
            f"the largest error is {self.worst:.2f} of what is allowed",
        ]
        reasons = Counter(reason[:140] for _, reason in self.refused)
        lines += [f"  refused {n} times: {why}" for why, n in reasons.most_common(12)]
        lines += [f"  problem {number}: {what}" for number, what in self.failures]
        return "\n".join(lines)


def run(
    library: KernelLibrary,
    kind: str,
    count: int,
    seed: int = 0,
    start: int = 0,
    before: Callable[[int, str], object] = lambda number, descriptor: None,
    may_refuse: bool = False,
) -> Report:
    """Problems from ``start`` on; ``before`` is told of each, as it may be the last. A problem with
    elements that is refused has failed, but where the library ``may_refuse``."""
    report, regions = Report(), Regions()
    for number in range(start, start + count):
        descriptor = draws.descriptor(kind, seed, number)
        before(number, str(descriptor))
        try:
            found = check(library, descriptor, number, regions)
        except Exception as error:
            known = isinstance(error, DisagreementError)
            what = str(error) if known else "".join(traceback.format_exception(error)[-3:])
            report.failures.append((number, f"{what}\n    {descriptor}"))
            regions = Regions()
            continue
        if found.refused:
            if may_refuse or not has_elements(descriptor):
                report.refused.append((number, found.refused))
            else:
                report.failures.append((number, f"refused: {found.refused}\n    {descriptor}"))
            continue
        report.computed += 1
        report.worst = max(report.worst, found.error)
        report.kernels[found.about] += 1
        if number % _KEPT == 0:
            library.forget()
    return report
