"""A loop that reads nothing is run period by period; nobody can tell but by time and plans."""

from __future__ import annotations

import gc
import signal
import threading

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.traces import lazy
from fl_memory import OutOfMemoryError

ag = pytest.importorskip("fl_autograd", reason="gradients are those of fl-autograd")

SHAPE = (120, 100)
ROUNDS = 60


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.plans.background, backend.plans.policy.patience = False, 0
    with ft.use(backend):
        yield backend


@pytest.fixture
def ran(monkeypatch):
    """How many calls there were in each trace that was run."""
    found: list[int] = []
    run = lazy.Trace._run

    def watched(self):
        found.append(len(self.calls))
        run(self)

    monkeypatch.setattr(lazy.Trace, "_run", watched)
    return found


def normal(*shape, seed=1):
    x = ft.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    return x * 0.1


class Network:
    """Two layers and a normalisation."""

    def __init__(self):
        self.weights = normal(100, 150), normal(150, 100, seed=2)
        self.bias = normal(150, seed=3)
        ft.eval(*self.weights, self.bias)

    def __call__(self, x):
        h = ft.tanh(x @ self.weights[0] + self.bias)
        return ft.layer_norm(h @ self.weights[1])


def descend(network, x, rounds=ROUNDS, each=lambda x: None):
    for _ in range(rounds):
        x = x - 0.01 * network(x)
        each(x)
    return x


def longest_plan(backend):
    return max(len(plan.graph.nodes) for plan in ft.jit.plans(backend))


@pytest.mark.defect("N5")
def test_rounds_share_a_plan(jit, ran):
    network, x = Network(), normal(*SHAPE)
    ft.eval(x)
    ran.clear()
    for _ in range(4):
        descend(network, x).tolist()
    assert max(ran) < 100
    assert longest_plan(jit) < 100
    assert len(ft.jit.plans(jit)) <= 3


@pytest.mark.defect("N5")
def test_plans_are_those_of_a_loop_that_evaluates_each_round(jit, ran):
    x, layers = normal(*SHAPE), [Network() for _ in range(4)]

    def deep(x):
        for layer in layers:
            x = layer(x) + 1.0
        return x

    ft.eval(x)
    for _ in range(2):
        descend(deep, x, 20, ft.eval)
    count = len(ft.jit.plans(jit))
    ran.clear()
    descend(deep, x, 20).tolist()
    first = len(ran)
    descend(deep, x, 20).tolist()
    assert len(set(ran[first:-1])) == 1
    assert len(ft.jit.plans(jit)) <= count + 2


def test_the_last_round_has_no_plan_of_its_own(jit):
    """Although variables of the loop are gone when it runs."""
    start = normal(*SHAPE)
    ft.eval(start)

    def run():
        x = start
        for _ in range(ROUNDS):
            a = ft.sin(x) * 0.5
            b = ft.cos(x) + a
            x = x * 0.9 + a * b
        return x

    found = [np.asarray(run()) for _ in range(5)]
    assert len(ft.jit.plans(jit)) == 1
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exactly", [False, True], ids=["by default", "reproducible"])
def test_results_are_those_of_numpy(jit, exactly):
    with ft.use("numpy"):
        wanted = np.asarray(descend(Network(), normal(*SHAPE)))
    with ft.reproducible(exactly):
        network, x = Network(), normal(*SHAPE)
        for _ in range(5):
            np.testing.assert_allclose(
                np.asarray(descend(network, x)), wanted, rtol=1e-4, atol=1e-5
            )


