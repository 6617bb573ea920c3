"""Training on several ranks equals training on one, with the same global batches."""

from __future__ import annotations

import pytest
from small_runs import place, points, sgd_run

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError


def dataset():
    return points(45, 3, seed=1, dtype=ft.float64)


def train(communicator, size=16, epochs=3):
    """45 samples in batches of 16, 16 and 13, which no two ranks can share equally."""
    own = place(communicator)
    # Rank 0 starts with the same weights in every world; the others with what they may.
    g = ft.Generator(communicator.rank)
    model = nn.Sequential(nn.Linear(3, 8, generator=g), nn.ReLU(), nn.Linear(8, 2, generator=g)).to(
        ft.float64
    )
    meters = {"error": nn.FrameErrorMeter()}
    run = sgd_run(communicator, model, lr=0.5, momentum=0.9, meters=meters)
    batches = data.Batch(data.Shuffle(dataset(), seed=0), size, **own)
    history = run.fit(batches, data.Batch(data.Partition(dataset(), **own), 7), epochs=epochs)
    return history, [p.tolist() for p in model.parameters()]


@pytest.fixture(scope="module")
def alone():
    return train(dist.local())


@pytest.mark.parametrize("world_size", [2, 3])
def test_every_rank_ends_with_the_weights_and_figures_of_one(alone, world_size):
    results = dist.threads.run(world_size, train)
    weights = [parameters for _, parameters in results]
    assert all(one == weights[0] for one in weights)
    for one, other in zip(_flat(weights[0]), _flat(alone[1])):
        assert one == pytest.approx(other, abs=1e-9)
    for history, _ in results:
        for one, other in zip(history, alone[0]):
            assert {**one, "seconds": 0} == pytest.approx({**other, "seconds": 0}, abs=1e-9)


def test_a_rank_without_samples_joins_in():
    # 45 samples in batches of 22: the last has one sample, and one of two ranks none.
    alone = train(dist.local(), size=22, epochs=2)[1]
    for _, parameters in dist.threads.run(2, train, 22, 2):
        for one, other in zip(_flat(parameters), _flat(alone)):
            assert one == pytest.approx(other, abs=1e-9)


def test_the_first_gradients_agree_in_single_precision():
    def program(communicator):
        g = ft.Generator(3)
        model = nn.Sequential(nn.Linear(3, 2, generator=g))
        x, y = data.Batch(dataset(), 15, **place(communicator))[0]
        run = sgd_run(communicator, model, lr=1.0)
        run.train_step((x.astype(ft.float32), y))
        return [p.grad.tolist() for p in model.parameters()]

    (whole,) = dist.LocalCommunicator.run(1, program)
    for gradients in dist.threads.run(2, program):
        assert list(_flat(gradients)) == pytest.approx(list(_flat(whole)), rel=1e-5, abs=1e-7)


def test_ranks_start_with_the_weights_and_buffers_of_rank_0():
    def program(communicator):
        ft.seed(communicator.rank)
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2))
        model[1].running_mean = ft.full((2,), float(communicator.rank))
        run = sgd_run(communicator, model, lr=0.0)
        run.fit([(ft.ones((4, 3)), ft.zeros(4, ft.int64))], epochs=1)
        return {name: tensor.tolist() for name, tensor in model.state_dict().items()}

    first, second = dist.threads.run(2, program)
    assert first == second and first["1.running_mean"] != [1.0, 1.0]


def test_evaluation_uses_the_running_statistics_of_rank_0():
    def program(communicator):
        model = nn.Sequential(nn.BatchNorm(1))
        run = sgd_run(communicator, model, nn.mse)
        model[0].running_mean = ft.full((1,), float(communicator.rank))
        x = ft.ones((1, 1))
        return run.evaluate([(x, x * 0.0)])["loss"]

    assert dist.threads.run(2, program) == pytest.approx([1.0, 1.0], abs=1e-4)


def test_ranks_drop_different_places_even_when_seeded_alike():
    def program(communicator):
        ft.seed(0)
        model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))
        sgd_run(communicator, model, nn.mse)
        return model[1](ft.ones(64)).tolist()

    first, second = dist.threads.run(2, program)
    assert first != second


def test_only_rank_0_writes_and_speaks(tmp_path, capsys):
    def program(communicator):
        ft.seed(0)
        model = nn.Sequential(nn.Linear(3, 2))
        run = sgd_run(communicator, model, progress=True, out=tmp_path / str(communicator.rank))
        run.fit([(ft.ones((4, 3)), ft.zeros(4, ft.int64))], epochs=2)

    dist.threads.run(2, program)
    assert [p.name for p in tmp_path.iterdir()] == ["0"]
    assert capsys.readouterr().err.count("epoch") == 2


def test_different_numbers_of_batches_are_an_error_on_every_rank():
    def program(communicator):
        model = nn.Linear(1, 1)
        run = sgd_run(communicator, model, nn.mse)
        batch = (ft.ones((1, 1)), ft.ones((1, 1)))
        with pytest.raises(TrainingError, match=r"ranks have \[1, 2\] batches.*Share each batch"):
            run.fit([batch] * (communicator.rank + 1), epochs=1)
        return True

    assert dist.threads.run(2, program) == [True, True]


def test_a_bad_loss_on_one_rank_stops_all():
    def program(communicator):
        model = nn.Linear(1, 1)
        run = sgd_run(communicator, model, nn.mse)
        x = ft.full((1, 1), float("inf") if communicator.rank else 1.0)
        with pytest.raises(TrainingError, match="the loss is"):
            run.train_step((x, ft.ones((1, 1))))
        return True

    assert dist.threads.run(2, program) == [True, True]


def _flat(nested):
    if isinstance(nested, list):
        for item in nested:
            yield from _flat(item)
    else:
        yield nested
