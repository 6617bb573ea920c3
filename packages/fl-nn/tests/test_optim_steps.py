"""Which steps an optimizer makes: none without a gradient, none where a condition does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError

MAKE: dict[str, Any] = {
    "SGD": lambda p: nn.SGD(p, lr=0.1),
    "momentum": lambda p: nn.SGD(p, lr=0.1, momentum=0.9),
    "NAG": lambda p: nn.NAG(p, lr=0.1),
    "Adam": nn.Adam,
    "AdamW": nn.AdamW,
    "AMSgrad": nn.AMSgrad,
    "Adadelta": nn.Adadelta,
    "Adafactor": nn.Adafactor,
    "Adagrad": nn.Adagrad,
    "LAMB": nn.LAMB,
    "Lion": nn.Lion,
    "Novograd": nn.Novograd,
    "RMSprop": nn.RMSprop,
    "SparseAdam": nn.SparseAdam,
}


def parameters(dtype: str = "float32") -> list[nn.Parameter]:
    g = ft.Generator(0)
    return [nn.Parameter(g.normal(shape).astype(dtype)) for shape in ((3, 2), (2,), ())]


def give_gradients(optimizer: nn.Optimizer, seed: int) -> None:
    g = ft.Generator(seed)
    for p in optimizer.parameters:
        p.grad = g.normal(p.shape).astype(p.dtype)


def snapshot(optimizer: nn.Optimizer) -> tuple[Any, ...]:
    state = optimizer.state_dict()
    tensors = {name: x.tolist() for name, x in state["tensors"].items()}
    return [p.tolist() for p in optimizer.parameters], state["numbers"], tensors


@pytest.mark.defect("item 1", "V19")
@pytest.mark.parametrize("name", MAKE)
def test_a_step_without_any_gradient_is_refused(name: str) -> None:
    optimizer = MAKE[name](parameters())
    before = snapshot(optimizer)
    with pytest.raises(TrainingError, match=r"none of the 3 parameters.*backward.*model"):
        optimizer.step()
    assert snapshot(optimizer) == before
    give_gradients(optimizer, 1)
    optimizer.step()
    assert snapshot(optimizer) != before


@pytest.mark.defect("item 1")
def test_what_is_usually_forgotten_is_found() -> None:
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    loss = model(ft.ones((2, 3))).mean()
    with pytest.raises(TrainingError, match="backward"):
        optimizer.step()
    loss.backward()
    optimizer.zero_grad()  # between the two
    with pytest.raises(TrainingError, match="zero_grad"):
        optimizer.step()
    other(ft.ones((2, 3))).mean().backward()
    with pytest.raises(TrainingError, match="parameters of the model"):
        optimizer.step()


def test_one_gradient_is_enough() -> None:
    optimizer = nn.SGD(parameters(), lr=1.0)
    first = optimizer.parameters[0]
    first.grad, expected = first.tensor, first.tensor * 0.0
    optimizer.step()
    assert first.tolist() == expected.tolist()


def test_an_optimizer_whose_parameters_are_all_frozen_has_nothing_to_do() -> None:
    model = nn.Linear(3, 1)
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    model.freeze()
    before = snapshot(optimizer)
    optimizer.step()
    assert snapshot(optimizer) == before
    model.bias.requires_grad = True
    with pytest.raises(TrainingError):
        optimizer.step()


def test_a_step_skipped_by_the_loss_scaler_changes_nothing() -> None:
    model, scaler = nn.Linear(3, 1), nn.DynamicLossScaler()
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(ft.full((2, 3), 1e38)).sum()).backward()
    before = snapshot(optimizer)
    assert not scaler.unscale(optimizer)
    optimizer.step()
    assert snapshot(optimizer) == before
    with pytest.raises(TrainingError, match="unscale"):  # the next one is as any other
        optimizer.step()


def test_accumulation_makes_no_step_where_no_part_has_come() -> None:
    model = nn.Linear(3, 1)
    accumulation = nn.GradientAccumulation(nn.SGD(model.parameters(), lr=0.1), every=2)
    assert not accumulation.flush()
    accumulation.backward(model(ft.ones((2, 3))).mean())
    assert not accumulation.step()
    assert accumulation.flush() and not accumulation.flush()


@pytest.fixture(params=["default", "deferred"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "default":
        yield
        return
    pytest.importorskip("fl_jit", reason="the deferred backend is not installed")
    jit = ft.get_backend("jit")
    monkeypatch.setattr(jit, "smallest", 1)
    with ft.use("jit"):
        yield


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", MAKE)
def test_a_conditional_step_is_made_whole_or_not_at_all(
    name: str, dtype: str, backend: None
) -> None:
    if ft.dtype(dtype) not in ft.current_backend().dtypes:
        pytest.skip("the backend lacks it")
    plain, conditional = (MAKE[name](parameters(dtype)) for _ in range(2))
    for seed in range(3):
        give_gradients(conditional, 100 + seed)
        for p in conditional.parameters:
            p.grad = p.grad * float("nan")
        before = snapshot(conditional)
        assert conditional.step_if(ft.asarray(1.0) < 0.0) is False
        assert snapshot(conditional) == before
        for optimizer in (plain, conditional):
            give_gradients(optimizer, seed)
        plain.step()
        assert conditional.step_if(ft.asarray(1.0) > 0.0) is True
        assert snapshot(conditional) == snapshot(plain)


def test_a_conditional_step_of_rows_leaves_the_table_alone(backend: None) -> None:
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = nn.SparseAdam(table.parameters())
    table(ft.asarray([1, 3])).sum().backward()
    before = snapshot(optimizer)
    assert not optimizer.step_if(ft.asarray(False))
    assert snapshot(optimizer) == before
    assert optimizer.step_if(ft.asarray(True))
    assert snapshot(optimizer) != before
