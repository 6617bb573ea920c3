"""Sharded training at each stage is plain training, whatever the model and the number of ranks."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, StateDictError, TrainingError, parallel
from fl_tensor.testing import needs

SAMPLES = 12


class Net(nn.Module):
    """Parameters of its own, a list of layers, one used twice, a buffer, a frozen parameter."""

    def __init__(self, seed=0):
        g = ft.Generator(seed)
        self.first = nn.Linear(5, 8, generator=g)
        self.layers = [nn.Linear(8, 8, generator=g), nn.LayerNorm(8)]
        self.scale = nn.Parameter(ft.ones((1,)))
        self.fixed = nn.Parameter(ft.full((8,), 0.5), requires_grad=False)
        self.out = nn.Sequential(nn.Linear(8, 3, generator=g), nn.BatchNorm(3))

    def forward(self, x):
        x = ft.tanh(self.first(x))
        for _ in range(2):
            for layer in self.layers:
                x = layer(x) * self.scale + self.fixed
        return self.out(x)


def optimizer_of(model):
    decayed = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2 and p.requires_grad]
    return nn.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others}], lr=0.02, weight_decay=0.0
    )


def batch(step):
    g = ft.Generator(100 + step)
    x = ft.randn((SAMPLES, 5), g)
    return x, (ft.sum(x, 1) > 0).astype(ft.int64)


def values(state):
    return {name: x.tolist() for name, x in state.items()}


def train_plain(steps=4, clip=None, checkpointed=False):
    model = Net().eval()
    optimizer, losses = optimizer_of(model), []
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        norm = None if clip is None else nn.clip_grad_norm_(optimizer.parameters, *clip)
        optimizer.step()
        losses.append((loss.item(), None if norm is None else norm.item()))
    return losses, values(model.state_dict()), optimizer.state_dict()


def train_sharded(comm, stage, steps=4, clip=None, checkpointed=False, backend=None):
    with ft.use(backend) if backend else nullcontext():
        model = Net(comm.rank).eval()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), stage)
        losses = []
        for step in range(steps):
            x, y = (part[comm.rank :: comm.world_size] for part in batch(step))
            sharded.zero_grad()
            output = ag.checkpoint(model, x) if checkpointed else model(x)
            loss = nn.cross_entropy(output, y)
            loss.backward()
            norm = None if clip is None else sharded.clip_grad_norm_(*clip).item()
            sharded.step()
            losses.append((comm.all_reduce(loss.tensor, "mean").item(), norm))
        state = sharded.optimizer_state_dict()
        return losses, values(sharded.state_dict()), {**state, "tensors": values(state["tensors"])}


def close(found, expected):
    assert found.keys() == expected.keys()
    for name, x in found.items():
        assert ft.allclose(ft.asarray(x), ft.asarray(expected[name]), 1e-5, 1e-5), name


def compare(found, expected):
    for losses, state, optimizer in found:
        for (loss, norm), (plain, plain_norm) in zip(losses, expected[0], strict=True):
            assert loss == pytest.approx(plain, abs=1e-5)
            assert norm is None or norm == pytest.approx(plain_norm, rel=1e-4)
        close(state, expected[1])
        close(optimizer["tensors"], values(expected[2]["tensors"]))
        for key in ("type", "numbers", "param_groups"):
            assert optimizer[key] == expected[2][key]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_training_is_that_without_sharding(stage, ranks):
    compare(dist.threads.run(ranks, train_sharded, stage), train_plain())


@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_gradients_are_clipped_by_the_norm_of_all(stage, norm):
    clip = (0.05, norm)
    compare(dist.threads.run(2, train_sharded, stage, 3, clip), train_plain(3, clip))


def test_checkpointed_units_are_gathered_when_they_run_again():
    compare(dist.threads.run(2, train_sharded, 3, 2, None, True), train_plain(2))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_it_runs_on_the_reference_backend(stage):
    found = dist.threads.run(2, train_sharded, stage, 2, None, False, "numpy")
    compare(found, train_plain(2))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_several_passes_make_one_step(stage):
    def accumulate(comm):
        model = Net().eval()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), stage)
        for step in range(2):
            sharded.zero_grad()
            x, y = (part[comm.rank :: comm.world_size] for part in batch(step))
            for half in (slice(0, 3), slice(3, 6)):
                (nn.cross_entropy(model(x[half]), y[half]) / 2).backward()
            sharded.step()
        return values(sharded.state_dict())

    expected = train_plain(2)[1]
    for found in dist.threads.run(2, accumulate):
        close(found, expected)


@pytest.mark.parametrize("stage", [2, 3])
def test_parameters_out_of_use_on_some_ranks_count_as_zeros(stage):
    class Branches(nn.Module):
        def __init__(self):
            g = ft.Generator(0)
            self.layers = [nn.Linear(2, 2, generator=g) for _ in range(3)]

        def forward(self, x, used):
            for index in used:
                x = self.layers[index](x)
            return x

    def one(comm):
        model = Branches()
        # At stage 3 all ranks call the same units.
        units = None if stage == 2 else []
        sharded = parallel.Sharded(comm, model, nn.SGD(model.parameters(), lr=1.0), stage, units)
        ft.sum(model(ft.ones((1, 2)), (0, 1 + comm.rank))).backward()
        sharded.step()
        return values(sharded.state_dict())

    model = Branches()
    optimizer = nn.SGD(model.parameters(), lr=1.0)
    for rank in range(2):
        (ft.sum(model(ft.ones((1, 2)), (0, 1 + rank))) / 2).backward()
    optimizer.step()
    for found in dist.threads.run(2, one):
        close(found, values(model.state_dict()))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_passes_that_reach_different_parameters_add_up(stage):
    def passes(model):
        for scale in (1.0, 3.0):
            x = model[0](ft.full((1, 2), scale))
            ft.sum(x).backward()
        ft.sum(model(ft.ones((1, 2)))).backward()

    def one(comm):
        model = nn.Sequential(*(nn.Linear(2, 2, generator=ft.Generator(i)) for i in range(2)))
        sharded = parallel.Sharded(comm, model, nn.SGD(model.parameters(), lr=1.0), stage)
        passes(model)
        sharded.clip_grad_norm_(1e9)  # what comes after it is not counted twice
        ft.sum(model(ft.ones((1, 2)))).backward()
        sharded.step()
        return values(sharded.state_dict())

    model = nn.Sequential(*(nn.Linear(2, 2, generator=ft.Generator(i)) for i in range(2)))
    optimizer = nn.SGD(model.parameters(), lr=1.0)
    passes(model)
    ft.sum(model(ft.ones((1, 2)))).backward()
    optimizer.step()
    for found in dist.threads.run(2, one):
        close(found, values(model.state_dict()))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_loss_scaler_skips_on_all_ranks(stage):
    def train(comm):
        model = nn.Linear(3, 2, generator=ft.Generator(0))
        sharded = parallel.Sharded(comm, model, nn.SGD(model.parameters(), lr=0.1), stage)
        scaler = nn.DynamicLossScaler(64.0, communicator=comm)
        made = []
        for bad in (False, True, False):
            sharded.zero_grad()
            x = ft.ones((1, 3)) * (float("inf") if bad and comm.rank == 1 else 1.0)
            scaler.scale(ft.sum(model(x))).backward()
            sharded.reduce_gradients()
            made.append(scaler.unscale(sharded.optimizer))
            if made[-1]:
                sharded.step()
        return made, scaler.factor, values(sharded.state_dict())

    model = nn.Linear(3, 2, generator=ft.Generator(0))
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        ft.sum(model(ft.ones((1, 3)))).backward()
        optimizer.step()
    for made, _, found in dist.threads.run(2, train):
        assert made == [True, False, True]
        close(found, values(model.state_dict()))


@needs("bfloat16")
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_half_precision_keeps_master_weights(stage):
    def train(comm):
        ft.seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).to(ft.bfloat16)
        sharded = parallel.Sharded(comm, model, nn.SGD(model.parameters(), lr=1e-4), stage)
        for _ in range(3):
            sharded.zero_grad()
            ft.sum(model(ft.ones((2, 4), ft.bfloat16))).backward()
            sharded.step()
        state = sharded.optimizer_state_dict()["tensors"]
        assert {x.dtype for x in state.values()} == {ft.float32}
        return values(state)

    ft.seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).to(ft.bfloat16)
    optimizer = nn.SGD(model.parameters(), lr=1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        ft.sum(model(ft.ones((2, 4), ft.bfloat16))).backward()
        optimizer.step()
    expected = values(optimizer.state_dict()["tensors"])
    assert any(any(map(any, x)) if isinstance(x[0], list) else any(x) for x in expected.values())
    for found in dist.threads.run(2, train):
        close(found, expected)


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_states_move_between_stages_and_numbers_of_ranks(before, after):
    def begin(comm):
        model = Net().eval()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), before)
        step(comm, sharded, 0)
        return sharded.state_dict(), sharded.optimizer_state_dict()

    def step(comm, sharded, number):
        x, y = (part[comm.rank :: comm.world_size] for part in batch(number))
        sharded.zero_grad()
        nn.cross_entropy(sharded.model(x), y).backward()
        sharded.step()

    def go_on(comm, weights, state):
        model = Net(3).eval()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), after)
        sharded.load_state_dict(weights)
        sharded.load_optimizer_state_dict(state)
        step(comm, sharded, 1)
        return values(sharded.state_dict())

    kept = dist.threads.run(3, begin)[0]
    for found in dist.threads.run(2, go_on, *kept):
        close(found, train_plain(2)[1])
    # And without sharding.
    model = Net(3).eval()
    optimizer = optimizer_of(model)
    model.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    x, y = batch(1)
    nn.cross_entropy(model(x), y).backward()
    optimizer.step()
    close(values(model.state_dict()), train_plain(2)[1])


def test_between_calls_parameters_have_no_values():
    def use(comm):
        model = Net().eval()
        parallel.Sharded(comm, model, optimizer_of(model), 3)
        with pytest.raises(ft.FlError, match="null"):
            ft.sum(model.scale * 2.0).numpy()
        with ag.no_grad():
            one = model([[0.0] * 5]).tolist()  # read where the parameters will be
        return one

    one, two = dist.threads.run(2, use)
    assert one == two
    with ag.no_grad():
        assert one[0] == pytest.approx(Net().eval()(ft.zeros((1, 5))).tolist()[0], abs=1e-6)


def test_a_parameter_used_past_its_unit_is_explained():
    class Past(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return ft.linear(x, self.inner.weight)

    def use(comm):
        model = Past()
        parallel.Sharded(comm, model, nn.Adam(model.parameters()), 3)
        model(ft.ones((1, 2)))

    with pytest.raises(dist.ProgramError) as error:
        dist.threads.run(2, use)
    assert isinstance(error.value.__cause__, ModuleError)
    assert "Past computes with a parameter of another unit" in str(error.value)


def test_a_failed_call_leaves_units_ready():
    def fail(comm):
        model = Net().eval()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), 3)
        with pytest.raises(ft.FlError):
            model(ft.ones((2, 4)))
        x, y = batch(0)
        nn.cross_entropy(model(x), y).backward()
        sharded.step()
        return values(sharded.state_dict())

    for found in dist.threads.run(2, fail):
        close(found, train_plain(1)[1])


def refusal(build, error=ModuleError, ranks=2):
    def refused(comm):
        with pytest.raises(error) as found:
            build(comm)
        return str(found.value)

    texts = dist.threads.run(ranks, refused)
    assert len(set(texts)) == 1
    return texts[0]


def test_a_parameter_of_two_units_is_refused():
    def tied(comm, units=None):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        model[2].weight = model[0].weight
        chosen = None if units is None else [model[i] for i in units]
        return parallel.Sharded(comm, model, nn.Adam(model.parameters()), 3, chosen)

    text = refusal(tied)
    assert "0.weight and 2.weight are one parameter, used by two units, 0 and 2" in text
    assert "0 and the model itself" in refusal(lambda comm: tied(comm, [0]))
    dist.threads.run(2, tied, [])


def test_arguments_that_do_not_fit_are_refused():
    def made(comm, **changes):
        model = nn.Linear(4, 4)
        given = {"model": model, "optimizer": nn.Adam(model.parameters()), "stage": 2}
        return parallel.Sharded(comm, **{**given, **changes})

    def stepped(comm):
        model = nn.Linear(4, 4)
        optimizer = nn.Adam(model.parameters())
        ft.sum(model(ft.ones((1, 4)))).backward()
        optimizer.step()
        made(comm, model=model, optimizer=optimizer)

    other = nn.Linear(2, 2)
    assert "stage=4" in refusal(lambda comm: made(comm, stage=4))
    assert "units at stage 2" in refusal(lambda comm: made(comm, units=[]))
    assert "no module of this Linear" in refusal(lambda comm: made(comm, stage=3, units=[other]))
    assert "2 of 2 parameters of the Adam" in refusal(
        lambda comm: made(comm, optimizer=nn.Adam(other.parameters()))
    )
    assert "LAMB needs whole parameters" in refusal(
        lambda comm: made(comm, optimizer=nn.LAMB(other.parameters()))
    )
    assert "has made steps already" in refusal(stepped)

    def twice(comm):
        model = nn.Linear(4, 4)
        made(comm, model=model, optimizer=nn.Adam(model.parameters()), stage=3)
        made(comm, model=model, optimizer=nn.Adam(model.parameters()), stage=3)

    assert "shard a model once" in refusal(twice)
    frozen = nn.Linear(2, 2).freeze()
    assert "no parameter of the optimizer learns" in refusal(
        lambda comm: made(comm, model=frozen, optimizer=nn.Adam(frozen.parameters()))
    )


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_step_without_gradients_and_one_past_the_ranks_are_refused(stage):
    def build(comm):
        model = nn.Linear(4, 4)
        return parallel.Sharded(comm, model, nn.Adam(model.parameters()), stage)

    assert "Call loss.backward()" in refusal(lambda comm: build(comm).step(), TrainingError)
    text = refusal(lambda comm: build(comm).optimizer.step(), TrainingError)
    assert "Call sharded.step()" in text


@pytest.mark.parametrize("stage", [1, 3])
def test_states_that_do_not_fit_are_refused(stage):
    def load(comm):
        model = Net()
        sharded = parallel.Sharded(comm, model, optimizer_of(model), stage)
        before = values(sharded.state_dict())
        state = sharded.state_dict()
        state["scale"] = ft.ones((2,))
        del state["first.bias"]
        with pytest.raises(StateDictError, match=r"scale has shape \(2,\).*missing first.bias"):
            sharded.load_state_dict(state)
        assert values(sharded.state_dict()) == before
        saved = sharded.optimizer_state_dict()
        with pytest.raises(StateDictError, match="of 'SGD'"):
            sharded.load_optimizer_state_dict({**saved, "type": "SGD"})
        saved["tensors"] = {"0.exp_avg": ft.ones((2, 2))}
        with pytest.raises(StateDictError, match=r"0.exp_avg is float32 \(2, 2\)"):
            sharded.load_optimizer_state_dict(saved)

    dist.threads.run(2, load)
