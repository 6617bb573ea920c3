"""Modules in mixed precision, float32 master weights, and training that ends where float32 does."""

from __future__ import annotations

import copy
import functools

import pytest

import fl_autograd as ag
import fl_memory
import fl_nn as nn
import fl_tensor as ft

F16, F32 = ft.float16, ft.float32

pytestmark = pytest.mark.skipif(
    F16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)


class Several(nn.Module):
    """Results of all forms."""

    def __init__(self):
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        y = self.linear(x)
        return {"y": y, "more": (y, [y.astype(ft.float64), ft.argmax(y, -1)]), "name": "several"}


# ---- Module.set_precision ------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "wanted"), [("O1", F32), ("O2", F32), ("O3", F16)])
def test_the_floating_results_of_a_module_are_what_the_policy_gives(level, wanted):
    found = Several().set_precision(level)(ft.randn((4, 3)))
    one, (wide, numbers) = found["more"]
    assert found["y"].dtype is one.dtype is wanted
    assert wide.dtype is ft.float64 and numbers.dtype is ft.int64 and found["name"] == "several"


def test_inside_its_operations_compute_in_half_whoever_calls():
    seen = []
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).set_precision("O1")
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    y = model(ft.randn((2, 3)))
    with ag.autocast("O3"):
        model(ft.randn((2, 3)))
        with ag.no_grad():
            model(ft.randn((2, 3)))
    assert seen == [F16] * 3 and y.dtype is F32
    nn.Sequential(nn.Linear(3, 4), model[1])(ft.randn((2, 3)))
    assert seen[3:] == [F32]


def test_a_part_can_be_exempt_or_have_another_precision():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)).set_precision("O3")
    model[1].set_precision("DEFAULT")
    dtypes = []
    for _, layer in model.named_children():
        layer.register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    model(ft.randn((2, 3)))
    assert dtypes == [F16, F32, F16]
    model[1].set_precision(None)
    model(ft.randn((2, 3)))
    assert dtypes[3:] == [F16] * 3


def test_parameters_are_kept_in_the_dtype_of_the_policy():
    model = nn.Linear(3, 2).to(ft.float64).set_precision("O1")
    assert {p.dtype for p in model.parameters()} == {F32}
    assert {p.dtype for p in model.set_precision(ag.Policy(param="float16")).parameters()} == {F16}
    assert {p.dtype for p in model.set_precision("DEFAULT").parameters()} == {F16}


def test_copies_have_the_precision_and_states_and_configurations_do_not():
    model = nn.Sequential(nn.Linear(3, 2))
    before = model.to_config(), list(model.state_dict())
    model.set_precision("O3")
    assert (model.to_config(), list(model.state_dict())) == before
    assert copy.deepcopy(model)(ft.randn((1, 3))).dtype is F16


def test_unknown_levels_are_refused():
    with pytest.raises(ag.PolicyError, match="'O9': expected one of DEFAULT, O1"):
        nn.Linear(3, 2).set_precision("O9")


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_batch_norm_has_its_statistics_in_float32(level):
    x = (ft.randn((64, 2)) * 1000.0).astype(F16)  # squares of it are infinite in float16
    exact = nn.BatchNorm(2)
    exact(x.astype(F32))
    layer = nn.BatchNorm(2)
    with ag.autocast(level):
        y = layer(nn.Parameter(x))
    assert y.dtype is layer.running_var.dtype is F32
    assert layer.running_var.tolist() == exact.running_var.tolist()


def test_buffers_keep_their_dtype():
    layer = nn.BatchNorm(2).to(F16)
    with ag.autocast("O1"):
        layer(ft.randn((8, 2)).astype(F16))
    assert layer.running_mean.dtype is layer.running_var.dtype is F16


def test_what_a_graph_keeps_of_a_transformer_falls_by_a_quarter_at_least():
    def kept(level):
        manager = type(fl_memory.get("caching"))(small_bytes=0)
        with fl_memory.use(manager):
            x = ft.randn((8, 64, 64))
            layers = [nn.TransformerEncoderLayer(64, 4, 256, rotary=10.0) for _ in range(2)]
            before = manager.stats().live_bytes
            with ag.autocast(level):
                h = x
                for layer in layers:
                    h = layer(h)
            ft.eval(h)
            found = manager.stats().live_bytes - before
            del h  # only now: it holds the graph
            return found

    assert kept("O1") <= 0.75 * kept("DEFAULT")


# ---- parameters of 16 bits -----------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": lambda p: nn.SGD(p, 1e-3, 0.9),
    "NAG": lambda p: nn.NAG(p, 1e-3, 0.9),
    "Adam": lambda p: nn.Adam(p, 1e-4),
    "AMSgrad": lambda p: nn.AMSgrad(p, 1e-4),
    "Adagrad": lambda p: nn.Adagrad(p, 1e-4),
    "Adadelta": lambda p: nn.Adadelta(p, 0.1),
    "RMSprop": lambda p: nn.RMSprop(p, 1e-4),
    "Novograd": lambda p: nn.Novograd(p, 1e-4),
    "LAMB": lambda p: nn.LAMB(p, 1e-4),
    "Lion": lambda p: nn.Lion(p, 1e-5),
    "Adafactor": lambda p: nn.Adafactor(p, 1e-4),
}


