"""The command ``fl-memory``."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fl_memory import traces
from fl_memory.cli import COMMANDS, main
from fl_memory.cli.options import manager, progress, size

RECORDED = Path(__file__).parent / "traces"
ALEXNET = str(RECORDED / "alexnet-jit.flmt")


def ended(status: int, arguments: list[str]) -> None:
    """The command ends the process with this status."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == status


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    ended(0, [])
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name in COMMANDS)
    for name in COMMANDS:
        ended(0, [name, "--help"])
        assert f"fl-memory {name}" in capsys.readouterr().out
    ended(2, ["dance"])


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", ALEXNET]) == 0
    shown = capsys.readouterr().out
    assert "peak_live_bytes: 842579648" in shown and "steps: 6" in shown
    assert main(["summary", ALEXNET, "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == sum(found[kind] for kind in traces.KINDS) == 809
    assert (found["alloc"], found["reserve_hint"], found["mark"]) == (416, 2, 6)
    operations = found["largest"]["operation"]
    assert len(operations) == 3
    assert operations[0]["bytes"] >= operations[1]["bytes"] >= operations[2]["bytes"] > 0


def test_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", ALEXNET, "--manager", "caching", "system", "--json"]) == 0
    caching, system = json.loads(capsys.readouterr().out)
    assert (caching["manager"], system["manager"]) == ("caching", "system")
    assert system["over"] == 1.0 < caching["over"] < 1.5
    assert caching["rows_per_minute"] > 0
    assert main(["replay", ALEXNET, "--no-hints", "--json"]) == 0
    (without,) = json.loads(capsys.readouterr().out)
    assert 1.0 < without["over"] < caching["over"]
    assert main(["replay", ALEXNET, "--capacity", "100MiB"]) == 1
    shown = capsys.readouterr()
    assert "step 1: [alloc]" in shown.err and "over: " in shown.out


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    managers = ["--manager", "system", "caching"]
    assert main(["compare", ALEXNET, ALEXNET, *managers, "--resolution", "0.05"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("manager") == 2 and "1.000  1.000" in shown.out and shown.err == ""
    assert main(["compare", ALEXNET, *managers, "--json", "--resolution", "0.05"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["trace"] == "alexnet-jit.flmt" and found["facts"]["backend"] == "jit"
    assert [row["fits"] for row in found["managers"]][0] == 1.0


def test_minimum_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["min-capacity", ALEXNET, "--manager", "system", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {"manager": "system", "minimum_capacity": 842579648, "fits": 1.0}


def test_export_and_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made.flmt"
    assert main(["generate", "phases", "--largest", "1MiB", "--seed", "5", "-o", str(made)]) == 0
    assert traces.read(made) == traces.phases(largest=1 << 20, seed=5)
    assert main(["export", str(made), "--manager", "system"]) == 0
    assert json.loads((tmp_path / "made.json").read_text())["traceEvents"]
    ended(2, ["export", str(made), "--manager", "system", "caching"])
    assert main(["generate", "phases", "--kept", "2", "-o", str(made)]) == 1
    assert "kept=2" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["summary", "replay", "compare", "min-capacity", "export"])
def test_files_that_are_no_traces(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.flmt"
    wrong.write_bytes(b"FLMT1\n{}")
    assert main([command, str(wrong)]) == 1
    assert f"fl-memory {command}: " in capsys.readouterr().err
    assert main([command, str(tmp_path / "absent.flmt")]) == 1
    assert "absent.flmt" in capsys.readouterr().err
    assert main([command, ALEXNET, "--max-rows", "800"]) == 1
    assert "809 rows" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["wrong.flmt"]


OUTSIDE = """
from fl_memory.managers.caching import CachingManager
from fl_memory import AccountingManager

class Passes(CachingManager):
    CONTRACT = (1, 0)
    def __init__(self, *memories, **options):
        super().__init__(*memories, **options)

class Unfinished(AccountingManager):
    CONTRACT = (1, 0)
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nobody", "nobody"),
        ("caching,limit", "NAME[,KEY=VALUE...]"),
        ("caching,no_such_argument=3", "no_such_argument"),
        ("caching,split_limit=3", "split_limit=3: a limit of 3 bytes is too small"),
        ("outside_managers:Passes,no_such_argument=3", "no_such_argument"),
        ("outside_managers:Unfinished", "abstract"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "compare"])
def test_managers_that_do_not_exist(
    command: str,
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "outside_managers.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    ended(2, [command, ALEXNET, "--manager", text])
    assert message in capsys.readouterr().err


def test_managers_with_arguments() -> None:
    assert manager("caching,small_bytes=1KiB")().small_bytes == 1024
    assert manager("system")().name == "system"
    assert manager("fl_memory.managers.system:SystemManager")().name == "system"


def test_a_terminal_gets_a_progress_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    assert (
        list(progress(["a", "b"], 2, terminal)) == list(progress(["a", "b"], 2, file)) == ["a", "b"]
    )
    assert "0/2 a" in terminal.getvalue() and "1/2 b" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K") and file.getvalue() == ""


def test_sizes() -> None:
    assert [size(text) for text in ("0", "4096", "24MiB", "1.5GiB", "2k", "3 M")] == [
        0,
        4096,
        24 << 20,
        3 << 29,
        2048,
        3 << 20,
    ]
    assert size(str(2**60 + 1)) == 2**60 + 1
    for text in ("", "MiB", "-1", "3 apples", "1e9", "0x10"):
        with pytest.raises(ValueError, match="no size"):
            size(text)


# ------------------------------------------------------------------ record

PROGRAM = """\
import sys
import fl_memory as mem

def step(number):
    mem.mark("step", number)
    block = mem.current().alloc(10_000 * number, tag="batch")
    return block

kept = [step(number) for number in range(1, 4)]
kept.pop().free()
print(sys.argv[1:], mem.current().name)
"""


def record(
    folder: Path, program: str, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(PROGRAM + program)
    command = [sys.executable, "-m", "fl_memory", "record", *options]
    return subprocess.run(
        [*command, "--", "train.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def rows(trace: traces.Trace) -> list[tuple[str, int, int, str]]:
    return [
        (traces.KINDS[kind], nbytes, step, trace.tables["tag"][tag])
        for kind, nbytes, step, tag in trace.rows("kind", "nbytes", "step", "tag")
    ]


WHOLE = [
    ("mark", 1, 1, "step"),
    ("alloc", 10_000, 1, "batch"),
    ("mark", 2, 2, "step"),
    ("alloc", 20_000, 2, "batch"),
    ("mark", 3, 3, "step"),
    ("alloc", 30_000, 3, "batch"),
    ("free", 0, 3, ""),
]


def test_record(tmp_path: Path) -> None:
    options = ("--fact", "model=tiny", "-o", "run.flmt")
    done = record(tmp_path, "", "--epochs", "2", options=options)
    assert done.returncode == 0 and done.stdout == "['--epochs', '2'] caching\n", done.stderr
    trace = traces.read(tmp_path / "run.flmt")
    assert rows(trace)[:7] == WHOLE
    assert trace.facts["model"] == "tiny" and trace.facts["device"] == "cpu"
    assert "fl_memory" in trace.facts["versions"]
    assert str(tmp_path) not in (tmp_path / "run.flmt").read_bytes().decode("latin-1")
    assert done.stderr.startswith(f"run.flmt: {len(trace)} rows, ")


#: Also where this process ignores the signal, as in the background of a shell.
INTERRUPT = """import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)"""


@pytest.mark.parametrize(
    ("end", "status", "shown"),
    [
        ("raise ValueError('no convergence')", 1, "ValueError: no convergence"),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('gave up')", 1, "gave up"),
        ("mem.current().alloc(1 << 60)", 1, "OutOfMemoryError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM, ""),
        (INTERRUPT, 128 + signal.SIGINT, ""),
    ],
)
def test_the_trace_is_written_however_the_program_ends(
    end: str, status: int, shown: str, tmp_path: Path
) -> None:
    done = record(tmp_path, end)
    assert done.returncode == status and shown in done.stderr, done.stderr
    assert "cli/record.py" not in done.stderr and "runpy" not in done.stderr
    trace = traces.read(tmp_path / "train.flmt")
    assert rows(trace)[:7] == WHOLE
    if "1 << 60" in end:
        assert ("refuse", 1 << 60, 3, "") in rows(trace)


def test_a_module_is_recorded(tmp_path: Path) -> None:
    package = tmp_path / "project"
    package.mkdir()
    (package / "__main__.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "fl_memory", "record", "--", "-m", "project", "-x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "['-x'] caching\n", done.stderr
    assert rows(traces.read(tmp_path / "project.flmt"))[:7] == WHOLE


def test_a_manager_is_chosen_for_the_program(tmp_path: Path) -> None:
    program = "mem.current().alloc(5).free(); print(mem.current().small_bytes)\n"
    done = record(tmp_path, program, options=("--manager", "system", "--small-bytes", "0"))
    assert done.stdout == "[] system\n0\n", done.stderr
    assert record(tmp_path, "", options=("--manager", "nobody")).returncode == 2


def test_a_program_that_changes_its_manager(tmp_path: Path) -> None:
    program = "mem.use('system'); mem.current().alloc(77_777).free()\n"
    program += "with mem.use('caching'): mem.current().alloc(88_888)\n"
    assert record(tmp_path, program).returncode == 0
    sizes = [nbytes for kind, nbytes, *_ in rows(traces.read(tmp_path / "train.flmt"))]
    assert 77_777 in sizes and 88_888 in sizes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    program = "import os\nif os.fork() == 0: sys.exit(5)\nos.wait()\n"
    done = record(tmp_path, program)
    assert done.returncode == 0 and done.stderr.count("train.flmt") == 1, done.stderr
    assert rows(traces.read(tmp_path / "train.flmt"))[:7] == WHOLE


def test_a_long_program_is_recorded_in_part(tmp_path: Path) -> None:
    done = record(tmp_path, "", options=("--max-rows", "5"))
    assert done.returncode == 0 and "the first part of the run" in done.stderr
    trace = traces.read(tmp_path / "train.flmt")
    assert rows(trace) == WHOLE[:5] and trace.facts["truncated"] is True


def test_what_cannot_be_recorded_fails_before_the_program_runs(tmp_path: Path) -> None:
    for options in (("-o", "absent/run.flmt"), ("-o", ".")):
        done = record(tmp_path, "", options=options)
        assert done.returncode == 1 and "-o FILE" in done.stderr and done.stdout == ""
    command = [sys.executable, "-m", "fl_memory", "record"]
    for rest, status in ((["--", "absent.py"], 1), (["--"], 2), ([], 2)):
        done = subprocess.run([*command, *rest], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["train.py"]
