"""``python backends/fl-jit/tests/stress --kind gemm --count 5000``: random problems for the
generated kernels (or ``--library onednn``), each between guard pages and against float64.

A problem that kills the process (a page that is not there was touched) is reported like one with
wrong numbers, and the stress goes on behind it; so is one that is refused though it has elements,
but by a library, which need not have everything. ``--start N --count 1`` repeats problem N. Ends
with 1 where a problem failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Problems of one process.
_SHARE = 500
#: What a process ends with that has seen problems fail, not died of one.
_FAILED = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="stress", description=__doc__)
    parser.add_argument("--library", default="generated", help="a name for FL_KERNEL_LIBRARIES")
    parser.add_argument("--kind", choices=("gemm", "convolution"), nargs="+", default=[])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--here", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        return _here(given)
    failed = 0
    for kind in given.kind or ("gemm", "convolution"):
        failed += _stress(given, kind)
    return bool(failed)


def _stress(given: argparse.Namespace, kind: str) -> int:
    # Processes one after the other; how many problems failed.
    start, end, failures = given.start, given.start + given.count, 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "last"
        while start < end:
            count = min(_SHARE, end - start)
            last.write_text("")
            command = [sys.executable, str(Path(__file__).parent), "--kind", kind]
            for name in ("library", "seed", "threads"):
                command += [f"--{name}", str(getattr(given, name))]
            command += ["--start", str(start), "--count", str(count), "--here", str(last)]
            ended = subprocess.run(command, capture_output=True, text=True)
            print(f"{kind} {start} to {start + count}, {time.monotonic() - begin:.0f} s")
            print(ended.stdout, end="")
            if ended.returncode in (0, _FAILED):
                start += count
                failures += ended.stdout.count("\n  problem ")
                continue
            number, _, descriptor = last.read_text().partition(" ")
            print(f"  problem {number}: the process ended with {ended.returncode}")
            print(f"    {descriptor}\n{ended.stderr[-2000:]}", flush=True)
            failures += 1
            start = int(number) + 1 if number else end
    print(f"{kind}: {failures} of {given.count} problems failed (seed {given.seed})", flush=True)
    return failures


def _here(given: argparse.Namespace) -> int:
    import os

    from stress_test import stress

    import fl_tensor as ft
    from fl_jit.kernels import registry

    ft.set_num_threads(given.threads)
    (kind,) = given.kind
    handle = os.open(given.here, os.O_WRONLY)

    def note(number: int, descriptor: str) -> None:
        text = f"{number} {descriptor}".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))

    library = registry.load(given.library)
    may_refuse = given.library != "generated"
    report = stress.run(library, kind, given.count, given.seed, given.start, note, may_refuse)
    print(report)
    return _FAILED if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