def follow(make, dtype, steps=30):
    """Steps along gradients that do not depend on the parameter."""
    g = ft.Generator(3)
    parameter = nn.Parameter(ft.linspace(0.5, 2.0, 12).reshape(3, 4).astype(F16).astype(dtype))
    optimizer = make([parameter])
    for _ in range(steps):
        parameter.grad = g.normal((3, 4)).astype(F16).astype(dtype)
        optimizer.step()
    return parameter, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_of_16_bits_have_float32_master_weights(name):
    """Steps far below the spacing of float16 at these values, 0.0005 to 0.002, add up exactly."""
    exact, optimizer = follow(OPTIMIZERS[name], F32)
    half, other = follow(OPTIMIZERS[name], F16)
    assert half.dtype is F16 and half.tolist() == exact.astype(F16).tolist()
    tensors = other.state_dict()["tensors"]
    assert {t.dtype for t in tensors.values()} == {F32}
    master = half.tensor.astype(F32) + tensors.pop("0.rounding")
    # The state of what started from the same numbers is the same, bit for bit.
    assert master.tolist() == exact.tolist()
    wanted = optimizer.state_dict()["tensors"]
    assert {k: t.tolist() for k, t in tensors.items()} == {k: t.tolist() for k, t in wanted.items()}


def test_the_master_weights_are_part_of_the_state():
    make = OPTIMIZERS["Adam"]
    half, optimizer = follow(make, F16)
    parameter = nn.Parameter(half.tensor)
    other = make([parameter])
    other.load_state_dict(optimizer.state_dict())
    for p, o in ((half, optimizer), (parameter, other)):
        for _ in range(20):
            p.grad = ft.ones((3, 4), F16)
            o.step()
    assert parameter.tolist() == half.tolist()
    with pytest.raises(nn.StateDictError, match="0.rounding is of a parameter of 16 bits, here it"):
        make([nn.Parameter(ft.ones((3, 4)))]).load_state_dict(optimizer.state_dict())


def test_a_value_that_was_assigned_is_where_the_master_weight_goes_on():
    half, optimizer = follow(OPTIMIZERS["SGD"], F16)
    half.tensor = ft.full((3, 4), 100.0, F16)
    half.grad = ft.zeros((3, 4), F16)
    optimizer.lr = 0.0
    optimizer.step()
    assert half.tolist() == [[100.0] * 4] * 3


@pytest.mark.parametrize("make", [nn.SparseAdam, nn.Adagrad, lambda p: nn.SGD(p, 0.01, 0.9)])
def test_tables_of_16_bits_that_learn_by_rows_have_master_weights_too(make):
    def learn(dtype):
        start = ft.linspace(0.5, 2.0, 12).reshape(6, 2).astype(F16).astype(dtype)
        table = nn.Parameter(start)
        optimizer = make([table])
        optimizer.lr = 1e-4
        for i in range(30):
            optimizer.zero_grad()
            rows = ag.lookup_rows(table, ft.asarray([i % 3, 4]))
            (rows.astype(F32) * 0.5).sum().backward()
            optimizer.step()
        return table, optimizer

    exact, _ = learn(F32)
    half, optimizer = learn(F16)
    assert half.dtype is F16 and half.tolist() == exact.astype(F16).tolist()
    assert {t.dtype for t in optimizer.state_dict()["tensors"].values()} == {F32}
    master = half.tensor.astype(F32) + optimizer.state[0]["rounding"]
    assert master.tolist() == exact.tolist()


def test_gradients_of_16_bits_may_be_held_in_float32():
    p = nn.Parameter(ft.ones((2,), F16))
    p.grad = ft.full((2,), 2.0**-12)
    (p * 2.0).sum().backward()
    assert p.grad.dtype is F32 and p.grad.tolist() == [2.0 + 2.0**-12] * 2
    with pytest.raises(ft.ShapeError, match=r"must be \(2,\) of float16, not \(2,\) of float64"):
        p.grad = ft.ones((2,), ft.float64)


# ---- training ------------------------------------------------------------------------------------


def spirals(count=120):
    """Two spirals: classes that no line parts."""
    t = ft.linspace(0.3, 3.0, count // 2)
    arm = ft.stack([t * ft.cos(2.0 * t), t * ft.sin(2.0 * t)], 1)
    return ft.concatenate([arm, -arm]), ft.arange(count) // (count // 2)


@functools.cache
def train(level, compute="float16", param=F32, steps=120):
    ft.seed(0)
    x, y = spirals()
    model = nn.Sequential(
        nn.Linear(2, 32), nn.BatchNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(),
        nn.Linear(32, 2),
    ).to(param)  # fmt: skip
    optimizer = nn.Adam(model.parameters(), 0.01)
    scaler = nn.DynamicLossScaler(growth_interval=10, maximum=2.0**60)
    for _ in range(steps):
        optimizer.zero_grad()
        with ag.autocast(level, compute=compute):
            loss = nn.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if scaler.unscale(optimizer):
            nn.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
    with nn.evaluating(model):
        right = ft.argmax(model(x.astype(param)), -1).tensor == y
    return ft.mean(right.astype(F32)).item(), scaler


@pytest.mark.parametrize(
    ("level", "compute", "param"),
    [
        ("O1", "float16", F32),
        ("O2", "float16", F32),
        ("O1", "bfloat16", F32),
        ("O3", "float16", F16),
    ],
)
def test_training_reaches_the_accuracy_of_float32(level, compute, param):
    if ft.dtype(compute) not in ft.current_backend().dtypes:
        pytest.skip(f"the backend has no {compute}")
    exact, _ = train("DEFAULT")
    found, scaler = train(level, compute, param)
    assert exact >= 0.97
    assert found >= exact - 0.02
    if compute == "float16":  # the factor grew until gradients overflowed, and came back
        assert scaler.skipped > 0
