"""``fl-dist run``: what the ranks are told, how they end, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "fl_dist", "run")


def gone(pid, seconds=10.0):
    """Whether the process ends within this time (a zombie of somebody else has ended)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def first_lines(process, count):
    return sorted(process.stdout.readline() for _ in range(count))


# ---- what the ranks see --------------------------------------------------------------------------


def test_lines_of_both_streams_are_printed_behind_the_rank_and_the_last_needs_no_end(launch):
    program = (
        "import os, sys\n"
        "r = os.environ['FL_DIST_RANK']\n"
        "print('out', r)\n"
        "print('ümlaut', end='')\n"
        "sys.stderr.write('err ' + r)\n"
    )
    status, out, err = launch(program, "-n", "2")
    assert status == 0
    assert sorted(out.splitlines()) == ["[0] out 0", "[0] ümlaut", "[1] out 1", "[1] ümlaut"]
    assert sorted(err.splitlines()) == ["[0] err 0", "[1] err 1"]


def test_every_rank_is_told_its_place_in_our_variables_and_in_those_of_torchrun(launch):
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    status, out, _ = launch(program, "-n", "3", "--communicator", "mpi", "--restarts", "2")
    assert status == 0
    told = [json.loads(line[4:]) for line in sorted(out.splitlines())]
    for rank, variables in enumerate(told):
        expected = {
            "FL_DIST_RANK": rank, "FL_DIST_WORLD_SIZE": 3, "FL_DIST_LOCAL_RANK": rank,
            "FL_DIST_LOCAL_SIZE": 3, "FL_DIST_NODE": 0, "FL_DIST_GENERATION": 0,
            "FL_DIST_COMMUNICATOR": "mpi", "RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": rank,
            "LOCAL_WORLD_SIZE": 3, "GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1",
            "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 2,
        }  # fmt: skip
        assert (
            expected.items()
            <= {n: v if not v.isdigit() else int(v) for n, v in variables.items()}.items()
        )
    for name in ("FL_DIST_STORE", "FL_DIST_TOKEN", "FL_DIST_JOB", "MASTER_PORT"):
        assert len({variables[name] for variables in told}) == 1
    assert len(told[0]["FL_DIST_TOKEN"]) == 32
    assert not Path(told[0]["FL_DIST_STORE"].removeprefix("file:")).exists()


def test_arguments_behind_the_script_are_its_own(launch):
    program = "import sys; print(sys.argv[1:])"
    _, out, _ = launch(program, "-n", "1", arguments=("-n", "7", "--restarts", "x"))
    assert out == "[0] ['-n', '7', '--restarts', 'x']\n"


def test_a_module_can_be_run(start):
    process = start("print(__name__)", *COMMAND, "-n", "1", "-m", "program")
    assert process.communicate(timeout=60)[0] == "[0] __main__\n"


def test_ranks_of_one_host_share_its_processors(launch):
    program = "import os; print(os.environ.get('OMP_NUM_THREADS'))"
    share = max(1, os.cpu_count() // 2)
    assert sorted(launch(program, "-n", "2")[1].split()) == sorted(
        f"[0] {share} [1] {share}".split()
    )
    assert launch(program, "-n", "1")[1] == "[0] None\n"
    assert launch(program, "-n", "1", variables={"OMP_NUM_THREADS": "9"})[1] == "[0] 9\n"


# ---- how it ends ---------------------------------------------------------------------------------


def test_the_first_failure_ends_all_and_gives_its_status(launch):
    program = (
        "import os, sys, time\nif os.environ['FL_DIST_RANK'] == '1': sys.exit(3)\ntime.sleep(600)\n"
    )
    begin = time.monotonic()
    status, _, err = launch(program, "-n", "3", "--grace", "0.5")
    assert status == 3
    assert time.monotonic() - begin < 30
    assert err.splitlines() == [
        "fl-dist run: rank 1 ended with status 3",
        "fl-dist run: killed, because they had not ended 0.5 s later: ranks 0, 2",
    ]


def test_a_killed_rank_is_named_with_its_signal_within_a_second(start):
    program = (
        "import os, signal, sys, time\n"
        "if os.environ['FL_DIST_RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(600)\n"
    )
    process = start(program, *COMMAND, "-n", "2", "--grace", "1", "program.py")
    assert process.stderr.readline() == "fl-dist run: rank 1 was killed by SIGKILL\n"
    assert process.poll() is None  # the other one still has its second
    assert process.wait(30) == 128 + signal.SIGKILL


def test_the_others_have_time_to_end_of_themselves(launch):
    program = (
        "import os, sys, time\n"
        "if os.environ['FL_DIST_RANK'] == '1': sys.exit(3)\n"
        "time.sleep(1)\n"
        "print('saved')\n"
        "sys.exit(4)\n"
    )
    status, out, err = launch(program, "-n", "2", "--grace", "60")
    assert (status, out) == (3, "[0] saved\n")
    assert "then rank 0 ended with status 4" in err


def test_a_stopped_rank_is_killed_as_well(launch):
    program = (
        "import os, signal, sys\n"
        "if os.environ['FL_DIST_RANK'] == '0': os.kill(os.getpid(), signal.SIGSTOP)\n"
        "sys.exit(1)\n"
    )
    status, _, err = launch(program, "-n", "2", "--grace", "0.5")
    assert status == 1
    assert "ranks 0" in err


def test_a_script_that_is_not_there_is_an_error_of_all(launch):
    status, _, err = launch("", "-n", "2", "nowhere.py")
    assert status == 2
    assert "nowhere.py" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-n", "0"), "-n: 0 is too small, at least 1"),
        (("-n", "two"), "-n: invalid integer value: 'two'"),
        ((), "-n"),
        (("-n", "2", "--min-ranks", "3"), "--min-ranks 3: expected at most -n 2"),
    ],
)
def test_a_wrong_call_is_a_usage_error(launch, options, message):
    status, out, err = launch("print('started')", *options)
    assert (status, out) == (2, "")
    assert message in err


