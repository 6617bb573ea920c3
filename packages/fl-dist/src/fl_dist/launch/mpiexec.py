"""Ranks in processes that mpiexec starts on this host: ``MPICommunicator.run``.

The program and the outcome of each rank go through files of a temporary folder. MPI does not say
which rank was killed, and mpiexec ends the others at once. So each rank holds a named pipe open:
the first one that breaks is that of the rank whose process ended first. A process closes its files
in order of their numbers, so this pipe comes before the connection whose end mpiexec acts on.

``python -m fl_dist.launch.mpiexec FOLDER`` is what a rank executes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import IO, Any

from fl_dist import launch
from fl_dist.communicator import Communicator
from fl_dist.errors import DistError, ProgramError
from fl_dist.launch import wire
from fl_dist.launch.processes import first_failure, what_ended
from fl_dist.mpi_world import PATIENCE, import_mpi, mpiexec
from fl_dist.rank_info import environment

__all__ = ["run"]

#: Seconds for the others after the first failure. By themselves they take PATIENCE.
GRACE = PATIENCE + 1.0
#: Variables of another mpiexec, or of a launcher, that the ranks must not take for theirs.
_OTHERS = re.compile(r"PMI|MPI_LOCAL|HYDI?_|OMPI_|PRTE_|FL_DIST_(RANK|WORLD|LOCAL|NODE)|RANK$")
#: What mpiexec itself says when a rank was killed.
_REMARKS = re.compile(r"={3}|= |\[mpiexec@|YOUR APPLICATION|This typically|Please see the FAQ")


def run(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
) -> list[Any]:
    """``communicator.run``. The output of the ranks appears here; they read no input.

    Raises ProgramError when a rank raises or its process ends otherwise. No process is left when
    ``run`` is left, whatever the reason.
    """
    launch.check(communicator, world_size, timeout)
    packed = wire.pack(communicator, world_size, fn, args, timeout)
    folder = Path(tempfile.mkdtemp(prefix="fl_dist-"))
    try:
        main = spawn.get_preparation_data("rank")
        del main["authkey"]  # not for files
        for rank, program in enumerate(packed):
            os.mkfifo(folder / f"alive-{rank}")
            (folder / f"program-{rank}").write_bytes(pickle.dumps((main, program)))
        with _watched(world_size, folder) as ended:
            remarks = _run_mpiexec(world_size, folder)
        return _results(world_size, folder, remarks, ended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _watched(world_size: int, folder: Path) -> Iterator[list[int]]:
    """The ranks whose processes have ended, in that order, while the block runs."""
    ended: list[int] = []
    over = threading.Event()
    ranks = {
        os.open(folder / f"alive-{rank}", os.O_RDONLY | os.O_NONBLOCK): rank
        for rank in range(world_size)
    }
    # epoll lists pipes in the order in which they broke, poll in that of their registration.
    pipes = select.epoll() if hasattr(select, "epoll") else select.poll()
    wait = 0.05 if hasattr(select, "epoll") else 50  # seconds for epoll, milliseconds for poll
    for pipe in ranks:
        pipes.register(pipe, 0)  # broken pipes are told always

    def watch() -> None:
        while len(ended) < world_size and not over.is_set():
            for pipe, _ in pipes.poll(wait):
                pipes.unregister(pipe)
                ended.append(ranks[pipe])

    thread = threading.Thread(target=watch, name="fl_dist ranks", daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        over.set()
        thread.join()
        for pipe in ranks:
            os.close(pipe)


def _run_mpiexec(world_size: int, folder: Path) -> list[str]:
    """Run the ranks to their end; what mpiexec said about them."""
    program = mpiexec()
    assert program is not None, "launch.check has asked for it"
    command = [program, *_options(program), "-n", str(world_size)]
    command += [sys.executable, "-m", "fl_dist.launch.mpiexec", str(folder)]
    environ = {k: v for k, v in os.environ.items() if not _OTHERS.match(k)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.PIPE,  # its end tells rank 0 that this process is gone
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    remarks: list[str] = []
    assert process.stdin is not None and process.stdout is not None
    reader = threading.Thread(target=_pass_on, args=(process.stdout, remarks), daemon=True)
    reader.start()
    try:
        end: float | None = None
        while process.poll() is None and (end is None or time.monotonic() < end):
            if end is None and any(folder.glob("failed-*")):
                end = time.monotonic() + GRACE
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    finally:
        _end(process, folder)
        reader.join(1.0)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    return remarks


def _options(program: str) -> list[str]:
    """What MPICH and Open MPI need to start ranks here, whatever the number of cores."""
    about = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if "HYDRA" in about:
        return ["-launcher", "fork", "-print-all-exitcodes"]
    root = ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return ["--oversubscribe", *root] if "Open MPI" in about or "OpenRTE" in about else []


def _pass_on(output: IO[str], remarks: list[str]) -> None:
    for line in output:
        if _REMARKS.match(line):
            remarks.append(line)
        else:
            sys.stdout.write(line)


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    """Leave no process behind: mpiexec, and ranks that it would leave, such as stopped ones."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 1.0
    for file in folder.glob("process-*"):
        number, started = file.read_text().split()
        while started == _started(int(number)) != "-" and time.monotonic() < end:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
            time.sleep(1e-3)


