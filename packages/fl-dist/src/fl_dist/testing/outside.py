"""Ranks that no launcher of fl-dist started, as a cluster's launcher would start them.

``python -m fl_dist.testing.outside`` is one rank in a process of its own. It takes, as JSON, the
class, the program and the RankInfo, joins, runs the program and prints its result as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from fl_dist.communicator import Communicator
from fl_dist.rank_info import RankInfo

LIMIT = 60.0  # seconds that a rank may take


class Ended(NamedTuple):
    """How the process of a rank ended."""

    status: int
    result: Any
    errors: str


def in_threads(
    communicator: type[Communicator], world_size: int, program: Callable[[Communicator], Any]
) -> list[Any]:
    """The result of every rank; each is a thread that joins by itself."""
    results: list[Any] = [None] * world_size
    store = f"threads:{token_hex(8)}"

    def rank(r: int) -> None:
        info = RankInfo(r, world_size, r, world_size, store=store)
        with communicator.join(info, timeout=LIMIT) as comm:
            results[r] = program(comm)

    threads = [threading.Thread(target=rank, args=(r,), daemon=True) for r in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    return results


def in_processes(
    communicator: type[Communicator],
    world_size: int,
    program: Callable[[Communicator], Any],
    store: str,
) -> list[Ended]:
    """How every rank ended; each is a process that joins by itself."""
    token = token_hex(8)
    children = []
    for r in range(world_size):
        task = {
            "communicator": [communicator.__module__, communicator.__qualname__],
            "program": [program.__module__, program.__qualname__],
            "info": asdict(RankInfo(r, world_size, r, world_size, store=store, token=token)),
        }
        command = [sys.executable, "-m", "fl_dist.testing.outside", json.dumps(task)]
        path = os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])
        children.append(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        )
    found = []
    try:
        for child in children:
            output, errors = child.communicate(timeout=LIMIT)
            line = output.strip().splitlines()[-1:]
            found.append(Ended(child.returncode, json.loads(line[0]) if line else None, errors))
    finally:
        for child in children:
            child.kill()
            child.wait()
    return found


def main(text: str) -> None:
    task = json.loads(text)
    communicator, program = (_object(*task[name]) for name in ("communicator", "program"))
    with communicator.join(RankInfo(**task["info"]), timeout=LIMIT) as comm:
        comm.timeout = LIMIT
        result = program(comm)
    print(json.dumps(result), flush=True)


def _object(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(module))


if __name__ == "__main__":
    main(sys.argv[1])
