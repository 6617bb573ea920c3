"""``python packages/fl-tensor/tests/fuzz --programs 20000 --seed 1``: many programs, against NumPy;
``--backend jit``: programs that ``numpy`` and ``jit`` run (5,000 of them)."""

from __future__ import annotations

import argparse
import sys
import time

import fuzzing.campaign
import fuzzing.lockstep
import twins.campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--programs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first program (jit)")
    parser.add_argument("--backend", choices=("numpy", "jit"), default="numpy")
    options = parser.parse_args()
    start = time.monotonic()

    def progress(done: int) -> None:
        print(f"{done} programs in {time.monotonic() - start:.0f} s", flush=True)

    report: object
    try:
        if options.backend == "jit":
            count = options.programs or 5000
            report = twins.campaign.run(count, options.seed, options.start, progress=progress)
        else:
            count = options.programs or 20_000
            report = fuzzing.campaign.run(count, options.seed, progress=progress)
    except (fuzzing.lockstep.DisagreementError, twins.campaign.DisagreementError) as error:
        print(error)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
