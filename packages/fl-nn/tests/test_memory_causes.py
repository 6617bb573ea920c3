"""What ``fl_memory.observe`` learns from a training step: operation, module, phase, step."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.causes import CURRENT
from fl_memory.managers.system import SystemManager


class Network(nn.Module):
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.heads = [nn.Linear(128, 32), nn.Linear(128, 32)]

    def forward(self, x):
        x = self.encoder(x)
        return ft.softmax(self.heads[0](x) + self.heads[1](x), axis=-1)


@pytest.fixture(autouse=True)
def manager():
    with mem.use(SystemManager(small_bytes=0)) as made, ft.use("numpy"):
        yield made


def keys(seen, *by):
    return {usage.key for usage in seen.allocated(*by)}


def test_every_request_of_a_step_has_operation_module_phase_and_step():
    model = Network()
    optimizer = nn.Adam(model.parameters(), lr=0.1)
    x = ft.ones((16, 64))
    with mem.observe() as seen, mem.cause():  # which ends the step of the mark, too
        mem.mark("step", 5)
        loss = ft.sum(model(x))
        loss.backward()
        optimizer.step()
        assert CURRENT.get() == mem.Cause(step=5)
    causes = {event.cause for event in seen.events if event.kind == "alloc"}
    assert all(cause and cause.operation and cause.phase and cause.step == 5 for cause in causes)
    found = keys(seen, "phase", "module", "operation")
    assert {
        ("forward", "encoder.0", "linear"),
        ("forward", "encoder.1", "relu"),
        ("forward", "heads.1", "linear"),
        ("forward", "Network", "add"),
        ("forward", "Network", "softmax"),
        ("forward", "", "sum"),
        ("backward", "heads.0", "linear"),
        ("backward", "encoder.1", "relu"),
        ("backward", "encoder.0", "linear"),
        ("backward", "Network", "softmax"),
    } <= found
    assert {module for phase, module, _ in found if phase == "update"} == {
        "encoder.0", "heads.0", "heads.1",
    }  # fmt: skip
    assert not {operation for _, _, operation in found} & {"exp", ""}


def test_a_loss_module_and_a_module_without_an_attribute_have_the_name_of_their_class():
    class Outer(nn.Module):
        def forward(self, x):
            return nn.Sequential(nn.ReLU())(x)

    with mem.observe() as seen:
        Outer()(ft.ones((64, 64)))
        nn.MeanSquaredError()(ft.ones((4, 4)), ft.zeros((4, 4)))
    modules = {module for (module,) in keys(seen, "module")}
    assert {"Outer.Sequential.0", "MeanSquaredError"} <= modules


def test_a_checkpointed_part_is_named_in_its_second_run_and_its_backward_pass():
    class Checkpointed(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(64, 64)

        def forward(self, x):
            return ag.checkpoint(self.inner, x)

    model = Checkpointed()
    with mem.observe() as seen:
        ft.sum(model(ft.ones((64, 64))) ** 2).backward()
    found = seen.allocated("phase", "module", "operation")
    blocks = {usage.key: usage.blocks for usage in found}
    assert blocks["forward", "inner", "linear"] == 2  # product and sum
    assert blocks["backward", "inner", "linear"] == 4  # again, and gradients of weight and bias


def test_a_module_in_its_constructor_has_the_name_of_its_class():
    with mem.observe() as seen:
        model = Network()
    assert keys(seen, "module", "tag") >= {("Network.Linear", "parameter")}
    assert {module for (module,) in keys(seen, "module")} == {"Network.Linear"}

    class Child(nn.Linear):
        def __init__(self):
            gate = nn.Linear(64, 64)
            super().__init__(64, 64)
            self.gate = gate
            self.scale = nn.Parameter(nn.init.constant((64,), 1.0))

    with mem.observe() as seen, mem.cause(module="outer") as outer:
        Child()
        assert CURRENT.get() == outer
    assert keys(seen, "module") == {("outer.Child",), ("outer.Child.Linear",)}
    del model


def test_what_surrounds_the_step_of_an_optimizer_belongs_to_the_update():
    model = Network()
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    ema = nn.EMA(model)
    scaler = nn.DynamicLossScaler()
    scaler.scale(ft.sum(model(ft.ones((16, 64))))).backward()
    tags = {}
    for name, call in {
        "unscale": lambda: scaler.unscale(optimizer),
        "norm": lambda: nn.clip_grad_norm_(model.parameters(), 1e-3),
        "value": lambda: nn.clip_grad_value_(model.parameters(), 1e-6),
        "average": ema.update,
    }.items():
        with mem.observe() as seen:
            call()
        assert keys(seen, "phase") == {("update",)}, name
        tags[name] = keys(seen, "tag")
    assert tags.pop("average") == {("state",)}
    assert list(tags.values()) == [{("gradient",)}] * 3


def test_the_mean_of_accumulated_gradients_belongs_to_the_update():
    model = Network()
    accumulation = nn.GradientAccumulation(nn.SGD(model.parameters(), lr=0.1), every=2)
    accumulation.backward(ft.sum(model(ft.ones((16, 64)))))
    with mem.observe() as seen:
        assert accumulation.flush()
    assert keys(seen, "phase") == {("update",)}
    assert {("gradient", "divide"), ("state", "subtract")} <= keys(seen, "tag", "operation")


def test_a_graph_that_was_recorded_before_is_named_by_operation_alone():
    model = nn.Linear(64, 64)
    loss = ft.sum(model(ft.ones((64, 64))))
    with mem.observe() as seen:
        loss.backward()
    found = keys(seen, "phase", "module", "operation")
    assert ("backward", "", "linear") in found
    assert {module for _, module, _ in found} == {""}


def test_the_cause_of_the_program_comes_back_after_a_failure():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("broken")

    with mem.observe(), mem.cause(module="mine") as outer:
        with pytest.raises(RuntimeError, match="broken"):
            nn.Sequential(Broken())(ft.ones((2, 2)))
        assert CURRENT.get() == outer
        x = ag.Variable(ft.ones((4, 4)), requires_grad=True)
        y = ft.sum(x * x)
        y.backward()
        with pytest.raises(ag.GraphFreedError):
            y.backward()
        assert CURRENT.get() == outer


def test_results_have_the_same_bits_and_nothing_stays_on():
    def train(model):
        optimizer = nn.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            ft.sum(model(ft.ones((8, 64))) ** 2).backward()
            optimizer.step()
        return [p.tensor.tolist() for p in model.parameters()]

    plain = Network()
    watched = Network()
    watched.load_state_dict(plain.state_dict())
    with mem.observe():
        assert ft.extend.current_stack() is not None
        found = train(watched)
    assert ft.extend.current_stack() is None
    assert ag.is_grad_enabled()
    assert found == train(plain)
