"""One unchanged script under every launcher: the sums are those of the world it was started in."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys

import pytest

import fl_dist as dist

SCRIPT = (
    "import fl_dist as dist\n"
    "import fl_tensor as ft\n"
    "with dist.init(timeout=60) as comm:\n"
    "    total = comm.all_reduce(ft.asarray([comm.rank + 1.0])).item()\n"
    "    rows = comm.all_gather_tensor(ft.asarray([comm.rank]))\n"
    "    print(f'{comm.rank} of {comm.world_size} by {comm.name}: {total} {rows.tolist()}')\n"
)
COMMUNICATORS = ["processes", "store_communicator:StoreCommunicator"]


def lines(communicator, world_size=2):
    """What the ranks print, sorted."""
    name = communicator.rpartition(":")[2].replace("StoreCommunicator", "store")
    total, rows = world_size * (world_size + 1) / 2, list(range(world_size))
    return [f"{r} of {world_size} by {name}: {total} {rows}" for r in range(world_size)]


def mpiexec():
    """The mpiexec of the path or of the ``mpich`` wheel; None where there is none."""
    try:
        files = importlib.metadata.files("mpich") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    return shutil.which("mpiexec") or next(
        (str(f.locate()) for f in files if f.name == "mpiexec"), None
    )


def missing(*packages):
    """Whether one of them is not installed; FL_REQUIRED names those that must be."""
    required = os.environ.get("FL_REQUIRED", "").split()
    return any(importlib.util.find_spec(p) is None for p in packages if p not in required)


NO_MPIEXEC = pytest.mark.skipif(
    mpiexec() is None and "mpich" not in os.environ.get("FL_REQUIRED", "").split(),
    reason="there is no mpiexec",
)


def finish(*processes):
    """What all ranks say, sorted; the processes must have ended well. mpiexec prints lines of two
    ranks as one now and then."""
    results = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), results
    return sorted(said for out, _ in results for said in re.findall(r"\d+ of .*?\]", out))


def test_alone_it_is_local(start):
    assert finish(start(SCRIPT, sys.executable, "program.py")) == lines("local", 1)


@pytest.mark.parametrize("communicator", COMMUNICATORS)
def test_fl_dist_run(launch, communicator):
    status, out, err = launch(SCRIPT, "-n", "2", "--communicator", communicator)
    assert status == 0, err
    assert [line[4:] for line in sorted(out.splitlines())] == lines(communicator)


@pytest.mark.parametrize("communicator", COMMUNICATORS)
@NO_MPIEXEC
def test_mpiexec_with_a_store(start, tmp_path, communicator):
    variables = {"FL_DIST_STORE": f"file:{tmp_path}/store", "FL_DIST_COMMUNICATOR": communicator}
    command = (mpiexec(), "-n", "2", sys.executable, "program.py")
    assert finish(start(SCRIPT, *command, variables=variables)) == lines(communicator)


@NO_MPIEXEC
@pytest.mark.skipif("mpi" not in dist.communicators(), reason="there is no communicator 'mpi'")
@pytest.mark.skipif(missing("mpi4py"), reason="mpi4py is not installed")
def test_mpiexec_meets_through_mpi(start):
    command = (mpiexec(), "-n", "2", sys.executable, "program.py")
    assert finish(start(SCRIPT, *command)) == lines("mpi")


@pytest.mark.parametrize("communicator", COMMUNICATORS)
@pytest.mark.skipif(missing("torch"), reason="torchrun is not installed")
def test_torchrun(start, communicator):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    process = start(
        SCRIPT, *torchrun, "--standalone", "program.py",
        variables={"FL_DIST_COMMUNICATOR": communicator},
    )  # fmt: skip
    assert finish(process) == lines(communicator)


@pytest.mark.parametrize("communicator", COMMUNICATORS)
def test_the_variables_of_srun(start, unused_port, communicator):
    """Two tasks on two "hosts", both of which are this one."""
    processes = [
        start(
            SCRIPT, sys.executable, "program.py",
            variables={
                "SLURM_JOB_ID": str(unused_port), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
                "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": str(rank),
                "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "localhost",
                "FL_DIST_COMMUNICATOR": communicator,
            },
        )
        for rank in range(2)
    ]  # fmt: skip
    assert finish(*processes) == lines(communicator)


@pytest.mark.parametrize("communicator", COMMUNICATORS)
def test_the_variables_of_a_kubernetes_job(start, unused_port, communicator):
    processes = [
        start(
            SCRIPT, sys.executable, "program.py",
            variables={
                "FL_DIST_RANK": str(rank), "FL_DIST_WORLD_SIZE": "3", "FL_DIST_TOKEN": "secret",
                "FL_DIST_STORE": f"tcp://127.0.0.1:{unused_port}",
                "FL_DIST_COMMUNICATOR": communicator,
            },
        )
        for rank in range(3)
    ]  # fmt: skip
    assert finish(*processes) == lines(communicator, 3)


# ---- what goes wrong -----------------------------------------------------------------------------


def failures(start, *variables, communicator="processes", timeout=60):
    """The last line that each of these ranks writes; all must have failed, and none hung."""
    script = SCRIPT.replace("timeout=60", f"timeout={timeout}")
    processes = [
        start(
            script, sys.executable, "program.py",
            variables={"FL_DIST_COMMUNICATOR": communicator, **own},
        )
        for own in variables
    ]  # fmt: skip
    results = [process.communicate(timeout=100) for process in processes]
    assert all(process.returncode == 1 for process in processes), results
    return [err.strip().splitlines()[-1] for _, err in results]


def place(rank, size, store, **others):
    return {
        "FL_DIST_RANK": str(rank),
        "FL_DIST_WORLD_SIZE": str(size),
        "FL_DIST_STORE": store,
        **others,
    }


@pytest.mark.parametrize("scheme", ["file", "tcp"])
class TestBadInput:
    @pytest.fixture
    def store(self, scheme, tmp_path, unused_port):
        return f"file:{tmp_path}/store" if scheme == "file" else f"tcp://127.0.0.1:{unused_port}"

    def test_another_token(self, start, store):
        first, second = failures(
            start,
            place(0, 2, store, FL_DIST_TOKEN="right"), place(1, 2, store, FL_DIST_TOKEN="wrong"),
            timeout=4,
        )  # fmt: skip
        assert "rank 1 of 2 did not come" in first
        assert "another token than" in second

    def test_a_rank_twice(self, start, store):
        ranks = [place(rank, 3, store) for rank in (0, 1, 1)]
        for line in failures(start, *ranks):
            assert "rank 1 was started twice: rank 1 (process " in line

    def test_rank_0_twice(self, start, store):
        """As two jobs do that meet in one place at the same time."""
        lines = failures(start, place(0, 2, store), place(0, 2, store), timeout=3)
        found = [bool(re.search("started twice|exists already, made by", line)) for line in lines]
        assert any(found)
        assert all(now or "rank 1 of 2 did not come" in line for now, line in zip(found, lines))

    def test_a_rank_that_never_starts(self, start, store):
        ranks = [place(rank, 3, store) for rank in (0, 2)]
        for line in failures(start, *ranks, timeout=3):
            assert "rank 1 of 3 did not come" in line

    def test_rank_0_never_starts(self, start, store):
        (line,) = failures(start, place(1, 2, store), timeout=1)
        assert "DistTimeoutError" in line and "rank 0" in line

    def test_world_sizes_that_differ(self, start, store):
        ranks = [place(0, 2, store), place(1, 3, store)]
        for line in failures(start, *ranks):
            assert "the ranks differ in the world size: 2 in rank 0 " in line


def test_a_world_of_size_0(start):
    (line,) = failures(start, place(0, 0, "file:/x"))
    assert "FL_DIST_WORLD_SIZE=0" in line


def test_two_jobs_in_one_folder(start, tmp_path):
    store = f"file:{tmp_path}/store"
    with dist.open_store(store, server=True):  # of the first job
        lines = failures(start, place(0, 2, store))
    assert "exists already, made by process " in lines[0]


def test_a_communicator_whose_ranks_are_threads(start):
    (line,) = failures(start, place(0, 2, "file:/x"), communicator="threads")
    assert "the ranks of 'threads' are threads of one process" in line


def test_no_store(start):
    (line,) = failures(start, {"FL_DIST_RANK": "0", "FL_DIST_WORLD_SIZE": "2"})
    assert "FL_DIST_STORE sets it" in line


def test_an_unknown_communicator(start):
    (line,) = failures(start, place(0, 2, "file:/x"), communicator="nccll")
    assert "no communicator named 'nccll'; there are: " in line