def _started(process: int) -> str:
    """When a process that runs was started, which tells it from a later one with its number; "-"
    where there is none, or no Linux to ask."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "-"
    return "-" if fields[0] in "ZX" else fields[19]  # a zombie does not run


def _results(
    world_size: int, folder: Path, remarks: Sequence[str], ended: Sequence[int]
) -> list[Any]:
    results: list[Any] = [None] * world_size
    errors: dict[int, BaseException] = {}
    outcomes = {rank: folder / f"outcome-{rank}" for rank in range(world_size)}
    there = {rank: file for rank, file in outcomes.items() if file.exists()}
    missing = [rank for rank in outcomes if rank not in there]
    for rank in sorted(there, key=lambda rank: there[rank].stat().st_mtime_ns):
        results[rank], error = wire.load_outcome(there[rank].read_bytes())
        if error is not None:
            errors[rank] = error
    if missing:
        rank, code = _first_ended(missing, ended, "".join(remarks))
        if code is not None or not errors:
            errors = {rank: DistError(what_ended(rank, code)), **errors}
    for rank in missing:
        text = f"rank {rank} still ran when another rank had failed, and was ended"
        errors.setdefault(rank, DistError(text))
    if errors:
        raise ProgramError(first_failure(errors), errors, world_size)
    return results


def _first_ended(
    missing: Sequence[int], ended: Sequence[int], remarks: str
) -> tuple[int, int | None]:
    """The rank whose process ended first without an outcome, and its exit code (of a signal: below
    0), as far as mpiexec tells; else the first one."""
    listed = re.search(r"Exit codes: \[[^\]]*\] ([\d,]+)", remarks)
    statuses = [int(status) for status in listed[1].split(",")] if listed else []
    codes = {rank: os.waitstatus_to_exitcode(status) for rank, status in enumerate(statuses)}
    for rank in missing:
        if codes.get(rank, 0) > 0:
            return rank, codes[rank]
    # mpiexec lists 0 for some of the ranks that it killed itself.
    killed = [rank for rank in missing if codes.get(rank, 0) < 0] or missing
    first = next((rank for rank in ended if rank in killed), killed[0])
    return first, codes.get(first)


# ---- in a rank -----------------------------------------------------------------------------------


def main(folder: Path) -> None:
    info = environment()
    alive = os.open(folder / f"alive-{info.rank}", os.O_WRONLY | os.O_NONBLOCK)  # never closed
    _move_connection(alive)
    if info.rank == 0:
        threading.Thread(target=_end_with_caller, name="fl_dist caller", daemon=True).start()
    (folder / f"process-{info.rank}").write_text(f"{os.getpid()} {_started(os.getpid())}")
    import_mpi()  # before the environment of the caller replaces that of mpiexec
    prepared, program = pickle.loads((folder / f"program-{info.rank}").read_bytes())
    spawn.prepare(prepared)
    outcome = wire.perform(program, info)
    if wire.load_outcome(outcome)[1] is not None:
        (folder / f"failed-{info.rank}").touch()
    part = folder / f"part-{info.rank}"
    part.write_bytes(outcome)
    part.rename(folder / f"outcome-{info.rank}")


def _move_connection(before: int) -> None:
    """Give the connection to mpiexec (PMI of MPICH) a number above ``before``."""
    number = os.environ.get("PMI_FD", "")
    if number.isdecimal() and int(number) < before:
        os.environ["PMI_FD"] = str(fcntl.fcntl(int(number), fcntl.F_DUPFD, before + 1))
        os.close(int(number))


def _end_with_caller() -> None:
    """The standard input of rank 0 comes from the caller. mpiexec ends the other ranks, too."""
    os.read(0, 1)  # nobody writes there
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
