"""Runs cases in a process of its own, so that a crash or a hang costs that process alone.

``python worker.py SEED SHARE FIRST`` writes a line of JSON for each case from number FIRST on:
before it runs, its number; after it, what came of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Seconds after which a case hangs.
PATIENCE = 30.0
#: Bytes of address space: absurd sizes fail at once, and the machine stays usable.
MEMORY = 12 << 30


def outcomes(seed: int, share: float, count: int) -> Iterator[tuple[int, str]]:
    """The number of each case, and its outcome: "refused", or what is wrong."""
    done = 0
    while done < count:
        command = [sys.executable, __file__, str(seed), repr(share), str(done)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            running = -1
            for line in _lines(process):
                if "outcome" in line:
                    yield line["case"], line["outcome"]
                    done, running = line["case"] + 1, -1
                else:
                    running = line["case"]
            hung = process.poll() is None
            process.kill()
        if running >= 0:
            yield running, "hangs" if hung else f"crashes the process ({process.returncode})"
            done = running + 1
        elif done < count:
            raise RuntimeError(f"the worker ended before case {done}: {process.returncode}")


def _lines(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """What the process writes, until it ends or writes nothing for too long."""
    assert process.stdout is not None
    waiting = b""
    while select.select([process.stdout], [], [], PATIENCE)[0]:
        block = os.read(process.stdout.fileno(), 1 << 16)
        if not block:
            process.wait()
            return
        *lines, waiting = (waiting + block).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _run(case: Any) -> str:
    with tempfile.TemporaryDirectory(prefix="fl-hostile-") as name:
        try:
            result = case.run(Path(name))
            text = str(result)  # what was deferred is computed now
        except Exception as error:
            from fl_tensor import FlError

            if isinstance(error, FlError):
                return "refused" if str(error) else f"refused without a word: {error!r}"
            return f"bare {type(error).__name__}: {str(error)[:150]}"
        return f"accepted: {type(result).__name__} {text[:80]!r}"


def main(seed: int, share: float, first: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    from cases import cases_of
    from targets import TARGETS

    out = os.fdopen(os.dup(1), "w")
    for i, case in enumerate(cases_of(TARGETS, seed, share)[first:], first):
        print(json.dumps({"case": i}), file=out, flush=True)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            outcome = _run(case)
        print(json.dumps({"case": i, "outcome": outcome}), file=out, flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
