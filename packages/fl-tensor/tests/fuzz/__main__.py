"""``python packages/fl-tensor/tests/fuzz --programs 20000 --seed 1``: random programs, against
NumPy."""

from __future__ import annotations

import argparse
import sys
import time

from fuzzing import lockstep, stress


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()

    def progress(done: int) -> None:
        print(f"{done} programs in {time.monotonic() - start:.0f} s", flush=True)

    try:
        report = stress.run(options.programs, options.seed, progress=progress)
    except lockstep.DisagreementError as error:
        print(error)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
