"""The loss scaler: exact where nothing is wrong, and it skips, shrinks, grows and remembers."""

from __future__ import annotations

import math

import pytest

import fl_autograd as ag
import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, StateDictError, TrainingError

pytestmark = pytest.mark.skipif(
    ft.float16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)


def pair(**options):
    """A parameter [1, 2], its optimizer (lr 1) and a scaler with factor 32."""
    parameter = nn.Parameter(ft.asarray([1.0, 2.0]))
    return parameter, nn.SGD([parameter], 1.0), nn.DynamicLossScaler(32.0, **options)


def step(parameter, optimizer, scaler, slope=1.0):
    optimizer.zero_grad()
    scaler.scale((parameter * slope).sum()).backward()
    fine = scaler.unscale(optimizer)
    if fine:
        optimizer.step()
    return fine


def test_the_loss_is_multiplied_and_the_gradients_are_divided():
    parameter, optimizer, scaler = pair()
    loss = (parameter * 3.0).sum()
    assert scaler.scale(loss).item() == 32.0 * loss.item()
    scaler.scale(loss).backward()
    assert parameter.grad.tolist() == [96.0, 96.0]
    assert scaler.unscale(optimizer) is True
    assert parameter.grad.tolist() == [3.0, 3.0]


def test_a_loss_in_half_precision_is_scaled_in_float32():
    scaler = nn.DynamicLossScaler(65536.0)
    with ag.autocast("O3"):
        scaled = scaler.scale(nn.Parameter(ft.asarray(3.0, ft.float16)))
    assert scaled.dtype is ft.float32 and scaled.item() == 3 * 65536.0


def test_small_gradients_survive_float16():
    def slope(scaler):
        w = nn.Parameter(ft.asarray([[2.0**-14]]))
        x = ft.asarray([[2.0**-12]])
        with ag.autocast("O1"):
            loss = ft.linear(x, w).astype(ft.float32).sum() * 2.0**-14
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            assert scaler.unscale([w])
        return w.grad.item()

    assert slope(None) == 0.0
    assert slope(nn.DynamicLossScaler()) == 2.0**-26


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_skips_the_step_and_halves_the_factor(wrong):
    parameter, optimizer, scaler = pair()
    assert step(parameter, optimizer, scaler)
    assert parameter.tolist() == [0.0, 1.0]
    assert not step(parameter, optimizer, scaler, slope=wrong)
    assert parameter.tolist() == [0.0, 1.0] and parameter.grad is None
    assert (scaler.factor, scaler.successes, scaler.skipped) == (16.0, 0, 1)
    optimizer.step()  # who does not ask is not harmed
    assert parameter.tolist() == [0.0, 1.0]
    assert step(parameter, optimizer, scaler)
    assert parameter.tolist() == [-1.0, 0.0]


def test_the_factor_doubles_after_so_many_steps_in_a_row_up_to_the_maximum():
    parameter, optimizer, scaler = pair(growth_interval=3, maximum=100.0)
    factors = []
    for slope in [1, 1, math.inf, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]:
        step(parameter, optimizer, scaler, float(slope))
        factors.append(scaler.factor)
    assert factors == [32, 32, 16, 16, 16, 32, 32, 32, 64, 64, 64, 100, 100]


def test_below_the_minimum_it_stops_and_names_the_cause():
    parameter, optimizer, scaler = pair(minimum=10.0)
    unused = nn.Parameter(ft.ones((3,)))
    optimizer.add_param_group({"params": [unused]})
    assert not step(parameter, optimizer, scaler, math.nan)
    with pytest.raises(TrainingError) as caught:
        step(parameter, optimizer, scaler, math.nan)
    words = str(caught.value)
    assert "the factor fell to 8, below its minimum 10: after 2 skipped steps" in words
    assert "the gradients of 1 of 2 parameters are not finite, first that of number 0" in words
    assert "float32(2,), with NaN" in words and "detect_anomaly" in words


def test_parameters_without_gradient_are_passed_over():
    parameter, optimizer, scaler = pair()
    unused = nn.Parameter(ft.ones((3,)))
    frozen = nn.Parameter(ft.ones((3,)), requires_grad=False)
    optimizer.add_param_group({"params": [unused, frozen]})
    assert step(parameter, optimizer, scaler)
    assert unused.grad is frozen.grad is None and unused.tolist() == [1.0] * 3


def test_everything_that_a_step_updates_is_unscaled_in_one_call():
    parameter, optimizer, scaler = pair()
    other = nn.Parameter(ft.asarray([1.0]))
    second = nn.SGD([other, parameter], 1.0)  # shares one

    def backward(slope):
        optimizer.zero_grad()
        second.zero_grad()
        scaler.scale((parameter * 2.0).sum() + (other * slope).sum()).backward()

    backward(1.0)
    assert scaler.unscale(optimizer, second)
    assert parameter.grad.tolist() == [2.0, 2.0] and other.grad.tolist() == [1.0]
    with pytest.raises(TrainingError, match=r"unscale\(\) without scale\(\) before it"):
        scaler.unscale(second)
    backward(math.inf)
    assert not scaler.unscale([parameter], other)
    assert parameter.grad is other.grad is None


