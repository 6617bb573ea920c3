"""A recorded training step that is run again: the next step, or refused with the numbers named."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.graph import Graph

pytestmark = pytest.mark.defect("O1", "item 8")


class Training:
    """A network, its optimizer and one batch."""

    def __init__(self, make_optimizer, dropout=0.0):
        generator = ft.Generator(5)
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3), nn.LogSoftmax()
        )
        for p in self.model.parameters():
            p.tensor = generator.normal(p.shape) * 0.3
        self.optimizer = make_optimizer(self.model.parameters())
        self.x, self.y = generator.normal((10, 6)), generator.integers(0, 3, 10)

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self):
        """Everything that a step reads and replaces."""
        weights = [p.tensor for p in self.model.parameters()]
        return weights + list(self.optimizer.state_dict()["tensors"].values())

    @property
    def batch(self):
        return self.x, self.y

    def recorded(self):
        """The graph of one step, from a batch and a state to the loss and the state after it."""
        with ft.trace() as graph:
            for tensor in (*self.batch, *self.state()):
                graph.input(tensor)
            loss = self.step()
            graph.output(loss, *self.state())
        return Graph.from_json(graph.prune().to_json())


def sgd(**settings):
    return lambda parameters: nn.SGD(parameters, lr=0.1, **settings)


@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.01}])
def test_steps_of_plain_sgd_replay(settings):
    training, eager = Training(sgd(**settings)), Training(sgd(**settings))
    state = training.state()
    graph = training.recorded()
    assert graph.fixed == []
    for _ in range(10):
        loss, *state = graph(*training.batch, *state)
        assert loss.item() == eager.step().item()
    assert [x.tolist() for x in state] == [x.tolist() for x in eager.state()]


@pytest.mark.parametrize("make", [sgd(momentum=0.9), lambda p: nn.RMSprop(p), lambda p: nn.Lion(p)])
def test_a_first_step_cannot_be_traced_and_later_steps_replay(make):
    training, eager = Training(make), Training(make)
    with pytest.raises(ft.ArgumentError, match="step that begins the state of"):
        training.recorded()(*training.batch, *training.state()[:4])
    eager.step()
    state = training.state()
    graph = training.recorded()
    assert graph.fixed == []
    eager.step()
    state = graph(*training.batch, *state)[1:]
    for _ in range(9):
        loss, *state = graph(*training.batch, *state)
        assert loss.item() == eager.step().item()


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda p: nn.Adam(p), "bias-corrected rate of Adam"),
        (lambda p: nn.AdamW(p), "root of the second bias correction of Adam"),
        (lambda p: nn.LAMB(p), "first bias correction of LAMB"),
        (lambda p: nn.SparseAdam(p), "bias correction of SparseAdam"),
        (lambda p: nn.Adafactor(p), "weight of the new square of Adafactor"),
        (lambda p: nn.Adagrad(p, lr_decay=0.1), "decayed rate of Adagrad"),
    ],
)
def test_numbers_of_a_step_are_named(make, number):
    training = Training(make)
    for _ in range(3):  # whatever begins with the first step has begun
        training.step()
    state = training.state()
    graph = training.recorded()
    with pytest.raises(ft.ArgumentError, match=f"{number} = "):
        graph(*training.batch, *state)
    assert len(graph(*training.batch, *state, constants=True)) == len(state) + 1


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: nn.CosineAnnealingLR(optimizer, T_max=10),
        lambda optimizer: nn.ReduceLROnPlateau(optimizer),
        lambda optimizer: nn.SequentialLR(
            optimizer, [nn.LinearLR(optimizer), nn.StepLR(optimizer, 30)], milestones=[5]
        ),
    ],
)
def test_a_scheduled_rate_is_named(schedule):
    training = Training(sgd())
    schedule(training.optimizer)
    state = training.state()
    rate = training.optimizer.lr
    with pytest.raises(ft.ArgumentError, match=f"scheduled lr of SGD = {rate:.7g}"):
        training.recorded()(*training.batch, *state)


def test_a_scheduled_momentum_is_named():
    training = Training(sgd(momentum=0.9))
    nn.OneCycleLR(training.optimizer, max_lr=0.1, total_steps=20)
    training.step()
    names = {number.name for number in training.recorded().fixed}
    assert names == {"scheduled lr of SGD", "scheduled momentum of SGD"}


def test_a_rate_that_is_changed_by_hand_is_scheduled():
    training = Training(sgd())
    training.step()
    training.optimizer.param_groups[0]["lr"] = 0.05
    assert training.recorded().fixed == [("scheduled lr of SGD", 0.05)]


def test_a_constant_lr_is_no_per_step_value():
    training = Training(sgd())
    for _ in range(3):
        training.step()
    assert training.recorded().fixed == []


def test_dropout_is_named():
    training = Training(sgd(), dropout=0.5)
    state = training.state()
    with pytest.raises(ft.ArgumentError, match="offset of "):
        training.recorded()(*training.batch, *state)
    training.model.eval()
    assert training.recorded().fixed == []


def test_averages_name_their_decay_while_they_warm_up():
    def names(ema):
        with ft.trace() as graph:
            ema.update()
        return [number.name for number in graph.fixed]

    model = nn.Linear(2, 2)
    warming = nn.EMA(model, decay=0.5, warm_up=True)
    assert names(warming) == ["decay of EMA while it warms up"]
    for _ in range(20):
        warming.update()
    assert names(warming) == [] and names(nn.EMA(model)) == []


def test_factors_and_parts_of_a_step_are_named():
    training = Training(sgd())
    accumulation = nn.GradientAccumulation(
        training.optimizer, every=2, scaler=nn.DynamicLossScaler(1024.0)
    )
    with ft.trace() as graph:
        for _ in range(2):
            accumulation.backward(nn.cross_entropy(training.model(training.x), training.y))
            accumulation.step()
    assert {number.name: number.value for number in graph.fixed} == {
        "factor of DynamicLossScaler": 1024.0,
        "1 / factor of DynamicLossScaler": 1 / 1024,
        "parts before this one in GradientAccumulation": 1,
        "weight of all parts in GradientAccumulation": 2.0,
    }


def test_batch_normalisation_over_all_batches_names_its_weight():
    layer = nn.BatchNorm(3, momentum=None)
    layer(ft.ones((4, 3)))
    with ft.trace() as graph:
        layer(ft.ones((4, 3)))
    assert graph.fixed == [("weight of this batch in BatchNorm", 0.5)]
