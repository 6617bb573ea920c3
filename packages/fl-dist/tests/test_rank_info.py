"""Where a process stands, by the variables of every launcher."""

from __future__ import annotations

import pytest

import fl_dist as dist
from fl_dist import RankInfo, environment

FL_DIST = {
    "FL_DIST_RANK": "5", "FL_DIST_WORLD_SIZE": "6", "FL_DIST_LOCAL_RANK": "1",
    "FL_DIST_LOCAL_SIZE": "2", "FL_DIST_NODE": "2", "FL_DIST_STORE": "file:/tmp/job",
    "FL_DIST_TOKEN": "secret", "FL_DIST_GENERATION": "3", "FL_DIST_JOB": "j",
}  # fmt: skip
TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r",
    "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_USE_AGENT_STORE": "False",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "5", "SLURM_NTASKS": "99", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1", "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[03-05,9],login",
}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, RankInfo()),
        (FL_DIST, RankInfo(5, 6, 1, 2, 2, "file:/tmp/job", "secret", 3, "j")),
        (TORCHRUN, RankInfo(3, 4, 1, 2, 1, "tcp://10.0.0.1:29500", "", 2, "r")),
        (MPICH, RankInfo(1, 2, 1, 2, 0, "mpi:")),
        (OPEN_MPI, RankInfo(2, 4, 0, 2, 0, "mpi:")),
        (SLURM, RankInfo(4, 5, 0, 1, 2, "tcp://gpu03:20272", job="17")),
    ],
    ids=["none", "fl-dist run", "torchrun", "MPICH", "Open MPI", "SLURM"],
)
def test_each_launcher_is_understood(variables, expected):
    assert environment(variables) == expected


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    for name, value in FL_DIST.items():
        monkeypatch.setenv(name, value)
    assert environment() == environment(FL_DIST)


def test_store_token_and_generation_complete_any_launcher():
    own = {"FL_DIST_STORE": "file:/shared", "FL_DIST_TOKEN": "t", "FL_DIST_GENERATION": "7"}
    for launcher in (TORCHRUN, MPICH, OPEN_MPI, SLURM):
        info = environment({**launcher, **own})
        assert (info.store, info.token, info.generation) == ("file:/shared", "t", 7)
        assert info.rank == environment(launcher).rank


def test_the_port_after_that_of_a_torchrun_agent_which_listens_itself():
    agent = {**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "fe80::1"}
    assert environment(agent).store == "tcp://[fe80::1]:29501"


def test_rank_and_size_by_hand_put_every_rank_on_a_host_of_its_own():
    info = environment({"FL_DIST_RANK": "2", "FL_DIST_WORLD_SIZE": "3"})
    assert (info.local_rank, info.local_size, info.node) == (0, 1, 2)


def test_the_innermost_launcher_counts():
    both = {"FL_DIST_RANK": "0", "FL_DIST_WORLD_SIZE": "2", **MPICH, **SLURM}
    assert environment(both).rank == 0
    assert environment({**MPICH, **SLURM}).world_size == 2


def test_a_batch_script_of_slurm_is_one_process_and_no_rank():
    batch = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert environment(batch) == RankInfo()


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"FL_DIST_RANK": "0"}, ["FL_DIST_RANK=0", "FL_DIST_WORLD_SIZE is not"]),
        ({"WORLD_SIZE": "2"}, ["WORLD_SIZE=2", "RANK is not"]),
        ({**TORCHRUN, "LOCAL_RANK": ""}, ["LOCAL_WORLD_SIZE=2", "LOCAL_RANK is not"]),
        ({**TORCHRUN, "MASTER_PORT": ""}, ["MASTER_ADDR=10.0.0.1", "MASTER_PORT is not"]),
        ({"PMI_SIZE": "2"}, ["PMI_SIZE=2", "PMI_RANK is not"]),
        ({"FL_DIST_RANK": "one", "FL_DIST_WORLD_SIZE": "2"}, ["FL_DIST_RANK='one'", "integer"]),
        ({**FL_DIST, "FL_DIST_GENERATION": "x"}, ["FL_DIST_GENERATION='x'"]),
        ({"FL_DIST_RANK": "0", "FL_DIST_WORLD_SIZE": "0"}, ["FL_DIST_WORLD_SIZE=0", "at least 1"]),
        ({"RANK": "2", "WORLD_SIZE": "2"}, ["RANK=2", "WORLD_SIZE=2", "expected 0..1"]),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, ["LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2", "0..1"]),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "5"}, ["LOCAL_WORLD_SIZE=5", "exceeds world_size 4"]),
        ({**FL_DIST, **TORCHRUN}, ["FL_DIST_RANK=5", "RANK=3", "two launchers"]),
        ({**SLURM, "SLURM_NODEID": "9"}, ["SLURM_NODEID=9", "SLURM_STEP_TASKS_PER_NODE=2(x2),1"]),
    ],
)
def test_half_set_and_contradictory_variables_are_named(variables, named):
    with pytest.raises(dist.ArgumentError) as caught:
        environment(variables)
    for words in named:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(world_size=0), "world_size 0: expected at least 1"),
        (dict(rank=2, world_size=2), r"rank 2 of world_size 2: expected 0\.\.1"),
        (dict(rank=-1), "rank -1"),
        (dict(rank="0"), "rank '0': expected an int"),
        (dict(world_size=True), "world_size True"),
        (dict(world_size=2, local_rank=1), "local_rank 1 of local_size 1"),
        (dict(local_size=2), "local_size 2 exceeds world_size 1"),
        (dict(generation=-1), "generation -1"),
    ],
)
def test_a_place_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(dist.ArgumentError, match=message):
        RankInfo(**arguments)


def test_the_token_is_not_printed():
    assert "secret" not in repr(environment(FL_DIST)) + str(environment(FL_DIST))


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("host", "host"),
        ("a,b", "a"),
        ("n[7,9]", "n7"),
        ("n[001-128]", "n001"),
        ("r[1-2]n[3-4]", "r1n3"),
        ("n[1,3]-ib,x", "n1-ib"),
    ],
)
def test_the_first_host_of_a_list_of_slurm(nodes, first):
    found = environment({**SLURM, "SLURM_STEP_NODELIST": nodes})
    assert found.store == f"tcp://{first}:20272"