def test_gradients_of_half_parameters_become_float32():
    half = nn.Parameter(ft.ones((2,), ft.float16))
    optimizer, scaler = nn.SGD([half], 1.0), nn.DynamicLossScaler(2.0**14)
    scaler.scale((half.astype(ft.float32) * 2.0**-20).sum()).backward()
    assert scaler.unscale(optimizer)
    assert half.grad.dtype is ft.float32 and half.grad.tolist() == [2.0**-20] * 2
    optimizer.step()
    assert optimizer.state[0]["rounding"].tolist() == [-(2.0**-20)] * 2


def test_gradients_of_rows_are_unscaled():
    table = nn.Parameter(ft.ones((5, 2)))
    scaler = nn.DynamicLossScaler(32.0)
    scaler.scale(ag.lookup_rows(table, ft.asarray([1, 3])).sum()).backward()
    assert scaler.unscale([table])
    assert table.grad.values.tolist() == [[1.0, 1.0]] * 2
    scaler.scale((ag.lookup_rows(table, ft.asarray([1])) * math.inf).sum()).backward()
    assert not scaler.unscale([table])


def test_with_accumulation_parts_that_overflow_are_forgotten():
    parameter, optimizer, scaler = pair()
    accumulation = nn.GradientAccumulation(optimizer, every=2, scaler=scaler)
    for slope, done in [(1.0, False), (3.0, True)]:
        accumulation.backward((parameter * slope).sum())
        assert accumulation.step() is done
    assert parameter.tolist() == [-1.0, 0.0]
    for slope in (math.inf, 1.0):
        accumulation.backward((parameter * slope).sum())
        assert accumulation.step() is False
    assert parameter.tolist() == [-1.0, 0.0] and scaler.factor == 16.0
    assert accumulation.count == 0


# ---- state ---------------------------------------------------------------------------------------


def test_the_state_goes_on_with_settings_and_counters():
    parameter, optimizer, scaler = pair(growth_interval=3, maximum=64.0)
    for slope in (1.0, math.inf, 1.0, 1.0):
        step(parameter, optimizer, scaler, slope)
    other = nn.DynamicLossScaler()
    other.load_state_dict(scaler.state_dict())
    assert repr(other) == repr(scaler) == "DynamicLossScaler(factor=16, successes=2, skipped=1)"
    for _ in range(7):
        step(parameter, optimizer, other)
    assert other.factor == 64.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "StepLR"}, "not the state of a DynamicLossScaler"),
        ({"settings": None}, "not the state of a DynamicLossScaler"),
        ({"factor": -1.0}, "factor=-1.0: give a number above 0"),
        ({"successes": 0.5}, "successes=0.5: give a whole number"),
        ({"settings": {"growth_interval": 2}}, "setting maximum is missing"),
    ],
)
def test_other_states_are_refused_and_change_nothing(change, words):
    scaler = nn.DynamicLossScaler(32.0)
    before = scaler.state_dict()
    with pytest.raises(StateDictError, match=words):
        scaler.load_state_dict({**before, **change})
    assert scaler.state_dict() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"factor": 0.0}, "factor=0.0: give a number above 0"),
        ({"growth_interval": 0}, "growth_interval=0: give a whole number"),
        ({"factor": 8.0, "minimum": 16.0}, "between minimum=16.0 and"),
        ({"factor": 8.0, "maximum": 4.0}, "and maximum=4.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ModuleError, match=words):
        nn.DynamicLossScaler(**options)


# ---- ranks ---------------------------------------------------------------------------------------


def on_a_rank(communicator):
    parameter, optimizer, scaler = pair(communicator=communicator)
    found = []
    for number in range(3):
        wrong = number == 1 and communicator.rank == 1
        found.append(step(parameter, optimizer, scaler, math.inf if wrong else 1.0))
    return found, scaler.factor, parameter.tolist()


def test_ranks_skip_together():
    assert dist.threads.run(2, on_a_rank) == [([True, False, True], 16.0, [-1.0, 0.0])] * 2


def on_a_rank_below_the_minimum(communicator):
    parameter, optimizer, scaler = pair(communicator=communicator, minimum=32.0)
    try:
        step(parameter, optimizer, scaler, math.inf if communicator.rank else 1.0)
    except TrainingError as error:
        return str(error)


def test_a_rank_that_is_not_to_blame_says_so():
    innocent, guilty = dist.threads.run(2, on_a_rank_below_the_minimum)
    assert "the gradients of another rank are not finite" in innocent
    assert "1 of 1 parameters are not finite, first that of number 0" in guilty


# ---- Trainer -------------------------------------------------------------------------------------


def points(rank=0, world_size=1):
    x = ft.randn((45, 3), ft.Generator(1))
    samples = data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))
    return data.Batch(data.Shuffle(samples, seed=2), 22, rank=rank, world_size=world_size)