# ---- signals, and what is left -------------------------------------------------------------------

CATCHES = (
    "import os, signal, sys, time\n"
    "def caught(number, frame):\n"
    "    print('caught', number, flush=True)\n"
    "    if sys.argv[1] == 'ends': sys.exit(0)\n"
    "signal.signal(signal.SIGINT, caught)\n"
    "signal.signal(signal.SIGTERM, caught)\n"
    "print('pid', os.getpid(), flush=True)\n"
    "while True: time.sleep(0.05)\n"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_forwarded_once_to_every_rank(start, number):
    process = start(CATCHES, *COMMAND, "-n", "2", "--restarts", "3", "program.py", "ends")
    first_lines(process, 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert sorted(out.splitlines()) == [f"[0] caught {number}", f"[1] caught {number}"]
    assert process.returncode == 128 + number
    assert "restart" not in err


def test_a_second_signal_kills(start):
    process = start(CATCHES, *COMMAND, "-n", "2", "--grace", "600", "program.py", "stays")
    pids = [int(line.split()[-1]) for line in first_lines(process, 2)]
    process.send_signal(signal.SIGINT)
    first_lines(process, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert all(gone(pid) for pid in pids)
    assert process.returncode == 128 + signal.SIGINT


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_no_rank_outlives_a_launcher_that_is_killed(start):
    process = start(CATCHES, *COMMAND, "-n", "2", "program.py", "stays")
    pids = [int(line.split()[-1]) for line in first_lines(process, 2)]
    process.kill()
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_what_a_rank_leaves_behind_is_killed(launch):
    program = (
        "import subprocess, sys\n"
        "for own in (False, True):\n"
        "    child = subprocess.Popen(['sleep', '600'], start_new_session=own)\n"
        "    print(child.pid)\n"
    )
    status, out, _ = launch(program, "-n", "1")
    assert status == 0
    pids = re.findall(r"\[0\] (\d+)", out)
    assert len(pids) == 2
    assert all(gone(pid, 0.1) for pid in pids)


def test_when_nobody_reads_the_output_the_ranks_end(start):
    program = "import os\nprint(os.getpid(), flush=True)\nwhile True: print('x' * 1000)\n"
    process = start(program, *COMMAND, "-n", "1", "program.py")
    pid = int(process.stdout.readline().split()[1])
    process.stdout.close()
    process.wait(30)
    assert gone(pid)
    process.stdout = None


# ---- restarts ------------------------------------------------------------------------------------

#: Counts to 6 in steps of one, saves after each; rank 1 fails at 3, once.
COUNTS = (
    "import os, signal, sys, time\n"
    "from pathlib import Path\n"
    "rank, size = int(os.environ['FL_DIST_RANK']), int(os.environ['FL_DIST_WORLD_SIZE'])\n"
    "generation = int(os.environ['FL_DIST_GENERATION'])\n"
    "saved = Path('saved')\n"
    "if generation == 0 and rank == 1:\n"
    "    while not saved.exists() or saved.read_text() != '3': time.sleep(0.01)\n"
    "    END\n"
    "step = int(saved.read_text()) if saved.exists() else 0\n"
    "while step < 6:\n"
    "    step += 1\n"
    "    if rank == 0:\n"
    "        Path('part').write_text(str(step))\n"
    "        os.replace('part', saved)\n"
    "    if step == 3 and generation == 0: time.sleep(600)\n"
    "print(f'{rank} of {size} in generation {generation}: {step}')\n"
)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 was killed by SIGKILL"),
        ("sys.exit(75)", "rank 1 asks for a restart (status 75)"),
        ("raise ValueError('bad sample')", "rank 1 ended with status 1"),
    ],
)
def test_a_restart_raises_the_generation_and_goes_on_from_what_was_saved(launch, end, words):
    program = COUNTS.replace("END", end)
    status, out, err = launch(program, "-n", "2", "--restarts", "2", "--grace", "0.5")
    assert status == 0
    assert sorted(out.splitlines()) == [
        "[0] 0 of 2 in generation 1: 6",
        "[1] 1 of 2 in generation 1: 6",
    ]
    assert f"fl-dist run: {words}\n" in err
    assert "fl-dist run: restart 1 of 2, 2 ranks here\n" in err


def test_with_min_ranks_a_restart_goes_on_without_the_killed_rank(launch):
    program = COUNTS.replace("END", "os.kill(os.getpid(), signal.SIGKILL)")
    options = ("-n", "2", "--restarts", "1", "--min-ranks", "1", "--grace", "0.5")
    status, out, err = launch(program, *options)
    assert (status, out) == (0, "[0] 0 of 1 in generation 1: 6\n")
    assert "restart 1 of 1, 1 ranks here" in err


def test_when_no_restart_is_left_the_status_of_the_last_failure_is_returned(launch):
    program = "import os, sys; sys.exit(40 + int(os.environ['FL_DIST_GENERATION']))"
    status, _, err = launch(program, "-n", "1", "--restarts", "2")
    assert status == 42
    assert err.count("restart ") == 2


# ---- several hosts -------------------------------------------------------------------------------


def hosts(start, port, program, *options):
    """The launchers of two hosts, both on this one."""
    return [
        start(
            program, *COMMAND, *options, "--nodes", "2", "--node", str(node),
            "--store", f"tcp://127.0.0.1:{port}", "program.py",
            variables={"FL_DIST_TOKEN": "secret"},
        )
        for node in (0, 1)
    ]  # fmt: skip


SUMS = (
    "import os, sys\n"
    "import fl_dist as dist, fl_tensor as ft\n"
    "info = dist.environment()\n"
    "if info.generation == 0 and info.rank == int(os.environ.get('FAILS', -1)):\n"
    "    os.kill(os.getpid(), 9)\n"
    "with dist.init('store_communicator:StoreCommunicator', timeout=60) as comm:\n"
    "    total = comm.all_reduce(ft.asarray([comm.rank + 1.0])).item()\n"
    "print(f'{info.rank}/{info.world_size} {info.local_rank}/{info.local_size}', end=' ')\n"
    "print(f'on {info.node}: {total}')\n"
)


def test_launchers_of_two_hosts_make_one_world(start, unused_port):
    first, second = hosts(start, unused_port, SUMS, "-n", "2")
    out = (
        second.communicate(timeout=60)[0].splitlines()
        + first.communicate(timeout=60)[0].splitlines()
    )
    assert sorted(out) == [
        "[0] 0/4 0/2 on 0: 10.0",
        "[1] 1/4 1/2 on 0: 10.0",
        "[2] 2/4 0/2 on 1: 10.0",
        "[3] 3/4 1/2 on 1: 10.0",
    ]
    assert first.returncode == second.returncode == 0


def test_a_failure_on_one_host_restarts_the_ranks_of_all(start, unused_port, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    options = ("-n", "1", "--restarts", "1", "--grace", "0.5")
    first, second = hosts(start, unused_port, SUMS, *options)
    results = [process.communicate(timeout=60) for process in (first, second)]
    assert [out for out, _ in results] == ["[0] 0/2 0/1 on 0: 3.0\n", "[1] 1/2 0/1 on 1: 3.0\n"]
    assert "rank 1 was killed by SIGKILL on host 1" in results[0][1]
    assert first.returncode == second.returncode == 0


def test_a_failure_without_restarts_left_is_the_status_of_all_launchers(
    start, unused_port, monkeypatch
):
    monkeypatch.setenv("FAILS", "0")
    processes = hosts(start, unused_port, SUMS, "-n", "1", "--grace", "0.5")
    assert [process.wait(60) for process in processes] == [137, 137]


@pytest.mark.parametrize(
    ("options", "token", "message"),
    [
        (
            ("--nodes", "2", "--node", "2", "--store", "tcp://127.0.0.1:1"),
            "t",
            "--node 2 of --nodes 2",
        ),
        (("--nodes", "2", "--store", "file:/x"), "t", "tcp://HOST:PORT of host 0"),
        (("--nodes", "2", "--store", "tcp://127.0.0.1:1"), "", "FL_DIST_TOKEN is not set"),
    ],
)
def test_hosts_that_cannot_meet_are_told_why(launch, options, token, message):
    status, _, err = launch("", "-n", "1", *options, variables={"FL_DIST_TOKEN": token})
    assert status == 1
    assert message in err
