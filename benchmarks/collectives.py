"""All-reduce between two processes of one host: libraries as they are, and the same through ours.

Claims: ``processes`` is at least 3x as fast as PyTorch's gloo to 64 KB, 2x at 1 MB, 1.3x at 64 MB.
The contract adds at most 25 us to raw shared memory, 35 us to raw MPI, 45 us at 1 MB and 10 % at 64
MB. The consistency check takes at most 10 us. float32, sum; results are in memory that was there
before, which is donated memory through the contract. A time is the median over rounds of the
median of the calls of a round. ``raw shared memory`` is the arena of ``processes`` alone.

``--overlap`` measures which share of the communication of a step is hidden behind its computation:
8 products, and after each an all-reduce of 2 MB. ``delayed`` adds 30 % of a step to the transport,
as a slow network would. Claims: 50 % hidden on ``processes``, 30 % on ``mpi``, when delayed.

    python benchmarks/collectives.py [--rounds 15] [--only 1KB 64KB] [--overlap]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from _measure import environment, interleave, parsed, parser_of, report, take_turns

#: Elements of float32.
CASES = {"1KB": 1 << 8, "64KB": 1 << 14, "1MB": 1 << 18, "64MB": 1 << 24}
TINY = {"1KB": 1 << 8, "64KB": 1 << 14}
RANKS = 2
#: The step of ``--overlap``.
LAYERS, ROWS, WIDTH, GRADIENT = 8, 224, 1024, 1 << 19
#: The delays of a step, as a share of its computation.
DELAYS = 0.3

Call = Callable[[], object]


class Ranks:
    """Two processes that measure the same case at the same time; between turns they wait for a
    message and use no processor."""

    def __init__(self, library: str, tiny: bool) -> None:
        self._folder = tempfile.mkdtemp(prefix="fl-collectives-")
        address = f"{self._folder}/socket"
        self._listener = Listener(address, "AF_UNIX")
        command = [sys.executable, sys.argv[0], "--serve", library, "--address", address]
        command += ["--tiny"] if tiny else []
        pools = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        shared = {**os.environ, **pools, "FL_DIST_STORE": f"file:{self._folder}/store"}
        if "mpi" in library:
            from fl_dist.mpi_world import mpiexec

            start = [str(mpiexec()), "-n", str(RANKS), *command]
            self._processes = [subprocess.Popen(start, env=shared)]
        else:
            places = [
                {"FL_DIST_RANK": str(rank), "FL_DIST_WORLD_SIZE": str(RANKS)}
                | {"FL_DIST_LOCAL_RANK": str(rank), "FL_DIST_LOCAL_SIZE": str(RANKS)}
                for rank in range(RANKS)
            ]
            self._processes = [subprocess.Popen(command, env=shared | at) for at in places]
        self._ranks = [self._listener.accept() for _ in range(RANKS)]

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *error: object) -> None:
        for rank in self._ranks:
            with suppress(BrokenPipeError):  # it has failed
                rank.send(None)
        for process in self._processes:
            process.wait()
        self._listener.close()
        shutil.rmtree(self._folder)

    def timed(self, case: str, count: int) -> float:
        """The median of the seconds of ``count`` calls, on the slower rank."""
        for rank in self._ranks:
            rank.send((case, count))
        return max(float(rank.recv()) for rank in self._ranks)


def serve(library: str, address: str, tiny: bool) -> None:
    """Answer the ``Ranks`` until they end."""
    with ExitStack() as stack:
        calls = calls_of(library, tiny, stack)
        parent: Connection = stack.enter_context(Client(address, "AF_UNIX"))
        made: dict[str, Call] = {}
        while (question := parent.recv()) is not None:
            case, count = question
            if case not in made:
                made.clear()  # one case has the memory to itself
                made[case] = calls(case)
            call, times = made[case], []
            for _ in range(count):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            parent.send(statistics.median(times))


def calls_of(library: str, tiny: bool, stack: ExitStack) -> Callable[[str], Call]:
    """From the name of a case to a call of it, on a rank that has joined the others."""
    if library == "torch gloo":
        return torch_calls()
    if library == "raw mpi4py":
        return mpi_calls()
    import fl_dist as dist

    name, _, how = library.removeprefix("raw ").partition(", ")
    cls = dist.load("processes" if name == "shared memory" else name)
    if how == "delayed":
        cls = delayed(cls)
    comm = stack.enter_context(cls.join(dist.environment()))
    comm.check_consistency = how != "unchecked"
    if name == "shared memory":
        return arena_calls(comm)
    if how in ("overlap", "delayed"):
        return step_calls(comm, tiny)

    def make(case: str) -> Call:
        x = comm.buffer((CASES[case],), "float32")

        def call() -> None:
            nonlocal x
            x = comm.all_reduce(x, donate=True)

        return call

    return make


def torch_calls() -> Callable[[str], Call]:
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    store = os.environ["FL_DIST_STORE"].removeprefix("file:")
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=int(os.environ["FL_DIST_RANK"]),
        world_size=RANKS,
    )

    def make(case: str) -> Call:
        x = torch.zeros(CASES[case])
        return lambda: torch.distributed.all_reduce(x)

    return make


def mpi_calls() -> Callable[[str], Call]:
    import numpy as np

    from fl_dist.mpi_world import import_mpi

    comm = import_mpi().COMM_WORLD

    def make(case: str) -> Call:
        x = np.zeros(CASES[case], np.float32)
        out = np.empty_like(x)
        return lambda: comm.Allreduce(x, out)

    return make


def arena_calls(comm: Any) -> Callable[[str], Call]:
    import numpy as np

    import fl_tensor as ft
    from fl_dist import Deadline

    def make(case: str) -> Call:
        x = np.zeros(CASES[case], np.float32)
        out = np.empty_like(x)
        arena, deadline = comm._arena, Deadline(600.0, "[collectives]")
        return lambda: arena.all_reduce(x, out, "sum", ft.float32, deadline)

    return make


def delayed(cls: Any) -> Any:
    """The communicator ``cls``, each of whose reductions takes ``delay`` seconds longer."""

    class Delayed(cls):  # type: ignore[misc]
        CONTRACT = cls.CONTRACT
        delay = 0.0

        def do_all_reduce(self, *arguments: Any, **options: Any) -> Any:
            time.sleep(self.delay)
            return super().do_all_reduce(*arguments, **options)

    return Delayed


def step_calls(comm: Any, tiny: bool) -> Callable[[str], Call]:
    import numpy as np

    import fl_tensor as ft

    rng = np.random.default_rng(0)
    width = 64 if tiny else WIDTH
    a = rng.standard_normal((ROWS, width), np.float32)
    b = rng.standard_normal((width, width), np.float32)
    gradients = [ft.ones(GRADIENT >> 8 if tiny else GRADIENT) for _ in range(LAYERS)]

    def compute() -> None:
        for _ in range(2):
            a @ b

    def step(mode: str) -> None:
        works = []
        for gradient in gradients:
            compute()
            if mode == "async":
                works.append(comm.all_reduce(gradient, async_op=True))
            elif mode == "blocking":
                comm.all_reduce(gradient)
        for work in works:
            work.wait()

    if hasattr(comm, "delay"):
        comm.barrier()
        start = time.perf_counter()
        for _ in range(5):
            step("compute")
        seconds = ft.asarray((time.perf_counter() - start) / 5)
        comm.delay = DELAYS * comm.all_reduce(seconds, "mean").item() / LAYERS

    def make(case: str) -> Call:
        comm.barrier()
        return lambda: step(case)

    return make


def reductions(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each size and communicator of ours."""
    pairs = [("processes", "raw shared memory"), ("mpi", "raw mpi4py")][: 1 if given.tiny else 2]
    libraries = [name for ours, raw in pairs for name in (raw, ours, f"{ours}, unchecked")]
    libraries += [] if given.tiny else ["torch gloo"]
    rows = []
    with ExitStack() as stack:
        ranks = {name: stack.enter_context(Ranks(name, given.tiny)) for name in libraries}
        for case in given.only or (TINY if given.tiny else CASES):
            seconds = take_turns(ranks, case, given.rounds, given.moment)
            us = {name: 1e6 * found for name, found in seconds.items()}
            for ours, raw in pairs:
                row: dict[str, Any] = {"case": case, "communicator": ours}
                row |= {"raw, us": us[raw], "ours, us": us[ours]}
                row |= {"ours - raw, us": us[ours] - us[raw], "ours / raw": us[ours] / us[raw]}
                row["check, us"] = us[ours] - us[f"{ours}, unchecked"]
                if "torch gloo" in us:
                    row["torch gloo / ours"] = us["torch gloo"] / us[ours]
                rows.append(row)
    return rows


