"""A run that is broken by a value that is not finite says which was the first."""

from __future__ import annotations

import math
import re

import pytest

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError


class Root(nn.Module):
    """sqrt(relu(x)): finite, but its slope at 0 is not."""

    def forward(self, x):
        return ft.sqrt(ft.maximum(x, 0.0))


class Log(nn.Module):
    def forward(self, x):
        return ft.log(x)


def trainer(*layers, loss=nn.mse, **options):
    ft.seed(0)
    model = nn.Sequential(*layers)
    return nn.Trainer(model, nn.SGD(model.parameters(), lr=0.25), loss, progress=False, **options)


def why(run, batches):
    before = {name: tensor.tolist() for name, tensor in run.model.state_dict().items()}
    with pytest.raises(TrainingError) as error:
        run.fit(batches, epochs=1)
    after = {name: tensor.tolist() for name, tensor in run.model.state_dict().items()}
    weights = [name for name, _ in run.model.named_parameters()]
    assert [before[name] for name in weights] == [after[name] for name in weights] or not weights
    return str(error.value)


GOOD = (ft.ones((4, 3)), ft.ones((4, 2)))


def test_the_place_is_named():
    run = trainer(nn.Linear(3, 2))
    text = why(run, [(GOOD[0] * math.inf, GOOD[1])])
    assert "the loss is nan in epoch 1, batch 1 (step 1), lr=0.25" in text


@pytest.mark.parametrize(
    "batch, words",
    [
        (
            (ft.asarray([[1.0, math.nan, math.inf]]), ft.ones((1, 2))),
            "input 0 of the batch has 1 NaN and 1 inf among 3 values",
        ),
        ((ft.ones((1, 3)), ft.full((1, 2), math.inf)), "the target of the batch has 2 inf"),
    ],
)
def test_in_the_batch(batch, words):
    assert words in why(trainer(nn.Linear(3, 2)), [batch])


def test_in_a_parameter():
    run = trainer(nn.Linear(3, 4), nn.Linear(4, 2))
    run.model[1].bias.tensor = ft.full((2,), math.nan)
    with pytest.raises(TrainingError, match="parameter 1.bias has 2 NaN .* before this step"):
        run.fit([GOOD], epochs=1)


def test_in_the_output_of_a_layer():
    run = trainer(nn.Linear(3, 4), Log(), nn.Linear(4, 2))
    run.model[0].bias.tensor = ft.full((4,), -9.0)
    text = why(run, [GOOD])
    assert "the output of Log '1' has 16 NaN" in text and "what came before it is finite" in text


def test_in_the_loss_alone():
    def loss(output, target):
        return ft.mean(ft.log(ft.square(output) * 0.0))

    text = why(trainer(nn.Linear(3, 2), loss=loss), [GOOD])
    assert "the loss is -inf" in text and "the loss has, the output of the model is finite" in text


def test_in_the_gradients_of_a_loss_that_is_finite():
    run = trainer(nn.Linear(3, 4), Root(), nn.Linear(4, 2))
    run.model[0].weight.tensor = ft.zeros((4, 3))
    run.model[0].bias.tensor = ft.zeros(4)
    text = why(run, [GOOD])
    assert re.search(r"the loss is [\d.]+, but its gradients are not finite", text)
    assert "the gradient of the output of Linear '0'" in text
    assert "the gradient of parameter 0.weight, 2 in all" in text


def test_the_batch_is_run_again_with_what_dropout_drew():
    class Explode(nn.Module):
        def forward(self, x):
            return x / (ft.randn(()) > 0.0).astype(x.dtype)

    for seed in range(6):
        run = trainer(nn.Linear(3, 2), nn.Dropout(0.5), Explode())
        ft.seed(seed)
        with pytest.raises(TrainingError, match="the output of Explode '2'"):
            run.fit([GOOD] * 50, epochs=1)


def test_statistics_and_hooks_are_left_as_they_were():
    run = trainer(nn.BatchNorm(3), nn.Linear(3, 2), Log())
    run.model[1].bias.tensor = ft.full((2,), -9.0)
    why(run, [GOOD])
    assert run.model[0].num_batches_tracked.item() == 1
    assert not any(module._forward_hooks for module in run.model.modules())
    assert all(parameter.grad is None for parameter in run.model.parameters())


def test_sums_that_overflow_are_no_gradients_that_do():
    class Steep(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(ft.zeros(4))

        def forward(self, x):
            return x * self.weight

    model = Steep()
    run = nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.0), lambda o, t: ft.sum(o) * 3e38, progress=False
    )
    assert run.fit([(ft.ones((1, 4)), ft.ones((1, 4)))], epochs=1)[0]["train_loss"] == 0.0
    assert run.step == 1


def test_the_rank_that_has_it_says_so():
    def program(communicator):
        run = trainer(nn.Linear(3, 2), communicator=communicator)
        x = ft.ones((4, 3)) * (math.nan if communicator.rank else 1.0)
        with pytest.raises(TrainingError) as error:
            run.fit(data.Batch(data.TensorDataset(x, GOOD[1]), 4), epochs=1)
        return str(error.value)

    first, second = dist.threads.run(2, program)
    assert "input 0 of the batch has 12 NaN" in second
    assert "nothing is when the batch is run again" in first
