"""The communicator contract as data, pinned in ``contracts/dist-1.0.json``.

python -m fl_dist.contract [--check | --write | --freeze | --card]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fl_dist import arguments, communicator, derived, launch, objects, reducer, reduction, work
from fl_dist.arguments import TAG_LIMIT
from fl_dist.call import Call
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError, MismatchError, PeerError, ProgramError
from fl_dist.executor import Executor
from fl_dist.flight_recorder import Entry, FlightRecorder
from fl_dist.initialize import init
from fl_dist.rank_info import RankInfo, environment
from fl_dist.reducer import Reducer
from fl_dist.registry import REGISTRY
from fl_dist.store import Store, StoreError, open_store
from fl_dist.transport import Transport
from fl_dist.work import Work
from fl_memory import contract as pinned
from fl_memory.contract.cards import meanings, whole
from fl_memory.contract.series import Contract

CAPABILITIES = {
    "agreement": "ranks that disagree on a collective all get MismatchError and stay in step",
    "ordered": "reductions combine in rank order, to the bit",
}
#: The classes of the contract, and which of their data fields belong to it.
CLASSES: dict[type, tuple[str, ...]] = {
    Communicator: ("CONTRACT", "name"),
    Transport: (
        "ranks_are",
        "own_launcher",
        "thread_rule",
        "native_dtypes",
        "native_devices",
        "channel",
    ),
    Executor: ("capabilities", "timeout", "check_consistency"),
    Call: ("operation", "values", "parameters", "number", "options"),
    Work: (),
    Deadline: (),
    RankInfo: tuple(field.name for field in fields(RankInfo)),
    Store: (),
    Reducer: (),
    FlightRecorder: (),
    Entry: Entry.__slots__,
    DistError: (),
    DistTimeoutError: (),
    PeerError: (),
    MismatchError: (),
    ProgramError: (),
    StoreError: (),
}
#: What users and authors call, by module.
FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "fl_dist": (
        environment,
        init,
        work.wait_any,
        arguments.even_counts,
        objects.all_gather_object,
        objects.broadcast_object,
        reducer.average_gradients,
    ),
    "fl_dist.store": (open_store,),
    "fl_dist.launch": (launch.run, launch.check, launch.contexts, launch.in_threads, launch.shared),
    "fl_dist.reduction": (
        reduction.check,
        reduction.widen,
        reduction.combine,
        reduction.finish,
        reduction.fold,
    ),
    "fl_dist.derived": (
        derived.all_reduce,
        derived.all_reduce_many,
        derived.broadcast,
        derived.reduce,
        derived.all_gather,
        derived.all_gather_tensor,
        derived.reduce_scatter,
        derived.reduce_scatter_tensor,
        derived.gather,
        derived.scatter,
        derived.all_to_all,
        derived.barrier,
        derived.check_consistent,
        derived.compare_descriptions,
        derived.split,
    ),
    "fl_dist.reducer": (reducer.checked_plan, reducer.check_planned),
}
#: Members for devices with streams. They may change until they have run on one.
PROVISIONAL = ("Work.synchronize",)


def manifest() -> dict[str, Any]:
    """What the contract promises, generated from the classes."""
    return pinned.manifest(
        "dist",
        Communicator.CONTRACT,
        CLASSES,
        provisional=PROVISIONAL,
        group=REGISTRY.group,
        reductions=list(reduction.OPS),
        tag_limit=TAG_LIMIT,
        capabilities=CAPABILITIES,
        functions={
            f"{module}.{function.__name__}": {
                "kind": "function",
                "signature": pinned.signature_text(function),
            }
            for module, functions in FUNCTIONS.items()
            for function in functions
        },
    )


def descriptions() -> dict[str, str]:
    """What the page says: the docstrings, those of the modules of users and of authors above."""
    return {
        "": "\n\n".join(
            part.replace("``", "`")
            for part in (communicator.__doc__ or "").strip().split("\n\n")[1:]
        ),
        **meanings(CLASSES),
        **{
            f"functions.{module}.{function.__name__}": whole(function.__doc__)
            for module, functions in FUNCTIONS.items()
            for function in functions
        },
    }


PINNED = Contract(
    name="dist",
    folder=Path(__file__).resolve().parent / "contracts",
    build=manifest,
    descriptions=descriptions,
    module="fl_dist.contract",
    version_location="Communicator.CONTRACT in fl_dist/communicator.py",
)

if __name__ == "__main__":
    sys.exit(PINNED.main())
