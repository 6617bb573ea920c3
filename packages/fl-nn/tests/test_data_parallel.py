"""Data parallel training computes what one rank computes, in few collectives that overlap."""

from __future__ import annotations

import pytest
from bits import flat

import fl_autograd as ag
import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError
from fl_tensor.testing import needs


def dataset(count=45):
    x = ft.randn((count, 3), ft.Generator(1), dtype=ft.float64)
    return data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))


def batches(communicator, size=16, count=45):
    place = {"rank": communicator.rank, "world_size": communicator.world_size}
    return data.Batch(dataset(count), size, **place)


class Net(nn.Module):
    """Two layers, and one that the output does not depend on."""

    def __init__(self, norm=False):
        g = ft.Generator(3)
        self.first = nn.Linear(3, 8, generator=g)
        self.unused = nn.Linear(2, 2, generator=g)
        self.norm = nn.BatchNorm(8) if norm else nn.Identity()
        self.second = nn.Linear(8, 2, generator=g)

    def forward(self, x):
        return self.second(ft.tanh(self.norm(self.first(x))))


def fitted(communicator, options=None, size=16, dtype="float64", norm=False, epochs=3, count=45):
    """Weights and losses after training on 45 samples, shared unequally."""
    options = dict(options or {})
    model = Net(norm).to(dtype)
    if norm:
        nn.convert_sync_batchnorm(model, communicator)
    if norm:  # a bias before it has a gradient of rounding errors, which Adam would enlarge
        optimizer = nn.SGD(model.parameters(), lr=0.5, momentum=0.9)
    else:
        optimizer = nn.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    clip = [nn.ClipGradNorm(options.pop("clip"))] if "clip" in options else []
    if "scaler" in options:
        options["scaler"] = nn.DynamicLossScaler(options["scaler"], growth_interval=3)
    if "reducer" in options:
        options["reducer"] = options["reducer"](communicator)
    run = nn.Trainer(
        model, optimizer, nn.cross_entropy, communicator=communicator, progress=False,
        callbacks=clip, **options,
    )  # fmt: skip
    samples = data.Transform(batches(communicator, size, count), fields={0: Cast(dtype)})
    history = run.fit(samples, epochs=epochs)
    state = {name: x.tolist() for name, x in model.state_dict().items()}
    return state, [record["train_loss"] for record in history]


class Cast:
    def __init__(self, dtype):
        self.dtype = ft.dtype(dtype)

    def __call__(self, x):
        return x.astype(self.dtype)


def assert_like_one(world_size, bound, *arguments):
    alone = fitted(dist.local(), *arguments)
    ranks = dist.threads.run(world_size, fitted, *arguments)
    assert all(rank == ranks[0] for rank in ranks)
    assert list(flat(ranks[0])) == pytest.approx(list(flat(alone)), rel=bound, abs=bound)


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize(
    "options, size",
    [
        ({}, 16),
        ({}, 22),  # a last batch of one sample
        ({"accumulate": 2}, 7),  # a last step of one batch
        ({"accumulate": 2}, 2),  # batches smaller than the world
        ({"clip": 0.1}, 16),
        ({"scaler": 1024.0}, 16),
        ({"reducer": dist.InlineReducer}, 16),
        ({"reducer": lambda c: dist.BucketReducer(c, bucket_bytes=64)}, 16),
    ],
)
def test_equal_to_one_rank(world_size, options, size):
    assert_like_one(world_size, 1e-12, options, size)


def test_equal_to_one_rank_in_single_precision():
    assert_like_one(2, 1e-5, {}, 16, "float32")


@pytest.mark.parametrize("norm", [False, True])
def test_processes_have_the_bits_of_threads(norm):
    arguments = 2, fitted, {"accumulate": 2}, 7, "float64", norm, 2, 44
    assert dist.load("processes").run(*arguments) == dist.threads.run(*arguments)


@pytest.mark.parametrize("size, count", [(16, 45), (22, 45), (8, 17)])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"scaler": 64.0}])
def test_synchronised_statistics_are_those_of_the_whole_batch(options, size, count):
    count -= count % size == 1  # one sample alone has no variance
    assert_like_one(3, 1e-12, options, size, "float64", True, 2, count)


@needs("float16")
def test_ranks_end_with_the_same_bits_where_gradients_are_compressed():
    def train(communicator):
        return fitted(
            communicator,
            {"reducer": lambda c: dist.CompressedReducer(c, smallest=1)},
            16,
            "float32",
        )

    first, second = dist.threads.run(2, train)
    assert first == second
    exact = fitted(dist.local(), {}, 16, "float32")
    assert first != exact
    assert first[1] == pytest.approx(exact[1], abs=0.02)


@needs("float16")
def test_gradients_in_half_precision_are_averaged_in_single():
    def program(communicator):
        model = nn.Linear(1, 1, bias=False).to("float16")
        model.weight.tensor = ft.ones((1, 1), ft.float16)
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=1.0), nn.mse, communicator=communicator
        )
        # Gradients of 2 (w x - y) x: 2 and 2/1024, whose sum float16 rounds.
        x = ft.full((1, 1), 1.0 if communicator.rank else 1.0 / 1024.0, ft.float16)
        run.train_step((x, x * 0.0))
        return model.weight.grad.dtype, model.weight.grad.item()

    for dtype, value in dist.threads.run(2, program):
        assert dtype is ft.float32
        assert value == 1.0 + 1.0 / 1024.0**2


# ---- what has a gradient -------------------------------------------------------------------------


def test_what_no_rank_uses_keeps_its_value_and_has_no_gradient():
    def program(communicator):
        state, _ = fitted(communicator)
        return state["unused.weight"]

    # Weight decay would move a parameter whose gradient is 0.
    assert dist.threads.run(2, program) == [Net().to("float64").unused.weight.tolist()] * 2