def overlaps(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each communicator, with delays and without."""
    rows = []
    for name in ("processes", "mpi"):
        for how in ("overlap", "delayed"):
            with Ranks(f"{name}, {how}", given.tiny) as ranks:
                modes = {
                    mode: lambda mode=mode: ranks.timed(mode, 1)
                    for mode in ("compute", "blocking", "async")
                }
                ms = {
                    mode: 1e3 * seconds
                    for mode, seconds in interleave(modes, given.rounds, given.moment).items()
                }
            communication = ms["blocking"] - ms["compute"]
            rows.append(
                {
                    "communicator": name if how == "overlap" else f"{name}, delayed",
                    **{f"{mode}, ms": ms[mode] for mode in modes},
                    "hidden, %": 100 * (ms["blocking"] - ms["async"]) / communication,
                }
            )
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", default=[], choices=CASES, metavar="CASE")
    parser.add_argument("--overlap", action="store_true", help="measure hidden communication")
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--address", type=Path, help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        serve(given.serve, str(given.address), given.tiny)
        return
    rows = overlaps(given) if given.overlap else reductions(given)
    about = environment("numpy", "torch", "mpi4py", "mpich", "fl-dist")
    report(given, {**about, "ranks": RANKS, "rounds": given.rounds}, rows, list(rows[0])[:2])


if __name__ == "__main__":
    main()
