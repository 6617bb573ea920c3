"""nn.compile: the same training, by a graph."""

from __future__ import annotations

import copy
import signal

import pytest
from compiled_cases import MODELS, OPTIMIZERS, mlp

import fl_autograd as ag
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn.step_slots import AssignValue


@pytest.fixture(autouse=True)
def numpy():
    with ft.use("numpy"):
        yield


def train(make, optimizer, compiled, steps=6, size=6, change=None, body=None):
    """Losses, state of the model, numbers of the optimizer, and the step."""
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

    if body is not None:
        step = body(model, optimizer)
    call = nn.compile(step, model, optimizer) if compiled else step
    data, losses = ft.Generator(1), []
    for i in range(steps):
        if change is not None:
            change(i, model, optimizer)
        x, y = data.normal((5, size)), data.integers(0, 3, (5,))
        losses.append(call(x, y).item())
    state = {name: value.numpy().tobytes() for name, value in model.state_dict().items()}
    return losses, state, optimizer.state_dict()["numbers"], call


def same(one, other, compiled_calls=None):
    assert one[0] == other[0], "losses"
    assert one[1] == other[1], "parameters and buffers"
    assert one[2] == other[2], "numbers of the optimizer"
    step = other[3]
    wanted = step.calls - 1 if compiled_calls is None else compiled_calls
    assert step.compiled_calls == wanted, step.explain()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_has_the_bits_of_eager_steps(name):
    def schedule(i, model, optimizer):
        optimizer.lr = 0.1 / (1 + i)

    runs = [train(mlp, OPTIMIZERS[name], compiled, change=schedule) for compiled in (False, True)]
    same(*runs)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_the_bits_of_eager_steps(name):
    make, size = MODELS[name]
    runs = [train(make, OPTIMIZERS["Adam"], c, size=size) for c in (False, True)]
    same(*runs)


@pytest.mark.skipif("jit" not in ft.available_backends(), reason="fl-jit is not installed")
@pytest.mark.parametrize("name", MODELS)
def test_plans_of_jit_agree_with_eager_steps(name):
    make, size = MODELS[name]
    with ft.use("jit"):
        eager, compiled = (train(make, OPTIMIZERS["Adam"], c, 5, size) for c in (False, True))
    assert compiled[3].compiled_calls == 4, compiled[3].explain()
    assert compiled[0] == pytest.approx(eager[0], rel=5e-7)


def test_a_step_may_have_the_name_of_something_in_its_code():
    """In a script the compiled step is a global, and the code says ``optimizer.step()``."""
    program = """
def train_step(x):
    optimizer.zero_grad()
    loss = ft.mean(model(x) ** 2)
    loss.backward()
    optimizer.step()
    return loss

step = nn.compile(train_step)
for _ in range(3):
    step(ft.ones((2, 3)))
"""
    model = nn.Linear(3, 2)
    scope = {"nn": nn, "ft": ft, "model": model, "optimizer": nn.Adam(model.parameters())}
    exec(program, scope)
    assert scope["step"].compiled_calls == 2, scope["step"].explain()


def test_schedules_count_on():
    def run(compiled):
        ft.seed(0)
        model = mlp()
        optimizer = nn.Adam(model.parameters(), 0.1)
        schedule = nn.CosineAnnealingLR(optimizer, 10)

        def step(x):
            optimizer.zero_grad()
            loss = ft.mean(model(x) ** 2)
            loss.backward()
            optimizer.step()
            return loss

        call = nn.compile(step, model, optimizer, strict=True) if compiled else step
        losses = []
        for i in range(8):
            losses.append(call(ft.Generator(i).normal((4, 6))).item())
            schedule.step()
        return losses, optimizer.lr

    assert run(True) == run(False)


def test_a_model_in_eval_mode_has_another_graph():
    def change(i, model, optimizer):
        model.train(i % 4 < 2)

    same(*[train(mlp, OPTIMIZERS["SGD"], c, 9, change=change) for c in (False, True)], 8)


