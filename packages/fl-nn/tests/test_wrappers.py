"""Wrappers over a whole training step: forward, backward and optimizer, in any nesting."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack

import pytest
from bits import same

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.graph import Graph


class Training:
    """A network, its optimizer and one batch; `step` trains once and returns the loss."""

    def __init__(self):
        ft.seed(3)
        self.model = nn.Sequential(
            nn.Conv2D(1, 4, 3, padding="same", bias=False),  # whose gradient were rounding alone
            nn.BatchNorm(4),
            nn.ReLU(),
            nn.Pool2D(2),
            nn.View((-1, 4 * 4 * 4)),
            nn.Linear(4 * 4 * 4, 10),
        )
        self.optimizer = nn.Adam(self.model.parameters(), lr=0.01)
        self.x = ft.randn((6, 1, 8, 8))
        self.y = ft.Generator(4).integers(0, 10, 6)

    def step(self):
        with ft.profile.range("forward"):
            loss = nn.cross_entropy(self.model(self.x), self.y)
        with ft.profile.range("backward"):
            self.optimizer.zero_grad()
            loss.backward()
        with ft.profile.range("optimizer"):
            self.optimizer.step()
        return loss

    def weights(self):
        return [p.tensor.tolist() for p in self.model.parameters()]


def passes(inner, x, y):
    return inner.add(x, y)


LAYERS = {
    "profile": ft.profile,
    "check": ft.check,
    "override": lambda: ft.override(add=passes),
    "count": ft.count,
    "trace": ft.trace,
}


ROTATED = [[*LAYERS][i:] + [*LAYERS][:i] for i in range(len(LAYERS))]


@pytest.mark.parametrize("order", ROTATED + [r[::-1] for r in ROTATED], ids="-".join)
def test_in_any_order_the_training_is_the_same_and_all_see_all_of_it(order):
    expected, training = Training(), Training()
    expected.step()
    entered = {}
    with ExitStack() as stack:
        for name in order:
            layer = LAYERS[name]()
            entered[name] = layer
            stack.enter_context(layer)
        training.step()
    assert same(training.weights(), expected.weights())
    counts = entered["count"]
    profiled = {row.operation: row.calls for row in entered["profile"].summary()}
    assert profiled == {name: counts[name] for name in counts.tallies}
    assert len(entered["trace"].graph.nodes) <= counts.total


def test_profile_of_a_step_shows_its_phases(tmp_path):
    training = Training()
    with ft.profile(tmp_path / "step.json") as p, ft.check(), ft.count() as counts:
        training.step()
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    phase = {e["name"]: e for e in spans if e["cat"] == "range"}
    assert list(phase) == ["forward", "backward", "optimizer"]

    def inside(name):
        start, end = phase[name]["ts"], phase[name]["ts"] + phase[name]["dur"]
        return {e["name"] for e in spans if start <= e["ts"] < end} - {name}

    assert {"conv", "relu", "max_pool", "linear"} <= inside("forward")
    assert {"conv_weight_gradient", "matmul"} <= inside("backward")
    assert {"sqrt", "subtract"} <= inside("optimizer")
    assert any(e["ph"] == "C" for e in events)
    assert counts["conv_weight_gradient"] == 1 and counts["conv_data_gradient"] == 0
    assert p.summary()[0].self_ms > 0


def test_count_gives_the_flops_of_a_step():
    x, model = ft.randn((5, 3)), nn.Linear(3, 4)
    with ft.count() as counts:
        model(x).sum().backward()
    forward = 2 * 5 * 3 * 4
    assert counts.flops == 2 * forward, "forward, and the gradient of the weight"


def test_check_points_at_the_backward_pass_and_the_line_that_started_it():
    x = ag.Variable(ft.asarray([0.0, 4.0]), requires_grad=True)
    y = ft.sqrt(x).sum()
    with pytest.raises(ft.NonFiniteError, match=r"\[divide\] infinity") as caught, ft.check():
        y.backward()  # infinite at 0
    assert "y.backward()  # infinite at 0" in str(caught.value)


def test_check_stops_a_training_that_diverges():
    training = Training()
    training.optimizer.lr = math.inf
    with pytest.raises(ft.NonFiniteError), ft.check():
        for _ in range(3):
            training.step()


def test_trace_of_a_step_computes_the_step_again():
    training = Training()
    named = [*training.model.named_parameters(), *training.model.named_buffers()]
    inputs = [x if isinstance(x, ft.Tensor) else x.tensor for _, x in named]
    inputs += [training.x, training.y]
    names = [*(name for name, _ in named), "x", "y"]
    with ft.trace() as graph:
        for name, tensor in zip(names, inputs, strict=True):
            graph.input(tensor, name)
        loss = training.step()
        graph.output(loss, *(p.tensor for p in training.model.parameters()))
    assert [v.name for v in graph.inputs] == names, "everything else was made in the block"
    again = Graph.from_json(graph.prune().to_json())
    assert len(again.nodes) < len(graph.nodes)
    replayed = again(*inputs, constants=True)  # Adam's numbers are those of this step
    assert replayed[0].item() == loss.item()
    assert [x.tolist() for x in replayed[1:]] == training.weights()


def test_gradients_flow_through_a_graph():
    x, w = ft.randn((4, 3)), ft.randn((3, 2))
    with ft.trace() as graph:
        graph.output(ft.softmax(ft.tanh(x @ w)).max(-1).sum())
    mine, theirs = (ag.Variable(w, requires_grad=True) for _ in range(2))
    (result,) = graph(ag.Variable(x), mine)
    result.backward()
    ft.softmax(ft.tanh(x @ theirs)).max(-1).sum().backward()
    assert ft.max(ft.absolute(mine.grad - theirs.grad)).item() < 1e-6
