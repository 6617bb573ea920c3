"""Random collective programs, and what the specification says that they give.

A program follows from its seed alone, so every rank and the test know it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_dist import semantics
from fl_dist.arguments import even_counts
from fl_dist.call import LIST_OPERATIONS, Call
from fl_dist.communicator import Communicator
from fl_dist.work import Work
from fl_tensor import Tensor

STEPS = 6
INTEGERS = ("int8", "int32", "int64", "uint8")
FLOATS = ("float16", "bfloat16", "float32", "float64")
OPERATIONS = """
    all_reduce all_reduce_many broadcast reduce all_gather all_gather_tensor reduce_scatter
    reduce_scatter_tensor gather scatter all_to_all barrier
""".split()
#: Relative to the sum of the absolute values, or to the product.
TOLERANCE = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 1e-6, "float64": 1e-13}


def available_dtypes() -> list[str]:
    """Those of ``INTEGERS`` and ``FLOATS`` that the backend in use has."""
    known = {str(dtype) for dtype in ft.current_backend().dtypes}
    return [name for name in (*INTEGERS, *FLOATS) if name in known]


class Step(NamedTuple):
    """One collective of a program.

    shapes    of the operands, per rank
    in_part   whether the ranks of equal parity make it in a part of their own
    """

    operation: str
    dtype: str
    shapes: list[list[tuple[int, ...]]]
    parameters: dict[str, Any]
    async_op: bool
    in_part: bool


def program(seed: int, world_size: int, dtypes: Sequence[str]) -> list[Step]:
    """The steps of program ``seed``, with operands of some of ``dtypes``."""
    source = random.Random(f"{seed} of {world_size}")
    return [_step(source, world_size, dtypes) for _ in range(STEPS)]


def _step(source: random.Random, world_size: int, dtypes: Sequence[str]) -> Step:
    operation = source.choice(OPERATIONS)
    dtype = source.choice(list(dtypes))
    in_part = world_size > 1 and operation == "all_reduce" and source.random() < 0.3
    shape = tuple(source.choice((0, 1, 2, 3, 5)) for _ in range(source.choice((0, 1, 1, 2, 3))))
    rows = shape or (3,)
    parameters: dict[str, Any] = {}
    if "reduce" in operation:
        ops = ["sum", "max", "min", "prod"] + ["mean"] * dtype.startswith(("float", "bfloat"))
        parameters["op"] = source.choice(ops)
    if operation in ("broadcast", "reduce", "gather", "scatter"):
        parameters["root"] = source.randrange(world_size)
    shapes: list[list[tuple[int, ...]]] = [[shape] for _ in range(world_size)]
    if operation == "all_reduce_many":
        shapes = [[shape, (), (4,)]] * world_size
    elif operation == "reduce_scatter":
        shapes = [[(r + 1, *shape[1:]) for r in range(world_size)]] * world_size
    elif operation == "all_to_all":
        shapes = [[(source.randrange(4), 2) for _ in range(world_size)] for _ in range(world_size)]
    elif operation == "scatter":
        mine: list[tuple[int, ...]] = [(source.randrange(4), 2) for _ in range(world_size)]
        shapes = [mine if r == parameters["root"] else [] for r in range(world_size)]
    elif operation == "all_gather_tensor":
        shapes = [[(source.randrange(5), *rows[1:])] for _ in range(world_size)]
        parameters["counts"] = None
        if source.random() < 0.5:
            parameters["counts"] = [its[0][0] for its in shapes]
    elif operation == "reduce_scatter_tensor":
        counts = [source.randrange(4) for _ in range(world_size)]
        if source.random() < 0.5:
            counts = list(even_counts(sum(counts), world_size))
        shapes = [[(sum(counts), *rows[1:])]] * world_size
        parameters["counts"] = counts
    elif operation == "barrier":
        shapes = [[] for _ in range(world_size)]
    return Step(operation, dtype, shapes, parameters, source.random() < 0.3, in_part)


def operands(seed: int, number: int, step: Step, rank: int) -> list[Tensor]:
    """What ``rank`` brings to step ``number``. Floats are exact in the dtype that they have."""
    source = random.Random(f"{seed} {number} {rank}")
    made = []
    for shape in step.shapes[rank]:
        size = reduce(mul, shape, 1)
        if step.dtype in FLOATS:
            wide = ft.asarray([source.uniform(-8, 8) for _ in range(size)], dtype="float64")
            values = wide.astype(ft.dtype(step.dtype))
        else:
            least = 0 if step.dtype.startswith("u") else -20
            values = ft.asarray([source.randint(least, 20) for _ in range(size)], dtype=step.dtype)
        made.append(ft.reshape(values, shape))
    return made


def run(comm: Communicator, seeds: Sequence[int], dtypes: Sequence[str]) -> list[list[Any]]:
    """Program after program: the result of every step, see ``_plain``."""
    part = comm.split(comm.rank % 2)
    assert part is not None
    found = []
    for seed in seeds:
        under_way = []
        for number, step in enumerate(program(seed, comm.world_size, dtypes)):
            xs = operands(seed, number, step, comm.rank)
            arguments: list[Any] = [xs or None] if step.operation in LIST_OPERATIONS else xs
            method = getattr(part if step.in_part else comm, step.operation)
            result = method(*arguments, **step.parameters, async_op=step.async_op)
            under_way.append(result)
        found.append([_plain(x.wait() if isinstance(x, Work) else x) for x in under_way])
    return found


def _plain(result: Any) -> Any:
    """``(dtype, shape, bytes)`` of each tensor of a result."""
    if result is None:
        return None
    several = result if isinstance(result, list) else [result]
    return [(str(x.dtype), x.shape, bytes(x.tobytes())) for x in several]


def wrong(seed: int, number: int, step: Step, found: Sequence[Any], exact: bool) -> str:
    """What is wrong with the results of all ranks, in words; empty when nothing is.

    Bits count, except for floating sums, means and products where the order is not ``exact``.
    """
    n = len(found)
    wanted = [_plain(x) for x in _specified(seed, number, step, n)]
    rounded = step.dtype in FLOATS and step.parameters.get("op") in ("sum", "mean", "prod")
    if exact or not rounded:
        for rank, (got, want) in enumerate(zip(found, wanted)):
            if got != want:
                return f"rank {rank}: got {got}, should be {want}"
        return ""
    precise = _specified(seed, number, step, n, lambda x: x.astype("float64"))
    scales = _specified(seed, number, step, n, lambda x: ft.absolute(x.astype("float64")))
    for rank, got in enumerate(found):
        if (got is None) != (wanted[rank] is None):
            return f"rank {rank}: got {got}, should be {wanted[rank]}"
        if got is not None and not _near(got, wanted[rank], precise[rank], scales[rank]):
            return f"rank {rank}: got {_values(got)}, should be about {precise[rank]}"
        if step.operation.startswith("all_reduce") and got != found[rank % 2 * step.in_part]:
            return f"rank {rank} has other bits"
    return ""


def _specified(
    seed: int,
    number: int,
    step: Step,
    world_size: int,
    convert: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[Any]:
    """The results of all ranks, of the converted operands, reduced in rank order."""
    groups = [list(range(world_size))]
    if step.in_part:
        groups = [list(range(parity, world_size, 2)) for parity in range(2)]
    results: list[Any] = [None] * world_size
    for ranks in groups:
        calls = []
        for r in ranks:
            values = tuple(convert(x) for x in operands(seed, number, step, r))
            calls.append(Call(step.operation, values, step.parameters))
        for r, result in zip(ranks, semantics.results(calls)):
            results[r] = result
    return results


def _near(got: Any, want: Any, precise: Any, scale: Any) -> bool:
    if [x[:2] for x in got] != [x[:2] for x in want]:  # dtype and shape
        return False
    several = precise if isinstance(precise, list) else [precise]
    scales = scale if isinstance(scale, list) else [scale]
    for values, exact, size in zip(_values(got), several, scales):
        limits = ft.reshape(size, (-1,)).tolist()
        for a, b, limit in zip(values, ft.reshape(exact, (-1,)).tolist(), limits):
            if not abs(a - b) <= TOLERANCE[got[0][0]] * limit:
                return False
    return True


def _values(plain: Any) -> list[list[float]]:
    made = [ft.frombytes(data, shape, ft.dtype(dtype)) for dtype, shape, data in plain]
    return [ft.reshape(x, (-1,)).astype("float64").tolist() for x in made]
