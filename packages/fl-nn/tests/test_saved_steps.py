"""Steps and models in files: the same training, and the same answers, without their code."""

from __future__ import annotations

import subprocess
import sys

import compiled_cases as steps
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

BACKENDS = [name for name in ft.available_backends() if name in ("numpy", "jit")]
#: Loads steps, and prints the bits of their losses. It cannot import what made them.
PROGRAM = """
import sys
for name in ("fl_nn", "fl_autograd"):
    sys.modules[name] = None
import fl_tensor as ft
ft.use(sys.argv[1])
for path, size in zip(sys.argv[2::2], sys.argv[3::2]):
    step, data = ft.load_graph(path), ft.Generator(2)
    for _ in range(4):
        x, y = data.normal((5, int(size))), data.integers(0, 3, (5,))
        print(bytes(step(x, y).tobytes()).hex())
"""


def bits(x):
    return bytes(x.tobytes()).hex()


def made(make, optimizer, size):
    ft.seed(0)
    model = make()
    optimizer = optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return model, nn.compile(step, model, optimizer, strict=True)


def batches(count, size, seed):
    data = ft.Generator(seed)
    return [(data.normal((5, size)), data.integers(0, 3, (5,))) for _ in range(count)]


@pytest.mark.parametrize("name", steps.OPTIMIZERS)
def test_every_optimizer_goes_on_with_the_same_bits(name, tmp_path):
    with ft.use("numpy"):
        _, step = made(steps.mlp, steps.OPTIMIZERS[name], 6)
        for x, y in batches(3, 6, 1):
            step(x, y)
        step.save(tmp_path / "step.flgraph")
        loaded = ft.load_graph(tmp_path / "step.flgraph")
        for x, y in batches(4, 6, 2):
            assert bits(loaded(x, y)) == bits(step(x, y))


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_process_goes_on_with_the_same_bits(backend, tmp_path):
    given, wanted = [], []
    # On jit each model is compiled twice here: two of them stand for all.
    names = steps.MODELS if backend == "numpy" else ("mlp", "convolutions")
    for name in names:
        make, size = steps.MODELS[name]
        with ft.use(backend):
            _, step = made(make, steps.OPTIMIZERS["Adam"], size)
            for x, y in batches(3, size, 1):
                step(x, y)
            given += [str(tmp_path / name), str(size)]
            step.save(given[-2])
            wanted += [bits(step(x, y)) for x, y in batches(4, size, 2)]
    command = [sys.executable, "-c", PROGRAM, backend, *given]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == wanted


def test_a_model_is_served_and_a_step_is_read_on(tmp_path):
    with ft.use("numpy"):
        model, step = made(steps.mlp, steps.OPTIMIZERS["Adam"], 6)
        ((x, y),) = batches(1, 6, 1)
        with pytest.raises(ft.FlError, match="has not been called yet|has not made the state"):
            step.save(tmp_path / "step.flgraph", x, y)
        step(x, y)
        step.save(tmp_path / "step.flgraph", x, y)
        loaded = ft.load_graph(tmp_path / "step.flgraph")
        assert loaded.numbers["optimizer.group0.lr"] == 0.01
        before = bits(loaded.state["0.weight"])
        loaded.numbers["optimizer.group0.lr"] = 0.0
        loaded(x, y)
        assert bits(loaded.state["0.weight"]) == before
        assert loaded.numbers["optimizer.0.step"] == 2

        model.eval()
        answer = nn.compile(model, strict=True)
        answer.save(tmp_path / "model.flgraph", x)
        served = ft.load_graph(tmp_path / "model.flgraph")
        assert bits(served(x)) == bits(served(x)) == bits(model(x))
        assert set(served.state) == set(model.state_dict()) - {"1.num_batches_tracked"}
        assert not served.numbers


def test_inner_values_of_a_model_have_names(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.last(ft.named(ft.tanh(self.first(x)), "hidden"))

    with ft.use("numpy"):
        model, step = made(Model, steps.OPTIMIZERS["SGD"], 6)
        ((x, y),) = batches(1, 6, 1)
        with ft.trace() as graph:
            loss = ft.mean(model(x) ** 2)
            loss.backward()
        assert "%hidden: float32(5, 4) = tanh(" in str(graph)
        step(x, y)
        step.save(tmp_path / "step.flgraph", x, y)
        loaded = ft.load_graph(tmp_path / "step.flgraph")
        part = ft.extract(loaded.graph, feeds=["argument0", "first.weight", "first.bias"],
                          fetches=["hidden"])  # fmt: skip
        (hidden,) = part(x, loaded.state["first.weight"], loaded.state["first.bias"])
        assert bits(hidden) == bits(ft.tanh(model.first(x)))
        weight = ft.asarray(loaded.state["first.weight"])
        (hidden,) = part(x, ag.Variable(weight, requires_grad=True), loaded.state["first.bias"])
        assert hidden.requires_grad
