"""Compiled functions: the same results as operation by operation, with new operands and numbers. On
a GPU they are CUDA graphs; the imitation of CuPy captures nothing."""

from __future__ import annotations

from typing import Any

import pytest

import fl_tensor as ft
from cupy_imitation import ON_DEVICE, CupyBackend

if not ON_DEVICE:
    pytestmark = pytest.mark.filterwarnings("ignore:.*cannot become a CUDA graph:RuntimeWarning")


@pytest.fixture(autouse=True)
def backend() -> Any:
    with ft.use(CupyBackend(cuda_graphs=True)) as used:
        yield used


def calls_of(monkeypatch: pytest.MonkeyPatch, name: str) -> list[None]:
    """One entry for each call of an operation of the backend from now on."""
    calls: list[None] = []
    original = getattr(CupyBackend, name)

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(None)
        return original(self, *arguments, **options)

    monkeypatch.setattr(CupyBackend, name, counted)
    return calls


def test_operations_are_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, "exp")
    compiled = ft.compile(lambda x, y: ft.exp(x) @ y)
    y = ft.ones((3, 2))
    results = [compiled(ft.full((2, 3), float(i)), y) for i in range(6)]
    count = len(calls)
    results += [compiled(ft.full((2, 3), float(i)), y) for i in range(6, 9)]
    if ON_DEVICE:
        assert len(calls) == count
    for i, result in enumerate(results):  # which later calls leave as they are
        assert abs(result.numpy() / (3 * 2.718281828**i) - 1).max() < 1e-5


def test_operands_of_any_strides() -> None:
    compiled = ft.compile(lambda x: x * 2.0 + 1.0)
    x = ft.arange(6).reshape(2, 3).astype("float32")
    for given in (x.T, x.T, x.T, x.T.copy(), ft.flip(x.T, 0), x.T[::1]):
        assert compiled(given).tolist() == (given * 2.0 + 1.0).tolist()


def test_what_waits_for_the_device_is_not_captured() -> None:
    compiled = ft.compile(lambda a, b: ft.linalg.solve(a, b) + 1.0)
    a = ft.asarray([[2.0, 0.0], [0.0, 4.0]])
    for i in range(4):
        assert compiled(a, ft.full((2, 1), 8.0 * i)).tolist() == [[4.0 * i + 1], [2.0 * i + 1]]


def losses(optimizer_name: str, compiled: bool) -> list[float]:
    """Of a network with dropout: its optimizer has numbers that change from step to step."""
    nn = pytest.importorskip("fl_nn")
    ft.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
    optimizer = getattr(nn, optimizer_name)(model.parameters(), lr=0.05)
    data = ft.Generator(1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    call = nn.compile(step, model, optimizer, strict=True) if compiled else step
    found = []
    for i in range(8):
        if i == 5:
            optimizer.param_groups[0]["lr"] = 0.01
        loss = call(data.normal((32, 8)), data.integers(0, 4, (32,)))
        found.append(loss.item())
    return found


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_training_is_the_same(optimizer: str) -> None:
    eager, compiled = losses(optimizer, False), losses(optimizer, True)
    assert max(abs(a - b) for a, b in zip(eager, compiled, strict=True)) < 1e-5
