"""``fl-memory record``: run a Python program and write the trace of its memory events."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fl_memory.cli.options import manager as manager_named
from fl_memory.errors import TraceError
from fl_memory.selection import current, use
from fl_memory.traces import MAX_ROWS, Recorder, write


def main(arguments: list[str]) -> int:
    """Run the program; its exit status, 1 where an exception ended it."""
    parser = argparse.ArgumentParser(
        prog="fl-memory record",
        usage="fl-memory record [options] -- PROGRAM [ARG...]\n"
        "       fl-memory record [options] -- -m MODULE [ARG...]",
        description="Run a Python program and write the trace of its memory events, also where an "
        "exception ends it. The exit status is the program's.",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: PROGRAM.flmt in this folder"
    )
    parser.add_argument(
        "--manager", metavar="NAME[,KEY=VALUE...]", help="the manager of the program"
    )
    parser.add_argument("--device", default="cpu", help="record the events of this device (cpu)")
    parser.add_argument(
        "--small-bytes",
        type=int,
        metavar="N",
        help="let the manager serve results from N bytes on; 0: all (the manager's own value)",
    )
    parser.add_argument(
        "--max-rows", type=int, default=MAX_ROWS, help="record at most so many (%(default)s)"
    )
    parser.add_argument(
        "--fact", action="append", default=[], metavar="KEY=VALUE", help="keep a fact in the file"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    command = given.program[given.program[:1] == ["--"] :]
    as_module = command[:1] == ["-m"]
    command = command[as_module:]
    facts = dict(fact.partition("=")[::2] for fact in given.fact)
    if not command or not all(facts):
        parser.error("expected a program, as in: fl-memory record -- train.py --epochs 2")
    output = given.output or Path(f"{Path(command[0]).stem}.flmt")
    _check(output, None if as_module else command[0])
    _choose(parser, given)

    recorder = Recorder(device=given.device, max_rows=given.max_rows, facts=facts)
    process = os.getpid()
    with _ended_by_exception():
        try:
            with recorder:
                status = _run(command, as_module)
        finally:
            if os.getpid() == process:  # a forked child ends here, too
                _write(recorder, output)
    return status


def _check(output: Path, program: str | None) -> None:
    """Fail now, before the program runs."""
    if not output.parent.is_dir() or output.is_dir() or not os.access(output.parent, os.W_OK):
        raise TraceError(f"{output}: no file can be written there; give another one with -o FILE")
    if program is not None and not os.path.exists(program):
        raise FileNotFoundError(
            f"{program}: there is no such program; for a module say -m {program}"
        )


def _choose(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Make the manager that was asked for the process's."""
    if given.manager is None and given.small_bytes is None:
        return
    try:
        made = type(current()) if given.manager is None else manager_named(given.manager)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    manager = made()
    if given.small_bytes is not None:
        manager.small_bytes = given.small_bytes
    use(manager)


def _run(command: list[str], as_module: bool) -> int:
    """Run the program in this process, as ``python`` would; its exit status."""
    sys.argv[:] = command
    try:
        if as_module:
            if "" not in sys.path:
                sys.path.insert(0, "")
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        _print(error)
        return 1
    return 0


def _print(error: Exception) -> None:
    """The traceback, from the program's first line on."""
    inside = error.__traceback__
    while inside is not None and inside.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        inside = inside.tb_next
    traceback.print_exception(type(error), error, inside)


def _write(recorder: Recorder, output: Path) -> None:
    trace = recorder.trace
    write(trace, output)
    note = ", the first part of the run (--max-rows)" if "truncated" in trace.facts else ""
    size = output.stat().st_size
    print(f"{output}: {len(trace)} rows, {size} bytes{note}", file=sys.stderr)


@contextmanager
def _ended_by_exception() -> Iterator[None]:
    """Within this block a request to terminate is an exception, so that the trace is written."""

    def end(signum: int, frame: object) -> None:
        sys.exit(128 + signum)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
