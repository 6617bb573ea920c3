"""Random programs with control flow in control flow: on values and captured they give the same,
gradients included.

By default 40 small programs run, each on one backend. With ``FL_CONTROL_PROGRAMS=1000`` so many,
of greater depth, run on each."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.graph import Graph

BACKENDS = ("numpy", "jit", "acme")
COUNT = int(os.environ.get("FL_CONTROL_PROGRAMS", "0"))
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "acme-backend" / "src"
SIZE, STEPS, DEPTH = 3, 3, 3 if COUNT else 2


if COUNT:
    CASES = [(name, seed) for name in BACKENDS for seed in range(COUNT)]
else:
    CASES = [(BACKENDS[seed % 3], seed) for seed in range(40)]


def backend(name, monkeypatch):
    """Two of ours, and one in pure Python from outside, which knows nothing of control flow."""
    if name == "acme":
        monkeypatch.syspath_prepend(str(EXAMPLE))
        return pytest.importorskip("acme_backend").AcmeBackend()
    pytest.importorskip("fl_jit" if name == "jit" else "numpy")
    return name


# ---- programs ------------------------------------------------------------------------------------
# A program is a list of statements. A statement is a function of a list of vectors, the newest
# last, that gives one vector more. It sees vectors of the programs around it.


def program(rng, depth):
    statements = [statement(rng, depth) for _ in range(rng.randint(1, 4))]

    def run(values):
        values = list(values)
        for each in statements:
            values.append(each(values))
        return values[-1]

    return run


def statement(rng, depth):
    kinds = [unary, binary, product]
    if depth:
        kinds += [branch, branch, loop, sequence, sequence]
    return rng.choice(kinds)(rng, depth)


def pick(rng):
    """One of the values, mostly a new one: a function of their list."""
    place = rng.choice([1, 1, 1, 2, 3, 5])
    return lambda values: values[-min(place, len(values))]


def unary(rng, depth):
    f = rng.choice(
        [ft.tanh, ft.sin, lambda v: v * v * 0.5, lambda v: -v, lambda v: v[::-1], ft.absolute]
    )
    x = pick(rng)
    return lambda values: f(x(values))


def binary(rng, depth):
    f = rng.choice([ft.add, ft.subtract, ft.multiply, ft.maximum])
    x, y = pick(rng), pick(rng)
    return lambda values: ft.tanh(f(x(values), y(values)))


def product(rng, depth):
    x, y = pick(rng), pick(rng)
    return lambda values: ft.tanh(x(values) * ft.sum(y(values)) + 0.1)


def branch(rng, depth):
    x, level = pick(rng), rng.uniform(-0.5, 0.5)
    then, other = program(rng, depth - 1), program(rng, depth - 1)

    def run(values):
        def inside(body):
            return lambda v: body([*values, v])

        given = x(values)
        return ft.cond(ft.sum(given) > level, inside(then), inside(other), given)

    return run


def loop(rng, depth):
    x, level, body = pick(rng), rng.uniform(0.01, 1.0), program(rng, depth - 1)
    most = rng.randint(0, 3)

    def run(values):
        def test(v, n):
            return (ft.max(v) > -level) & (n < most)

        found, n = ft.while_loop(test, lambda v, n: (body([*values, v]), n + 1), (x(values), 0), 4)
        return found + n.astype("float64") * 0.1

    return run


def sequence(rng, depth):
    x, body, after = pick(rng), program(rng, depth - 1), program(rng, 0)
    reverse, steps = rng.random() < 0.4, rng.choice([0, 1, STEPS, STEPS])
    stacked, last = pick(rng), rng.random() < 0.5

    def run(values):
        row = stacked(values)
        rows = ft.stack([row * (i + 1.0) for i in range(STEPS)])[:steps]

        def step(carry, row):
            now = body([*values, carry["v"], row])
            return {"v": now, "n": carry["n"] + 1}, [after([row, now])]

        carry, (ys,) = ft.scan(step, {"v": x(values), "n": 0}, rows, reverse=reverse)
        return carry["v"] if last else ft.sum(ys, axis=0) + carry["v"] * 0.5

    return run


# ---- checks --------------------------------------------------------------------------------------


def gradients(run, operands, second):
    xs = [ag.Variable(x, requires_grad=True) for x in operands]
    y = ft.sum(run(xs))
    first = ag.grad(y, xs, create_graph=second, allow_unused=True)
    found = [y, *first]
    if second:
        known = [g for g in first if g is not None and g.requires_grad]
        if known:
            total = sum(ft.sum(ft.sin(g)) for g in known)
            found += ag.grad(total, xs, allow_unused=True)
    return [ft.zeros((SIZE,), dtype="float64") if v is None else v.tensor for v in found]


def assert_close(got, wanted):
    for i in range(max(len(got), len(wanted))):
        # What is not there, or None, has no gradient.
        a, b = [x[i].numpy() if i < len(x) else np.zeros(SIZE) for x in (got, wanted)]
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_captured_programs_are_the_programs(name, seed, monkeypatch):
    with ft.use(backend(name, monkeypatch)):
        check(seed)


def check(seed):
    rng = random.Random(seed)
    run = program(rng, rng.randint(1, DEPTH))
    values = np.random.default_rng(seed).standard_normal((4, SIZE))
    samples = [
        [ft.asarray(v.tolist(), dtype="float64") for v in pair] for pair in (values[:2], values[2:])
    ]
    second = seed % 5 == 0
    if seed % 2:
        captured = ft.compile(lambda *xs: gradients(run, xs, second), strict=True)
        for operands in (*samples, *samples):
            assert_close(captured(*operands), gradients(run, operands, second))
        assert captured.compiled_calls >= 3
        return
    with ft.trace() as graph:
        for x in samples[0]:
            graph.input(x)
        graph.output(run(samples[0]))
    read = Graph.from_json(graph.to_json())
    for operands in samples:
        wanted = gradients(run, operands, second)
        assert_close(gradients(lambda xs: read(*xs)[0], operands, second), wanted)