def test_reproducible_results_do_not_depend_on_what_was_run_before():
    def results(warm):
        backend = JitBackend()
        backend.plans.background = False
        with ft.use(backend), ft.reproducible():
            network, x = Network(), normal(*SHAPE)
            for rounds in warm:
                descend(network, x, rounds).tolist()
            return [np.asarray(descend(network, x, rounds)) for rounds in (3, 12, ROUNDS, 5)]

    for found, wanted in zip(results([ROUNDS, 7, ROUNDS]), results([]), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.defect("N5")
def test_what_comes_before_and_after_has_traces_of_its_own(jit, ran):
    network, x = Network(), normal(*SHAPE)
    ft.eval(x)
    wanted = None
    for _ in range(4):
        ran.clear()
        y = ft.exp(ft.sin(x) * 0.1) + ft.cos(x)
        z = ft.sum(ft.square(descend(network, y)), 1)
        found = np.asarray(z)
        assert max(ran) < 100
        wanted = found if wanted is None else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_values_that_others_hold_are_there(jit):
    """Of any round, also of those that were over when it was found that they repeat."""
    network, x = Network(), normal(*SHAPE)
    with ft.use("numpy"):
        wanted = []
        descend(Network(), normal(*SHAPE), each=wanted.append)
    held = []
    descend(network, x, each=lambda x: held.append(x) if len(held) < 6 else None)
    for found, right in zip(held, wanted, strict=False):
        np.testing.assert_allclose(np.asarray(found), np.asarray(right), rtol=1e-4, atol=1e-5)


@pytest.mark.defect("N5")
def test_random_numbers_are_those_of_numpy(jit, ran):
    def walk():
        x, generator = ft.zeros(SHAPE), ft.Generator(7)
        for _ in range(ROUNDS):
            x = x * 0.9 + generator.normal(SHAPE) * 0.1
        return np.asarray(x)

    with ft.use("numpy"):
        wanted = walk()
    for _ in range(4):
        ran.clear()
        np.testing.assert_allclose(walk(), wanted, rtol=1e-4, atol=1e-5)
        assert len(ran) > 5


@pytest.mark.defect("N5")
def test_operands_die_on_the_way(jit):
    network, rng = Network(), np.random.default_rng(5)
    with fl_memory.use(type(fl_memory.get("system"))()) as manager:
        for _ in range(3):
            total = ft.zeros(SHAPE)
            for _ in range(ROUNDS):
                x = ft.asarray(rng.standard_normal(SHAPE).astype(np.float32))
                total = total * 0.9 + network(x)
            assert manager.stats().live_bytes < ROUNDS // 3 * x.nbytes
            total.tolist()
        del x, total, network  # whose weights are kept packed
    gc.collect()
    assert manager.stats().live_bytes == 0


LAYERS = 16


def test_layers_of_a_model_stay_together(jit, ran):
    networks = [Network() for _ in range(LAYERS)]
    x = normal(*SHAPE)
    ft.eval(x)
    for _ in range(3):
        ran.clear()
        y = x
        for network in networks:
            y = y - 0.01 * network(y)
        y.tolist()
        assert len(ran) == 1


@pytest.mark.parametrize("kind", ["layers", "recurrence"])
def test_a_training_step_stays_one_plan(jit, ran, kind):
    networks = [Network() for _ in range(LAYERS if kind == "layers" else 1)]
    weights = [ag.Variable(w, requires_grad=True) for n in networks for w in n.weights]
    for network, *own in zip(networks, weights[::2], weights[1::2], strict=True):
        network.weights = own
    x = normal(*SHAPE)
    ft.eval(x)
    for _ in range(3):
        ran.clear()
        y = ag.Variable(x)
        for network in networks * (LAYERS // len(networks)):
            y = y - 0.01 * network(y)
        loss = ft.mean(ft.square(y))
        loss.backward()
        for w in weights:
            w.tensor = w.tensor - 0.1 * w.grad.tensor
            w.grad = None
        ft.eval(*[w.tensor for w in weights])
        assert len(ran) == 1 and ran[0] > 300


def test_parts_of_a_layer_stay_together(jit, ran):
    """Heads or experts: they read the same input, and weights of their own."""
    experts, x = [Network() for _ in range(LAYERS)], normal(600, 100)
    ft.eval(x)
    for _ in range(3):
        ran.clear()
        h, total = ft.tanh(x), 0.0
        for expert in experts:
            total = total + ft.sigmoid(expert(h)) * 0.5
        total.tolist()
        assert len(ran) == 1


def test_updates_of_many_parameters_stay_together(jit, ran):
    weights = [normal(*SHAPE, seed=i) for i in range(40)]
    speeds = [ft.zeros(SHAPE) for _ in weights]
    ft.eval(*weights, *speeds)
    ran.clear()
    for i, w in enumerate(weights):
        speeds[i] = speeds[i] * 0.9 + w * 0.1
        weights[i] = w - speeds[i] * 0.01
    ft.eval(*weights, *speeds)
    assert len(ran) == 1


@pytest.mark.defect("N5", "N4")
def test_a_round_that_fails_fails_alone(jit):
    network, x = Network(), normal(*SHAPE)
    other = x * 2.0
    failing = ft.sqrt(ft.full((1 << 22, 1 << 20), 2.0))
    held = []
    with pytest.raises(OutOfMemoryError):
        descend(network, x + failing[0, :100], each=held.append)
    z = other + 1.0
    np.testing.assert_array_equal(np.asarray(z), np.asarray(x) * 2.0 + 1.0)
    for y in (held[0], held[-1], held[0]):
        with pytest.raises(OutOfMemoryError):
            y.tolist()
    np.testing.assert_array_equal(np.asarray(other), np.asarray(x) * 2.0)
    assert np.isfinite(np.asarray(descend(network, x))).all()


def test_control_c_in_a_round_loses_nothing(jit, monkeypatch):
    network, x = Network(), normal(*SHAPE)
    wanted = np.asarray(descend(network, x))
    run, left = lazy.Trace._run, [3]

    def interrupted(self):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        run(self)

    held = []
    monkeypatch.setattr(lazy.Trace, "_run", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        descend(Network(), x, each=held.append)
    assert signal.getsignal(signal.SIGINT) is before
    with ft.use("numpy"):
        rounds = []
        descend(Network(), normal(*SHAPE), each=rounds.append)
    for found, right in zip(held, rounds, strict=False):
        np.testing.assert_allclose(np.asarray(found), np.asarray(right), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(descend(network, x)), wanted, rtol=1e-4, atol=1e-5)


def test_threads_have_loops_of_their_own(jit):
    network, x = Network(), normal(*SHAPE)
    wanted = np.asarray(descend(network, x))
    found = []

    def work():
        with ft.use(jit):
            found.append(np.asarray(descend(network, x)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        np.testing.assert_allclose(each, wanted, rtol=1e-4, atol=1e-5)
