"""``python backends/fl-jit/tests/fuzz --programs 5000 --seed 1``: random programs, on ``numpy``
and on ``jit``."""

from __future__ import annotations

import argparse
import sys
import time

from twins import stress


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first program")
    options = parser.parse_args()
    start = time.monotonic()

    def progress(done: int) -> None:
        print(f"{done} programs in {time.monotonic() - start:.0f} s", flush=True)

    try:
        report = stress.run(options.programs, options.seed, options.start, progress=progress)
    except stress.DisagreementError as error:
        print(error)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