def test_frozen_parameters_stay():
    def change(i, model, optimizer):
        model[0].freeze(i >= 3)

    same(*[train(mlp, OPTIMIZERS["Adam"], c, 7, change=change) for c in (False, True)])


def test_changed_values_and_settings_between_calls():
    def change(i, model, optimizer):
        if i == 3:
            model[4].bias.tensor = ft.ones((3,))
        if i == 4:
            optimizer.param_groups[0]["weight_decay"] = 0.1

    same(*[train(mlp, OPTIMIZERS["Adam"], c, 7, change=change) for c in (False, True)])


def test_load_state_dict_between_calls():
    kept = {}

    def change(i, model, optimizer):
        if i == 2:
            kept["model"], kept["optimizer"] = model.state_dict(), optimizer.state_dict()
        if i == 5:
            model.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])

    same(*[train(mlp, OPTIMIZERS["Adam"], c, 8, change=change) for c in (False, True)])


def test_gradients_accumulate_as_without():
    def body(model, optimizer):
        def step(x, y):
            for part in (slice(0, 2), slice(2, 5)):
                (nn.cross_entropy(model(x[part]), y[part]) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
            return nn.cross_entropy(model(x), y)

        return step

    same(*[train(mlp, OPTIMIZERS["SGD"], c, body=body) for c in (False, True)])


def test_gradients_from_before_are_never_lost():
    """A step that adds to them has no graph."""

    def body(model, optimizer):
        def step(x, y):
            loss = nn.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    runs = [train(mlp, OPTIMIZERS["SGD"], c, body=body) for c in (False, True)]
    assert runs[0][:2] == runs[1][:2]


def test_gradients_without_an_update_are_results():
    model = mlp()
    x, y = ft.Generator(0).normal((5, 6)), ft.asarray([0, 1, 2, 0, 1])

    def step(x, y):
        model.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        return loss

    model.eval()
    step(x, y)
    wanted = [p.grad.numpy().tobytes() for p in model.parameters()]
    compiled = nn.compile(step, model, strict=True)
    for _ in range(3):
        compiled(x, y)
        assert [p.grad.numpy().tobytes() for p in model.parameters()] == wanted
    assert compiled.compiled_calls == 2


def test_gradients_that_an_update_used_are_gone():
    """Those of an earlier eager call would be stale."""
    model = mlp()
    optimizer = nn.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        ft.mean(model(x) ** 2).backward()
        optimizer.step()

    compiled = nn.compile(step, strict=True)
    compiled(ft.ones((4, 6)))
    assert all(p.grad is not None for p in model.parameters())
    compiled(ft.ones((4, 6)))
    assert compiled.compiled_calls == 1
    assert all(p.grad is None for p in model.parameters())


def test_gradients_of_other_parameters_stay():
    """Those that the step neither uses nor forgets."""
    model, other = mlp(), nn.Linear(6, 3)
    ft.sum(other(ft.ones((2, 6)))).backward()
    wanted = other.weight.grad.numpy().tobytes()
    optimizer = nn.SGD(model.parameters(), 0.1)

    def step(x):
        with ag.no_grad():
            target = other(x)
        loss = ft.mean((model(x) - target) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    compiled = nn.compile(step, strict=True)
    for _ in range(5):
        compiled(ft.ones((4, 6)))
        assert other.weight.grad.numpy().tobytes() == wanted
    assert compiled.compiled_calls == 4


def test_no_grad_recaptures_and_anomaly_detection_runs_eagerly():
    model = mlp().eval()

    def step(x):
        return ft.sum(model(x))

    compiled = nn.compile(step, strict=True)
    x = ft.ones((4, 6))
    for _ in range(3):
        compiled(x)
    with ag.no_grad():
        compiled(x)
    with ag.detect_anomaly():
        compiled(x)
        compiled(x)
    assert (compiled.calls, compiled.compiled_calls) == (6, 2)


def test_mixed_precision():
    def body(model, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            with ag.autocast("O1"):
                loss = nn.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    same(*[train(mlp, OPTIMIZERS["Adam"], c, body=body) for c in (False, True)])


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_loss_scaler_skips_shrinks_and_grows_as_without(name):
    """A graph takes gradients for finite; where they are not, the step itself runs."""

    def run(compiled):
        ft.seed(0)
        model = mlp()
        optimizer = OPTIMIZERS[name](model.parameters())
        scaler = nn.DynamicLossScaler(2.0**18, growth_interval=4)

        def step(x, y):
            optimizer.zero_grad()
            with ag.autocast("O1"):
                loss = nn.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if scaler.unscale(optimizer):
                nn.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            return loss

        call = nn.compile(step, strict=True) if compiled else step
        draw, losses, states = ft.Generator(1), [], []
        for i in range(16):
            x, y = draw.normal((5, 6)), draw.integers(0, 3, (5,))
            losses.append(call(x / 0.0 if i in (8, 12) else x, y).item())
            states.append((scaler.state_dict(), optimizer.skips_next))
        values = {k: v.numpy().tobytes() for k, v in model.state_dict().items()}
        return str(losses), states, values, optimizer.state_dict()["numbers"], call

    eager, compiled = run(False), run(True)
    assert eager[:4] == compiled[:4]
    assert compiled[4].compiled_calls >= 9, compiled[4].explain()
    assert eager[1][-1][0]["skipped"] >= 4 and eager[1][-1][0]["factor"] != 2.0**18


@pytest.mark.skipif("jit" not in ft.available_backends(), reason="fl-jit is not installed")
def test_a_skipped_step_leaves_everything_as_it_was_on_jit():
    with ft.use("jit"):
        ft.seed(0)
        model = mlp()
        optimizer, scaler = nn.Adam(model.parameters(), 0.1), nn.DynamicLossScaler(8.0)

        def step(x):
            optimizer.zero_grad()
            scaler.scale(ft.mean(model(x) ** 2)).backward()
            if scaler.unscale(optimizer):
                optimizer.step()

        def state():
            values = [*(p.tensor for p in model.parameters()), *optimizer.state[0].values()]
            return [x.tolist() if isinstance(x, ft.Tensor) else x for x in values]

        compiled = nn.compile(step, strict=True)
        seen = []
        for x in (1.0, 2.0, 3.0, float("inf"), 4.0):
            compiled(ft.full((4, 6), x))
            seen.append(state())
    assert compiled.compiled_calls == 3 and scaler.skipped == 1
    assert seen[2] == seen[3] != seen[4] and "nan" not in str(seen)


def test_a_loss_scaler_of_several_ranks_has_no_graph():
    model, ranks = mlp(), copy.copy(dist.local())
    ranks.world_size = 2
    scaler = nn.DynamicLossScaler(communicator=ranks)

    def step(x):
        scaler.scale(ft.sum(model(x))).backward()
        return scaler.unscale(model.parameters())

    with pytest.raises(ft.CaptureError, match="asks the other ranks"):
        nn.compile(step).graph(ft.ones((2, 6)))


def test_averages_of_weights_are_state():
    def run(compiled):
        ft.seed(0)
        model = mlp()
        optimizer = nn.Adam(model.parameters(), 0.1)
        ema = nn.EMA(model, 0.5, warm_up=True, buffers=True)

        def step(x):
            optimizer.zero_grad()
            loss = ft.mean(model(x) ** 2)
            loss.backward()
            optimizer.step()
            ema.update()
            return loss

        call = nn.compile(step, strict=True) if compiled else step
        seen, kept = [], {}
        for i in range(12):
            if i == 8:
                ema.load_state_dict(kept)
            call(ft.Generator(i).normal((4, 6)))
            if i == 5:
                kept = ema.state_dict()
            seen.append({k: v.numpy().tobytes() for k, v in ema.averages.items()})
        return seen, ema.updates

    assert run(True) == run(False)


def test_lazily_created_optimizer_state_is_kept():
    """That of a parameter that was frozen."""

    def change(i, model, optimizer):
        model[0].freeze(i < 3)

    same(*[train(mlp, OPTIMIZERS["Adam"], c, 7, change=change) for c in (False, True)], 5)


def test_capture_leaves_everything_as_it_was():
    ft.seed(0)
    model = mlp()
    optimizer = nn.Adam(model.parameters(), 0.1)
    seen = []

    def step(x):
        optimizer.zero_grad()
        loss = ft.mean(model(x) ** 2)
        loss.backward()
        optimizer.step()
        if not x.backend.has_values:
            raise RuntimeError("half-way")
        return loss

    compiled = nn.compile(step, model, optimizer)
    x = ft.ones((4, 6))
    compiled(x)
    hook = model[0].weight.register_hook(lambda grad: seen.append(grad.shape))
    ids = [id(p) for p in model.parameters()]
    before = ft.default_generator().state(), optimizer.state_dict()["numbers"]
    gradients = [p.grad for p in model.parameters()]
    with pytest.raises(RuntimeError, match="half-way"):
        compiled.graph(x)
    assert (ft.default_generator().state(), optimizer.state_dict()["numbers"]) == before
    assert [p.grad for p in model.parameters()] == gradients or all(
        a is b for a, b in zip((p.grad for p in model.parameters()), gradients, strict=True)
    )
    assert [id(p) for p in model.parameters()] == ids
    assert all(p.backend.name == "numpy" for p in model.parameters())
    compiled(x)
    assert compiled.compiled_calls == 0 and "half-way" in compiled.explain() and seen
    hook()


def test_numbers_of_a_step_are_never_frozen():
    """Two captures at different steps are the same graph."""
    ft.seed(0)
    model = mlp()
    optimizer = nn.Adam(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        ft.mean(model(x) ** 2).backward()
        optimizer.step()

    compiled = nn.compile(step, model, optimizer)
    x = ft.ones((4, 6))
    compiled(x)
    graphs = []
    for _ in range(2):
        compiled(x)
        graphs.append(str(compiled.graph(x)))
    assert graphs[0] == graphs[1]


def test_the_state_is_found_in_variables_around_the_step():
    """Models, optimizers, generators, and data."""

    def run(compiled):
        ft.seed(0)
        model, draw = mlp(), ft.Generator(3)
        optimizer, table = nn.Adam(model.parameters(), 0.1), ft.Generator(4).normal((20, 6))

        def step():
            optimizer.zero_grad()
            loss = ft.mean(model(ft.take(table, draw.integers(0, 20, 5), 0)) ** 2)
            loss.backward()
            optimizer.step()
            return loss

        call = nn.compile(step, strict=True) if compiled else step
        return [call().item() for _ in range(6)], draw.state()

    assert run(False) == run(True)


def test_classes_in_variables_around_the_step_are_checked_by_the_step_itself():
    """A capture does not look at them."""
    model = mlp().eval()
    labels, chances = ft.asarray([0, 1, 2, 0]), ft.full((4, 3), 0.5)

    def step(x):
        y = model(x)
        return nn.cross_entropy(y, labels) + nn.binary_cross_entropy(chances, ft.sigmoid(y))

    compiled = nn.compile(step, strict=True, check_every=4)
    for _ in range(3):
        compiled(ft.ones((4, 6)))
    assert compiled.compiled_calls == 2
    labels = ft.asarray([0, 1, 7, 0])
    with pytest.raises(ft.IndexingError, match="hold 7"):
        compiled(ft.ones((4, 6)))


def test_a_parameter_of_no_module_learns():
    def run(compiled):
        weight = nn.Parameter(ft.ones((3,)))
        optimizer = nn.SGD([weight], 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ft.sum((weight * x - 2.0) ** 2)
            loss.backward()
            optimizer.step()
            return loss

        call = nn.compile(step) if compiled else step
        losses = [call(ft.ones((3,))).item() for _ in range(4)]
        other = nn.Parameter(ft.zeros((3,)))
        optimizer.param_groups[0]["params"] = [other]
        with pytest.raises(nn.TrainingError):  # it has no gradient
            call(ft.ones((3,)))
        weight = other
        return losses + [call(ft.ones((3,))).item() for _ in range(4)]

    assert run(True) == run(False)


def test_a_capture_does_not_move_a_schedule():
    ft.seed(0)
    model = mlp()
    optimizer = nn.SGD(model.parameters(), 0.1)
    schedule = nn.StepLR(optimizer, 1, 0.5)

    def step(x):
        optimizer.zero_grad()
        ft.mean(model(x) ** 2).backward()
        optimizer.step()
        schedule.step()

    compiled = nn.compile(step, model, optimizer)
    for i in range(4):
        compiled(ft.ones((4, 6)))
        assert optimizer.lr == 0.1 * 0.5 ** (i + 1)
    assert compiled.compiled_calls == 0 and "it changes schedule" in compiled.explain()


def test_a_module_that_counts_its_calls_has_no_graph():
    class Counting(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) * self.calls

    model = Counting(6, 3)
    compiled = nn.compile(lambda x: model(x), model)
    for _ in range(4):
        compiled(ft.ones((2, 6)))
    assert model.calls == 4 and "attribute calls of Counting" in compiled.explain()


def test_only_modules_and_optimizers_have_state():
    with pytest.raises(nn.ModuleError, match="a list"):
        nn.compile(lambda x: x, [1])


def test_a_step_may_be_a_method_that_its_object_keeps():
    """The compiled step, its graphs and counters are then among what the step can reach."""

    class Training:
        def __init__(self):
            ft.seed(0)
            self.model = mlp()
            self.optimizer = nn.Adam(self.model.parameters(), 0.1)
            self.step = nn.compile(self._step, strict=True)

        def _step(self, x):
            self.optimizer.zero_grad()
            loss = ft.mean(self.model(x) ** 2)
            loss.backward()
            self.optimizer.step()
            return loss

    training = Training()
    losses = [training.step(ft.ones((4, 6))).item() for _ in range(4)]
    assert len(set(losses)) == 4 and training.step.compiled_calls == 3
    outer = nn.compile(lambda x: training.step(x) * 2.0)  # finds the state through the inner one
    twice = [outer(ft.ones((4, 6))).item() for _ in range(3)]
    assert len(set(twice)) == 3 and outer.compiled_calls == 2, outer.explain()


@pytest.mark.parametrize("backend", [n for n in ("numpy", "jit") if n in ft.available_backends()])
def test_an_interrupt_never_leaves_half_a_step(backend, monkeypatch):
    """It comes while the state is replaced, and acts when all of it is, or none yet."""
    # Where tests run in the background, the signal is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(interrupted, skips=False):
        with ft.use(backend):
            ft.seed(0)
            model = mlp()
            optimizer = nn.Adam(model.parameters(), 0.1)

            def step(x):
                optimizer.zero_grad()
                loss = ft.mean(model(x) ** 2)
                loss.backward()
                optimizer.step()
                return loss

            compiled, puts = nn.compile(step, strict=True), []
            put = AssignValue.__call__

            def signalling(self, value):
                puts.append(value)
                if len(puts) == interrupted:
                    signal.raise_signal(signal.SIGINT)
                put(self, value)

            states = []
            for i in range(5):
                if i == 3:
                    monkeypatch.setattr(AssignValue, "__call__", signalling)
                try:
                    if i != 3 or not skips:
                        compiled(ft.Generator(i).normal((4, 6)))
                except KeyboardInterrupt:
                    assert i == 3 and interrupted
                else:
                    assert i != 3 or not interrupted
                values = {k: v.tolist() for k, v in model.state_dict().items()}
                states.append((values, optimizer.state_dict()["numbers"]))
            monkeypatch.undo()
            return states

    try:
        whole, none = run(None), run(None, skips=True)
        assert run(2) in (whole, none)
        if backend == "numpy":
            assert run(5) == whole
    finally:
        signal.signal(signal.SIGINT, before)
