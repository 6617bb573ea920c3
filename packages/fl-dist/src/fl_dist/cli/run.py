"""``fl-dist run``: start a script on N ranks of this host, watch them, restart them.

The first failure ends all: the others have a few seconds to end of themselves, then they are
killed. With ``--restarts`` they are started anew, with a higher generation. The status is that of
the rank that failed first, as a shell gives it (137 for SIGKILL); 75 is what a script returns that
only wants to be started again.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fl_dist.cli.children import Child, Children, describe, shell_status
from fl_dist.cli.nodes import Nodes, Place
from fl_memory.subcommands import at_least

#: Seconds that the others have to end of themselves after the first failure.
GRACE = 5.0


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = options()
    given = parser.parse_args(arguments)
    if (given.min_ranks or 1) > given.n:
        parser.error(f"--min-ranks {given.min_ranks}: expected at most -n {given.n}")
    if given.nodes == 1:
        return generations(given, None)
    token = os.environ.get("FL_DIST_TOKEN", "")
    with Nodes.meet(given.store, token, given.node, given.nodes) as nodes:
        return generations(given, nodes)


def generations(given: argparse.Namespace, nodes: Nodes | None) -> int:
    """One generation after the other, until one ends well or no restart is left."""
    count, status = given.n, 0
    for generation in range(given.restarts + 1):
        if generation:
            say(f"restart {generation} of {given.restarts}, {count} ranks here")
        with tempfile.TemporaryDirectory(prefix="fl-dist-") as folder:
            place = nodes.begin(generation, count) if nodes else single_host(given, count, folder)
            environments = {
                rank: environment_of(rank, place, generation, given) for rank in place.ranks
            }
            status, lost, told_to_end = one_generation(given, environments, nodes)
        if status == 0 or told_to_end:
            break
        count = max(given.min_ranks or count, count - lost)
    return status


def one_generation(
    given: argparse.Namespace, environments: Mapping[int, Mapping[str, str]], nodes: Nodes | None
) -> tuple[int, int, bool]:
    """Run the ranks of this host to their end: the status, how many of them a signal killed that
    is not ours, and whether the launcher itself was told to end."""

    def on_failure(child: Child) -> None:
        say(describe(child))
        if nodes:
            nodes.fail(shell_status(child), describe(child))

    with Children(command_of(given), environments, given.grace) as children:
        failed = children.watch(on_failure, nodes.failed if nodes else lambda: False)
    if len(failed) > 1:
        say("then " + ", ".join(map(describe, failed[1:])))
    if children.killed:
        ranks = ", ".join(map(str, children.killed))
        say(f"killed, because they had not ended {given.grace:g} s later: ranks {ranks}")
    lost = sum((child.status or 0) < 0 for child in failed)
    status = shell_status(failed[0]) if failed else 0
    if children.signalled:
        status = 128 + children.signalled
    if nodes:
        status, words = nodes.end(status)
        if status and not failed:
            say(words)
    return status, lost, bool(children.signalled)


def single_host(given: argparse.Namespace, count: int, folder: str) -> Place:
    """All ranks are here: they meet in a folder that nobody else may enter."""
    return Place(
        store=given.store or f"file:{Path(folder).resolve()}",
        token=os.environ.get("FL_DIST_TOKEN") or secrets.token_hex(16),
        job=secrets.token_hex(4),
        world_size=count,
        node=0,
        nodes=1,
        ranks=range(count),
        master=("127.0.0.1", free_port()),
    )


def environment_of(
    rank: int, place: Place, generation: int, given: argparse.Namespace
) -> dict[str, str]:
    """The variables of a rank: ours, and torchrun's for scripts that read those."""
    local_rank, local_size = rank - place.ranks.start, len(place.ranks)
    environment = dict(os.environ)
    if local_size > 1:  # as many threads as processors in all
        share = max(1, (os.cpu_count() or 1) // local_size)
        environment.setdefault("OMP_NUM_THREADS", str(share))
    if given.communicator:
        environment["FL_DIST_COMMUNICATOR"] = given.communicator
    environment.update(
        PYTHONUNBUFFERED="1",
        FL_DIST_RANK=str(rank),
        FL_DIST_WORLD_SIZE=str(place.world_size),
        FL_DIST_LOCAL_RANK=str(local_rank),
        FL_DIST_LOCAL_SIZE=str(local_size),
        FL_DIST_NODE=str(place.node),
        FL_DIST_STORE=place.store,
        FL_DIST_TOKEN=place.token,
        FL_DIST_GENERATION=str(generation),
        FL_DIST_JOB=place.job,
        RANK=str(rank),
        WORLD_SIZE=str(place.world_size),
        LOCAL_RANK=str(local_rank),
        LOCAL_WORLD_SIZE=str(local_size),
        GROUP_RANK=str(place.node),
        GROUP_WORLD_SIZE=str(place.nodes),
        MASTER_ADDR=place.master[0],
        MASTER_PORT=str(place.master[1]),
        TORCHELASTIC_RUN_ID=place.job,
        TORCHELASTIC_RESTART_COUNT=str(generation),
        TORCHELASTIC_MAX_RESTARTS=str(given.restarts),
    )
    return environment


def command_of(given: argparse.Namespace) -> list[str]:
    """What every rank runs: a script or a module under this interpreter."""
    if given.module:
        return [sys.executable, "-m", given.script, *given.arguments]
    return [sys.executable, given.script, *given.arguments]


def say(words: str) -> None:
    """A line of the launcher's own."""
    print(f"fl-dist run: {words}", file=sys.stderr, flush=True)


def free_port() -> int:
    """A port of this host that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def options() -> argparse.ArgumentParser:
    """The parser; what follows the script belongs to the script."""
    parser = argparse.ArgumentParser(
        prog="fl-dist run",
        description="Start a script on N ranks of this host. Their lines are printed behind "
        "[rank].",
        epilog="The script calls fl_dist.init(). A rank that returns status 75 asks for a restart.",
    )
    add = parser.add_argument
    add("-n", type=at_least(1), required=True, metavar="N", help="ranks on this host")
    add("--communicator", default="", metavar="C", help="sets FL_DIST_COMMUNICATOR")
    add("--restarts", type=at_least(0), default=0, metavar="K", help="start anew K times at most")
    add("--min-ranks", type=at_least(1), metavar="M",
        help="start anew without the ranks that a signal killed, but with M at least")  # fmt: skip
    add("--grace", type=float, default=GRACE, metavar="SECONDS",
        help="that the others have to end after the first failure, or after SIGINT or SIGTERM; "
        f"default {GRACE:g}")  # fmt: skip
    add("--nodes", type=at_least(1), default=1, metavar="M", help="hosts; run this on every one")
    add("--node", type=at_least(0), default=0, metavar="K", help="number of this host, from 0")
    add(
        "--store", default="", metavar="URL", help="tcp://HOST:PORT of host 0, where the hosts meet"
    )
    add("-m", dest="module", action="store_true", help="the script is the name of a module")
    add("script")
    add("arguments", nargs=argparse.REMAINDER)
    return parser
