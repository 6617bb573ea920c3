"""Bytes per rank at the stages of Sharded: those of the formulas of ZeRO, by fl-memory."""

from __future__ import annotations

import gc
import time

import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_dist.group import Group
from fl_memory.managers.system import SystemManager
from fl_nn import parallel

SIZE, LAYERS = 192, 6
UNIT = 4 * (SIZE * SIZE + SIZE)  # bytes of the parameters of one layer
P = LAYERS * UNIT


def messages_only(comm):
    """The same ranks with collectives made of messages: unlike those of `threads`, they share no
    result, and each rank makes its own, as processes do."""
    return Group(comm, range(comm.world_size), 1) if comm.world_size > 1 else comm


def model():
    return nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(LAYERS)))


def train(network, step, zero_grad):
    """Two steps. The gradients of the second are held."""
    for _ in range(2):
        zero_grad()
        x = ft.ones((2, SIZE))
        ft.mean(network(x)).backward()
        step()
    del x


def plain():
    with mem.use(SystemManager()):
        network = model()
        optimizer = nn.Adam(network.parameters())
        train(network, optimizer.step, optimizer.zero_grad)
        return mem.current().stats().live_bytes


def sharded(comm, stage):
    """The messages of `threads` are cycles, and helper threads end when they may."""
    settled = []
    with mem.use(SystemManager()):
        made = sharded_steps(messages_only(comm), stage)
        for _ in range(5):
            comm.barrier()
            gc.collect()
            time.sleep(0.02)
            settled.append(mem.current().stats().live_bytes)
        del made
    return min(settled)


def sharded_steps(comm, stage):
    network = model()
    optimizer = nn.Adam(network.parameters())
    made = parallel.Sharded(comm, network, optimizer, stage)
    train(network, made.step, made.zero_grad)
    return made


def sharded_alone(comm, stage):
    """Of ranks that have nothing of one another, and nothing to collect."""
    gc.disable()
    with mem.use(SystemManager()):
        made = sharded_steps(comm, stage)
        comm.barrier()
        live = mem.current().stats().live_bytes
        assert made.model is not None
        return live


FORMULAS = {
    1: lambda n: 2 * P + 2 * P / n,
    2: lambda n: P + 3 * P / n,
    3: lambda n: 4 * P / n,
}


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_a_plain_step_leaves_16_bytes_for_each_parameter(backend):
    pytest.importorskip("fl_jit") if backend == "jit" else None
    with ft.use(backend):
        assert plain() == pytest.approx(4 * P, rel=0.05)


@pytest.mark.parametrize("backend", ["numpy", "jit"])
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_live_bytes_are_those_of_the_formula(stage, ranks, backend):
    pytest.importorskip("fl_jit") if backend == "jit" else None
    with ft.use(backend):
        for found in dist.threads.run(ranks, sharded, stage):
            assert found == pytest.approx(FORMULAS[stage](ranks), rel=0.05)


class Watched(nn.Linear):
    """Notes the live bytes while it is whole, forward and backward."""

    forward_bytes: list[int]
    backward_bytes: list[int]

    def forward(self, x):
        y = super().forward(x)
        if ag.is_grad_enabled():
            x = x if isinstance(x, ag.Variable) else y
            x.register_hook(lambda g: self.note(self.backward_bytes))
        self.note(self.forward_bytes)
        return y

    def note(self, kept):
        kept.append(mem.current().stats().live_bytes)


def whole(comm):
    """The live bytes in each layer in a step, forward and backward; of ranks that have nothing of
    one another, and nothing to collect."""
    gc.disable()
    with mem.use(SystemManager()):
        network = nn.Sequential(*(Watched(SIZE, SIZE) for _ in range(LAYERS)))
        kept = [], []
        for layer in network:
            layer.forward_bytes, layer.backward_bytes = kept
        optimizer = nn.Adam(network.parameters())
        made = parallel.Sharded(comm, network, optimizer, 3)
        train(network, made.step, made.zero_grad)
        kept[0].clear()
        kept[1].clear()
        made.zero_grad()
        ft.mean(network(ft.ones((2, SIZE)))).backward()
        return kept
