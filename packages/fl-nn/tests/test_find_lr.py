"""`find_lr`: the rates of the sweep, where it ends, and that it leaves nothing behind."""

from __future__ import annotations

import math

import pytest
from small_runs import place, points, sgd_run

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import LRSweep, TrainingError, parallel


def batches(size=16):
    return data.Batch(data.Shuffle(points(48, 2), seed=3), size)


def trainer(**options):
    g = ft.Generator(0)
    net = nn.Sequential(
        nn.Linear(2, 8, generator=g), nn.BatchNorm(8), nn.Dropout(0.2), nn.Linear(8, 2, generator=g)
    )
    options.setdefault("progress", False)
    return nn.Trainer(net, nn.Adam(net.parameters(), lr=0.01), nn.cross_entropy, **options)


class Parabola(nn.Module):
    """10 w^2 / 2 of one weight: SGD diverges at rates above 2 / 10."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ft.asarray([1.0]))

    def forward(self, x):
        return 5.0 * ft.square(self.weight) * x


def parabola(lr=1.0):
    net = Parabola()
    optimizer = nn.SGD(net.parameters(), lr=lr)
    return nn.Trainer(net, optimizer, lambda y, target: ft.mean(y), progress=False)


ONES = [(ft.ones(1), ft.ones(1))]


def test_rates_grow_exponentially_and_losses_are_those_before_each_update():
    sweep = nn.find_lr(parabola(), ONES, lowest=1e-4, highest=1e-2, steps=5, smooth=0.0)
    assert sweep.rates == pytest.approx([1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2])
    weight, expected = 1.0, []
    for rate in sweep.rates:
        expected.append(5.0 * weight**2)
        weight -= rate * 10.0 * weight
    assert sweep.losses == pytest.approx(expected, rel=1e-6)
    assert sweep.smoothed == pytest.approx(expected, rel=1e-6) and not sweep.diverged


def test_the_sweep_ends_at_divergence_and_suggests_a_rate_that_trains():
    run = parabola()
    sweep = nn.find_lr(run, ONES, highest=100.0, steps=200)
    assert sweep.diverged and 0.2 < sweep.rates[-1] < 100.0
    assert 0.002 < sweep.suggested < 0.2
    run.optimizer.lr = sweep.suggested
    history = run.fit(ONES, epochs=50)
    assert history[-1]["train_loss"] < 0.2 * history[0]["train_loss"]


def test_a_loss_that_is_not_finite_ends_the_sweep():
    sweep = nn.find_lr(parabola(), ONES, lowest=1.0, highest=1e15, steps=60, diverge=1e300)
    assert sweep.diverged and 0 < len(sweep.losses) < 60
    assert all(map(math.isfinite, sweep.losses))
    run = parabola()
    run.model.weight.tensor = ft.asarray([math.inf])
    with pytest.raises(nn.DivergenceError, match="the loss is"):
        nn.find_lr(run, ONES)


def test_the_mean_loss_has_no_bias_to_the_beginning():
    sweep = nn.find_lr(parabola(), ONES, lowest=1e-9, highest=1e-8, steps=4, smooth=0.9)
    assert sweep.smoothed == pytest.approx([5.0] * 4, rel=1e-5)


def test_the_suggestion_is_where_the_loss_falls_fastest_before_its_lowest():
    rates = [10.0**n for n in range(7)]
    losses = [5.0, 5.0, 4.5, 2.0, 1.8, 1.7, 9.0]
    assert LRSweep(rates, losses, losses, True).suggested == 1e2
    assert math.isnan(LRSweep(rates, [1.0] * 7, [1.0] * 7, False).suggested)
    assert math.isnan(LRSweep([], [], [], True).suggested)


def fitted(sweep, **options):
    """The history, weights and optimizer of a run whose second epoch follows a sweep, or none."""
    ft.seed(7)
    run = trainer(**options)
    run.schedule = nn.ExponentialLR(run.optimizer, 0.9)
    run.ema = nn.EMA(run.model, decay=0.9)
    run.fit(batches(), epochs=1)
    before = (run.step, run.samples, run.last_loss, run.optimizer.param_groups[0]["lr"])
    if sweep:
        run.model.eval()
        sweep(run)
        assert not any(module.training for module in run.model.modules())
        assert all(parameter.grad is None for parameter in run.model.parameters())
        after = (run.step, run.samples, run.last_loss, run.optimizer.param_groups[0]["lr"])
        assert after == before
    history = [{**record, "seconds": 0} for record in run.fit(batches(), epochs=2)]
    state = run.optimizer.state_dict()
    parts = (run.model.state_dict(), state["tensors"], run.ema.state_dict()["tensors"])
    tensors = [{name: x.tolist() for name, x in part.items()} for part in parts]
    return history, tensors, state["numbers"]


@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate": 2}, {"meters": {"accuracy": nn.AccuracyMeter()}}],
    ids=["plain", "accumulate", "meters"],
)
def test_training_goes_on_with_the_same_bits_as_without_a_sweep(options):
    def sweep(run):
        assert len(nn.find_lr(run, batches(), steps=10).rates) > 3  # of 3 batches

    assert fitted(sweep, **options) == fitted(None, **options)


def test_everything_is_put_back_after_an_error():
    def sweep(run):
        class Stop(nn.Callback):
            def before_step(self, trainer):
                if trainer.step == 5:
                    raise KeyboardInterrupt

        run.callbacks.append(Stop())
        with pytest.raises(KeyboardInterrupt):
            nn.find_lr(run, batches())
        run.callbacks.clear()

    assert fitted(sweep) == fitted(None)


def test_a_loss_scaler_is_put_back():
    scaler = nn.DynamicLossScaler()
    before = scaler.state_dict()
    run = trainer(scaler=scaler)
    assert nn.find_lr(run, batches(), steps=12, highest=1e-3).rates
    assert scaler.state_dict() == before


def test_groups_keep_their_ratio():
    net = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2))
    first, second = net[0].parameters(), net[1].parameters()
    optimizer = nn.SGD([{"params": first, "lr": 0.1}, {"params": second, "lr": 0.02}])
    seen = []

    class Watch(nn.Callback):
        def before_step(self, trainer):
            seen.append([group["lr"] for group in trainer.optimizer.param_groups])

    run = nn.Trainer(net, optimizer, nn.cross_entropy, callbacks=[Watch()], progress=False)
    sweep = nn.find_lr(run, batches(), steps=4, highest=1e-3)
    assert [one for one, _ in seen] == sweep.rates
    assert [two for _, two in seen] == pytest.approx([rate / 5 for rate in sweep.rates])
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.02]


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_find_what_one_finds(size):
    def program(communicator):
        net = nn.Linear(2, 2, generator=ft.Generator(0))
        run = sgd_run(communicator, net)
        own = data.Batch(points(48, 2), 12, **place(communicator))
        return nn.find_lr(run, own, steps=20, highest=1e3), net.weight.tolist()

    (alone, weight), *_ = dist.threads.run(1, program)
    for sweep, kept in dist.threads.run(size, program):
        assert sweep.rates == alone.rates and sweep.diverged == alone.diverged
        assert sweep.losses == pytest.approx(alone.losses, rel=1e-4)
        assert kept == weight


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_shares_of_parameters_are_refused_with_the_way_out(stage):
    def program(communicator):
        run = trainer(communicator=communicator)
        sharded = parallel.Sharded(communicator, run.model, run.optimizer, stage)
        with pytest.raises(TrainingError, match="find_lr. Adam holds shares .* before Sharded"):
            nn.find_lr(run, batches())
        with pytest.raises(TrainingError, match="Trainer. Adam holds shares"):
            run.fit(batches(), epochs=1)
        with pytest.raises(TrainingError, match="Trainer. Adam holds shares"):
            nn.Trainer(sharded.model, sharded.optimizer, nn.cross_entropy)
        return True

    assert dist.threads.run(2, program) == [True, True]


def test_layers_that_are_cut_over_ranks_give_the_curve_of_one():
    def program(communicator):
        first = parallel.ColumnParallelLinear(2, 8, communicator, generator=ft.Generator(0))
        second = parallel.RowParallelLinear(8, 2, communicator, generator=ft.Generator(1))
        net = nn.Sequential(first, nn.ReLU(), second)
        optimizer = nn.Adam(net.parameters(), lr=0.1)
        run = nn.Trainer(net, optimizer, nn.cross_entropy, progress=False)
        sweep, kept = nn.find_lr(run, batches(), steps=20, highest=1.0), first.weight.tolist()
        if communicator.world_size > 1:
            # These would give each other the shares of rank 0.
            with pytest.raises(TrainingError, match="0.weight is cut .* data axis of a mesh"):
                nn.Trainer(net, optimizer, nn.cross_entropy, communicator=communicator)
        return sweep, kept

    ((alone, whole),) = dist.threads.run(1, program)
    results = dist.threads.run(2, program)
    for sweep, _ in results:
        assert sweep.rates == alone.rates and sweep.diverged == alone.diverged
        assert sweep.losses == pytest.approx(alone.losses, rel=1e-4)
    assert sum((kept for _, kept in results), []) == whole


def test_settings_that_make_no_sense_are_refused():
    for options, message in (
        ({"lowest": 0.0}, "lowest=0.0: give a number above 0"),
        ({"steps": 0}, "steps=0: give a whole number"),
        ({"smooth": 1.0}, "smooth=1.0: give a number in"),
        ({"lowest": 1.0, "highest": 0.1}, "a highest rate above the lowest"),
        ({"diverge": 1.0}, "diverge above 1"),
    ):
        with pytest.raises(TrainingError, match=message):
            nn.find_lr(parabola(), ONES, **options)
    with pytest.raises(TrainingError, match="no training batches"):
        nn.find_lr(parabola(), [])