def test_a_parameter_that_one_rank_alone_uses_is_averaged_with_zeros():
    class Odd(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Parameter(ft.ones(1)), nn.Parameter(ft.ones(1))

        def forward(self, x, use_b):
            return x * self.a * (self.b if use_b else 1.0)

    def program(communicator):
        model = Odd()
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.0), nn.mse, communicator=communicator
        )
        run.train_step((ft.ones((1, 1)), bool(communicator.rank), ft.zeros((1, 1))))
        return model.a.grad.item(), model.b.grad.item()

    assert dist.threads.run(2, program) == [(2.0, 1.0)] * 2


def test_parameters_may_be_frozen_and_learn_again():
    def program(communicator):
        model = Net().to("float64")
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy, communicator=communicator
        )
        batch = batches(communicator)[0]
        found = []
        for frozen in (False, True, False):
            model.first.freeze(frozen)
            run.train_step(batch)
            found.append(model.first.weight.grad is None)
        return found

    assert dist.threads.run(2, program) == [[False, True, False]] * 2


def test_hooks_of_users_change_what_is_averaged():
    def program(communicator):
        model = nn.Linear(1, 1, bias=False)
        model.weight.tensor = ft.ones((1, 1))
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.0), nn.mse, communicator=communicator
        )
        model.weight.register_hook(lambda g: g * 10.0)
        run.train_step((ft.ones((1, 1)), ft.zeros((1, 1))))
        return model.weight.grad.item()

    assert dist.threads.run(2, program) == [20.0, 20.0]


def test_parameters_that_the_optimizer_gets_later_are_averaged_too():
    def program(communicator):
        model = Net()
        optimizer = nn.SGD(model.first.parameters(), lr=0.1)
        run = nn.Trainer(model, optimizer, nn.cross_entropy, communicator=communicator)
        x, y = batches(communicator)[0]
        run.train_step((x.astype(ft.float32), y))
        optimizer.add_param_group({"params": list(model.second.parameters())})
        run.train_step((x.astype(ft.float32), y))
        return model.second.weight.tolist()

    first, second = dist.threads.run(2, program)
    assert first == second != Net().second.weight.tolist()


def test_a_step_begins_with_begin():
    average = nn.GradientAverage(dist.local(), list(Net().parameters()))
    with pytest.raises(TrainingError, match=r"finish\(\) without begin"):
        average.finish(0.0)
    with pytest.raises(TrainingError, match=r"overlapped\(\) without begin"):
        with average.overlapped():
            pass


# ---- collectives ---------------------------------------------------------------------------------


class Recording(dist.ThreadsCommunicator):
    """Notes collectives, and where in the step they were called."""

    def _issue(self, call, async_op, timeout):
        self.__dict__.setdefault("calls", []).append(call.operation)
        return super()._issue(call, async_op, timeout)


def test_a_step_is_one_reduction():
    def program(communicator):
        model = Net().to("float64")
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy, communicator=communicator,
            scaler=nn.DynamicLossScaler(),
        )  # fmt: skip
        run.train_step(batches(communicator)[0])
        communicator.calls = []
        run.train_step(batches(communicator)[1])
        return communicator.calls

    assert Recording.run(2, program) == [["all_reduce"]] * 2


def test_gradients_are_sent_while_backward_runs():
    def program(communicator):
        model = Net()
        reducer = dist.BucketReducer(communicator, bucket_bytes=1)
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy,
            communicator=communicator, reducer=reducer,
        )  # fmt: skip
        x, y = batches(communicator)[0]
        x = ag.Variable(x.astype(ft.float32), requires_grad=True)
        run.train_step((x, y))
        # The gradient of x is the last one that backward finds.
        x.register_hook(lambda g: communicator.calls.append("end of backward"))
        communicator.calls = []
        run.train_step((x, y))
        return communicator.calls

    for calls in Recording.run(2, program):
        # Weights and biases of `second`; those of `first` wait for those of `unused`.
        assert calls.index("end of backward") == 2
        assert len(calls) > 4


def test_an_error_in_a_step_leaves_the_next_one_whole():
    def program(communicator):
        model = Net()
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy, communicator=communicator
        )
        x, y = batches(communicator)[0]
        x = x.astype(ft.float32)
        with pytest.raises(ft.FlError):
            run.train_step((x, y[:-1]))
        return run.train_step((x, y))

    first, second = dist.threads.run(2, program)
    assert first == second


def test_no_samples_on_any_rank_are_an_error_on_all():
    def program(communicator):
        model = Net()
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy, communicator=communicator
        )
        x, y = batches(communicator)[0]
        with pytest.raises(TrainingError, match="no samples in epoch 1, batch 1"):
            run.train_step((x[:0].astype(ft.float32), y[:0]))
        run.train_step((x.astype(ft.float32), y))
        return run.samples

    assert dist.threads.run(2, program) == [16, 16]


def test_a_bad_gradient_on_one_rank_stops_all_with_their_weights():
    def program(communicator):
        model = nn.Linear(1, 1)
        before = model.state_dict()
        run = nn.Trainer(
            model, nn.SGD(model.parameters(), lr=0.1), nn.mse, communicator=communicator
        )
        bad = float("nan") if communicator.rank else 1.0
        model.weight.register_hook(lambda g: g * bad)
        with pytest.raises(TrainingError, match="its gradients are not finite"):
            run.train_step((ft.ones((1, 1)), ft.ones((1, 1))))
        return all(x.tolist() == before[name].tolist() for name, x in model.state_dict().items())

    assert dist.threads.run(2, program) == [True, True]
