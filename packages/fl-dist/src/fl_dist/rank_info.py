"""Where this process stands in its job, as the launcher told it in environment variables.

Read are the variables of ``fl-dist run``, torchrun, MPI (MPICH, Open MPI) and SLURM, in this order.
``FL_DIST_STORE``, ``FL_DIST_TOKEN`` and ``FL_DIST_GENERATION`` complete what any of them says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fl_dist.errors import ArgumentError

#: Ports of SLURM jobs, which name none: 12,000 below the range that Linux gives to clients.
SLURM_PORTS = (20_000, 32_000)


@dataclass(frozen=True)
class RankInfo:
    """Plain data: what ``Communicator.join`` needs to find the others.

    rank, world_size        of this process, and of how many
    local_rank, local_size  the same among the ranks of this host
    node                    number of the host
    store                   URL of the store in which the ranks meet, ``"mpi:"`` under mpiexec
    token                   secret of the job; "" where the store is out of reach for others
    generation              how often the job was restarted
    job                     name of the job, for messages

    Raises ArgumentError for numbers that contradict each other.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    store: str = ""
    token: str = ""
    generation: int = 0
    job: str = ""

    def __post_init__(self) -> None:
        for name in ("rank", "world_size", "local_rank", "local_size", "node", "generation"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentError(f"[rank info] {name} {value!r}: expected an int")
        for rank, size in (("rank", "world_size"), ("local_rank", "local_size")):
            low, high = getattr(self, rank), getattr(self, size)
            if high < 1:
                raise ArgumentError(f"[rank info] {size} {high}: expected at least 1")
            if not 0 <= low < high:
                raise ArgumentError(
                    f"[rank info] {rank} {low} of {size} {high}: expected 0..{high - 1}"
                )
        if self.local_size > self.world_size:
            raise ArgumentError(
                f"[rank info] local_size {self.local_size} exceeds world_size {self.world_size}"
            )
        if self.node < 0 or self.generation < 0:
            raise ArgumentError(
                f"[rank info] node {self.node}, generation {self.generation}: expected at least 0"
            )

    def __repr__(self) -> str:  # without the token, which does not belong in a log
        of_host = f"local rank {self.local_rank} of {self.local_size} on node {self.node}"
        return (
            f"<RankInfo rank {self.rank} of {self.world_size}, {of_host}, store {self.store!r}, "
            f"generation {self.generation}>"
        )


def environment(variables: Mapping[str, str] | None = None) -> RankInfo:
    """The place of this process by ``variables`` (default: ``os.environ``); a world of one where
    no launcher has set any.

    Raises ArgumentError, naming the variables, where they contradict each other or where one of
    several that belong together is missing.
    """
    given = Variables(os.environ if variables is None else variables)
    readers = (fl_dist_run, torchrun, open_mpi, mpich, slurm)
    found = next((info for info in (reader(given) for reader in readers) if info), RankInfo())
    if given.get("FL_DIST_RANK") and given.get("RANK"):
        given.same("FL_DIST_RANK", "RANK")
        given.same("FL_DIST_WORLD_SIZE", "WORLD_SIZE")
    return replace(
        found,
        store=given.get("FL_DIST_STORE") or found.store,
        token=given.get("FL_DIST_TOKEN") or found.token,
        generation=given.number("FL_DIST_GENERATION", found.generation),
        job=given.get("FL_DIST_JOB") or found.job,
    )


def fl_dist_run(given: Variables) -> RankInfo | None:
    """Of ``fl-dist run``, or set by hand (a Kubernetes job)."""
    names = "FL_DIST_LOCAL_RANK", "FL_DIST_LOCAL_SIZE", "FL_DIST_NODE"
    return given.place("FL_DIST_RANK", "FL_DIST_WORLD_SIZE", *names)


def torchrun(given: Variables) -> RankInfo | None:
    """Of torchrun, whose agent may listen on MASTER_PORT itself: then the next port is ours."""
    info = given.place("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    if info is None:
        return None
    host = given.get("MASTER_ADDR")
    if host and not given.get("MASTER_PORT"):
        given.half("MASTER_ADDR", "MASTER_PORT")
    store = ""
    if host:
        taken = given.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = tcp_url(host, given.number("MASTER_PORT") + taken)
    restarts = given.number("TORCHELASTIC_RESTART_COUNT", 0)
    return replace(info, store=store, generation=restarts, job=given.get("TORCHELASTIC_RUN_ID"))


def open_mpi(given: Variables) -> RankInfo | None:
    """Of Open MPI's mpiexec."""
    stem = "OMPI_COMM_WORLD_"
    local = stem + "LOCAL_RANK", stem + "LOCAL_SIZE"
    info = given.place(stem + "RANK", stem + "SIZE", *local)
    return info and replace(info, store="mpi:")


def mpich(given: Variables) -> RankInfo | None:
    """Of MPICH's mpiexec and its relatives (Intel MPI, MVAPICH)."""
    info = given.place("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return info and replace(info, store="mpi:")


def slurm(given: Variables) -> RankInfo | None:
    """Of srun. A batch script has SLURM_PROCID as well, but no step: it is one process."""
    if not given.get("SLURM_STEP_ID"):
        return None
    size = "SLURM_STEP_NUM_TASKS" if given.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    info = given.place("SLURM_PROCID", size)
    if info is None:
        return None
    node = given.number("SLURM_NODEID", 0)
    counts = tasks_per_node(given.get("SLURM_STEP_TASKS_PER_NODE"))
    if counts and node >= len(counts):
        given.fail(f"SLURM_NODEID={node}", "SLURM_STEP_TASKS_PER_NODE")
    local_size = counts[node] if counts else 1
    local_rank = given.number("SLURM_LOCALID", 0) if counts else 0
    store, job = "", given.get("SLURM_JOB_ID")
    nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_JOB_NODELIST")
    if nodes and job:
        low, high = SLURM_PORTS
        number = given.number("SLURM_JOB_ID") * 16 + given.number("SLURM_STEP_ID")
        store = tcp_url(first_host(nodes), low + number % (high - low))
    return replace(
        info, local_rank=local_rank, local_size=local_size, node=node, store=store, job=job
    )


def tcp_url(host: str, port: int) -> str:
    """``tcp://host:port``, with brackets around an IPv6 address."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def first_host(nodes: str) -> str:
    """The first host of SLURM's compressed list: ``gpu[03-05,9],login`` begins with gpu03."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", re.split(r",(?![^\[]*\])", nodes)[0])


def tasks_per_node(text: str) -> list[int]:
    """SLURM's ``2(x3),1`` is [2, 2, 2, 1]."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts


class Variables:
    """Environment variables, read with errors that name them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        """The text; "" where it is not set."""
        return self._values.get(name, "").strip()

    def number(self, name: str, default: int | None = None) -> int:
        """The integer; ArgumentError where it is none, or not set and without a default."""
        text = self.get(name)
        if not text and default is not None:
            return default
        try:
            return int(text)
        except ValueError:
            raise ArgumentError(f"[environment] {name}={text!r}: expected an integer") from None

    def place(
        self, rank: str, size: str, local_rank: str = "", local_size: str = "", node: str = ""
    ) -> RankInfo | None:
        """The numbers behind these names; None where neither rank nor size is set."""
        if not self.get(rank) and not self.get(size):
            return None
        self.half(rank, size)
        self.half(local_rank, local_size)
        number, alone = self.number(rank), not self.get(local_rank)
        try:
            return RankInfo(
                rank=number,
                world_size=self.number(size),
                local_rank=self.number(local_rank, 0),
                local_size=self.number(local_size, 1),
                node=self.number(node, number if alone else 0),
            )
        except ArgumentError as error:
            shown = (f"{n}={self.get(n)}" for n in (rank, size, local_rank, local_size, node))
            set_ones = ", ".join(text for text in shown if not text.endswith("="))
            raise ArgumentError(f"[environment] {set_ones}: {error}") from None

    def half(self, first: str, second: str) -> None:
        """ArgumentError where only one of the two is set."""
        if bool(self.get(first)) != bool(self.get(second)):
            there, missing = (first, second) if self.get(first) else (second, first)
            raise ArgumentError(
                f"[environment] {there}={self.get(there)} is set and {missing} is not: a launcher "
                "sets both; set the missing one, or unset the other"
            )

    def same(self, first: str, second: str) -> None:
        """ArgumentError where two names of one number differ."""
        if self.get(second) and self.number(first) != self.number(second):
            self.fail(f"{first}={self.get(first)}", second)

    def fail(self, first: str, second: str) -> None:
        """The error of two variables that do not fit together."""
        raise ArgumentError(
            f"[environment] {first} contradicts {second}={self.get(second)}: two launchers speak "
            "(one started by the other?); unset the variables of one"
        )