class Overflowing(nn.Module):
    """Multiplies gradients, not values, by what ``at`` says of the call that it is."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def forward(self, x):
        self.calls += self.training
        if self.training and self.calls in self.at:
            x.register_hook(lambda grad: grad * math.inf)
        return x


def trainer(out=None, communicator=None, at=(), dtype=ft.float32, **options):
    ft.seed(0)
    model = nn.Sequential(
        nn.Linear(3, 8), Overflowing(at), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2),
    )  # fmt: skip
    optimizer = nn.Adam(model.to(dtype).parameters(), 0.05)
    return nn.Trainer(
        model, optimizer, nn.cross_entropy, out=out, communicator=communicator, progress=False,
        precision="O1", scaler=nn.DynamicLossScaler(1024.0, growth_interval=2), log_every=1,
        schedule=nn.StepLR(optimizer, 2, 0.5), **options,
    )  # fmt: skip


def test_a_trainer_skips_such_steps_and_goes_on(tmp_path):
    run = trainer(tmp_path, at={2, 5})
    history = run.fit(points(), points(), epochs=3)
    # 9 batches of 3 epochs, 2 of them without a step.
    assert run.step == run.schedule.last_epoch == 7 and run.epoch == 3
    assert (run.scaler.skipped, run.scaler.factor) == (2, 1024.0 / 4 * 2 * 2 * 2)
    assert all(math.isfinite(record["train_loss"]) for record in history)
    log = nn.JsonLog(tmp_path / "log.jsonl").read()
    skips = [record for record in log if record["event"] == "skip"]
    assert [(r["step"], r["batch"], r["factor"]) for r in skips] == [(1, 2, 512.0), (3, 2, 512.0)]
    assert [r["step"] for r in log if r["event"] == "step"] == [1, 2, 3, 4, 5, 6, 7]


def test_model_and_loss_run_in_the_precision_in_training_and_evaluation():
    run, seen = trainer(), []
    run.model[0].register_forward_hook(lambda m, i, output: seen.append(output.dtype))
    run.fit(points(), points(), epochs=1)
    assert set(seen) == {ft.float16} and len(seen) == 6
    assert {p.grad.dtype for p in run.model.parameters()} == {ft.float32}


def test_a_loss_that_is_not_finite_is_a_skipped_step_with_a_scaler_and_an_error_without():
    def loss(output, target):
        loss.calls += 1
        return nn.cross_entropy(output, target) * (math.nan if loss.calls == 2 else 1.0)

    loss.calls = 0
    run = trainer()
    run.loss = loss
    (record,) = run.fit(points(), epochs=1)
    assert run.scaler.skipped == 1 and run.step == 2 and math.isfinite(record["train_loss"])
    run, loss.calls = trainer(), 0
    run.loss, run.scaler = loss, None
    with pytest.raises(TrainingError, match="the loss is nan"):
        run.fit(points(), epochs=1)


class Interrupted(Exception):
    pass


class Interrupt(nn.Callback):
    def __init__(self, step):
        self.at = step

    def on_step(self, trainer):
        if trainer.step == self.at:
            trainer.save()
            raise Interrupted


@pytest.mark.parametrize("dtype", [ft.float32, ft.float16], ids=str)
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, stop, dtype):
    whole = trainer(at={2, 5}, dtype=dtype)
    whole.fit(points(), epochs=3)

    first = trainer(tmp_path, at={2, 5}, dtype=dtype, callbacks=[Interrupt(stop)])
    with pytest.raises(Interrupted):
        first.fit(points(), epochs=3)
    run = trainer(tmp_path, at={2, 5}, dtype=dtype)
    run.model[1].calls = first.model[1].calls
    run.resume()
    run.fit(points(), epochs=3)
    assert run.scaler.state_dict() == whole.scaler.state_dict()
    for one, other in zip(run.model.parameters(), whole.model.parameters()):
        assert one.tolist() == other.tolist()
    for one, other in zip(run.history, whole.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def train_on_a_rank(communicator):
    # The last batch has one sample: one of two ranks has no share of it. Rank 1 overflows once.
    place = {"rank": communicator.rank, "world_size": communicator.world_size}
    run = trainer(communicator=communicator, at={2} if communicator.rank else ())
    run.fit(points(**place), epochs=2)
    return run.step, run.scaler.state_dict(), [p.tolist() for p in run.model.parameters()]


def test_ranks_of_a_trainer_skip_together_and_keep_equal_weights():
    one, other = dist.threads.run(2, train_on_a_rank)
    assert one == other
    assert one[0] == 5 and one[1]["skipped"] == 1
