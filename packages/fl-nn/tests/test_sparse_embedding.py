"""Embedding(sparse=True): the same training without gradients of the size of the table."""

from __future__ import annotations

import copy

import pytest

import fl_data as data
import fl_dist as dist
import fl_memory
import fl_nn as nn
import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_nn import StateDictError, TrainingError
from fl_tensor.testing import needs

BATCHES = [ft.asarray([1, 4, 1]), ft.asarray([[0, 4]]), ft.asarray([2]), ft.asarray([4, 4, 1])]


def embedding(sparse=True, **settings):
    return nn.Embedding(
        6, 3, sparse=sparse, generator=ft.Generator(1), dtype=ft.float64, **settings
    )


def backward(model, batch):
    ft.sum(model(batch) ** 3).backward()


def trained(make, sparse):
    """The rows of a table after a few steps."""
    model = embedding(sparse)
    optimizer = make(model.parameters())
    for batch in BATCHES:
        optimizer.zero_grad()
        backward(model, batch)
        assert isinstance(model.weight.grad, SparseGradient) == sparse
        optimizer.step()
    return model.weight.tensor


def near(x, y, bound=1e-12):
    return ft.max(ft.absolute(x - y)).item() < bound


def dense_gradient(model):
    grad = model.weight.grad
    return (grad.to_dense() if isinstance(grad, SparseGradient) else grad).tensor


# ---- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda p: nn.SGD(p, lr=0.1),
        lambda p: nn.SGD(p, lr=0.1, momentum=0.9),
        lambda p: nn.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: nn.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.3),
    ],
)
def test_steps_from_rows_are_those_from_dense_gradients(make):
    assert near(trained(make, True), trained(make, False))


def test_sparse_adam_leaves_rows_alone_that_were_not_looked_up():
    model = embedding()
    before = model.weight.tensor
    optimizer = nn.SparseAdam(model.parameters(), lr=0.1)
    for batch in BATCHES[:2]:
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()
    moved = ft.any(model.weight.tensor != before, 1).tolist()
    assert moved == [True, True, False, False, True, False]
    after = model.weight.tensor.tolist()
    optimizer.zero_grad()
    backward(model, BATCHES[2])
    optimizer.step()
    now = model.weight.tensor.tolist()
    assert [a == b for a, b in zip(after, now)] == [True, True, False, True, True, True]


def test_the_first_step_of_sparse_adam_is_adams():
    def first(make):
        model = embedding(make is nn.SparseAdam)
        backward(model, BATCHES[0])
        make(model.parameters(), lr=0.1, eps=0.0 if make is nn.SparseAdam else 1e-30).step()
        return model.weight.tensor

    touched = ft.asarray([1, 4])
    sparse, dense = (ft.gather(first(make), touched) for make in (nn.SparseAdam, nn.Adam))
    assert near(sparse, dense)


def test_a_dense_gradient_is_one_of_all_rows_to_sparse_adam():
    models = [embedding(), embedding(False)]
    optimizers = [nn.SparseAdam(m.parameters(), lr=0.1) for m in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            backward(model, ft.arange(6))
            optimizer.step()
    assert near(*(m.weight.tensor for m in models))


@pytest.mark.parametrize("make", [nn.SGD, nn.Adagrad, nn.SparseAdam])
def test_resumed_optimizers_go_on_with_the_same_bits(make):
    model = embedding()
    optimizer = make(model.parameters(), lr=0.1)
    for batch in BATCHES:
        if batch is BATCHES[2]:
            twin = copy.deepcopy(model)
            assert isinstance(twin.weight, nn.SparseParameter)
            other = make(twin.parameters(), lr=0.1)
            other.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()
    for batch in BATCHES[2:]:
        other.zero_grad()
        backward(twin, batch)
        other.step()
    assert twin.weight.tolist() == model.weight.tolist()


def test_values_seen_before_a_step_stay():
    model = embedding()
    state, held = model.state_dict(), model.weight.tensor
    before = held.tolist()
    backward(model, BATCHES[0])
    nn.SGD(model.parameters(), lr=0.1).step()
    assert state["weight"].tolist() == held.tolist() == before != model.weight.tolist()


def test_the_padding_row_stays_zero():
    model = embedding(padding_idx=4)
    optimizer = nn.SparseAdam(model.parameters(), lr=0.1)
    for batch in BATCHES:
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()
    assert model.weight.tolist()[4] == [0.0, 0.0, 0.0]


def test_a_table_that_is_also_used_whole_has_a_dense_gradient():
    sparse, dense = embedding(), embedding(False)
    for model in (sparse, dense):
        ft.sum(ft.square(model(BATCHES[0]) @ model.weight.mT)).backward()
    assert not isinstance(sparse.weight.grad, SparseGradient)
    assert near(sparse.weight.grad.tensor, dense.weight.grad.tensor)


# ---- around the step -----------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_clipping_by_norm_is_that_of_dense_gradients(norm_type):
    models = [embedding(), embedding(False)]
    norms = []
    for model in models:
        backward(model, BATCHES[0])
        backward(model, BATCHES[1])
        norms.append(nn.clip_grad_norm_(model.parameters(), 0.5, norm_type).item())
    assert isinstance(models[0].weight.grad, SparseGradient)
    assert norms[0] == pytest.approx(norms[1], rel=1e-12)
    assert near(*map(dense_gradient, models))


def test_clipping_by_value_adds_rows_up_first():
    models = [embedding(), embedding(False)]
    for model in models:
        backward(model, BATCHES[0])
        nn.clip_grad_value_(model.parameters(), 0.5)
    assert isinstance(models[0].weight.grad, SparseGradient)
    assert near(*map(dense_gradient, models))


def test_accumulation_keeps_rows_in_steps_and_checkpoints():
    def run(sparse, interrupted=False):
        model = embedding(sparse)
        accumulation = nn.GradientAccumulation(nn.SGD(model.parameters(), lr=0.1), 3)
        for i, batch in enumerate(BATCHES):
            accumulation.backward(ft.mean(model(batch) ** 3), weight=batch.size)
            if interrupted and i == 1:
                state, table = accumulation.state_dict(), model.state_dict()
                assert sorted(state["tensors"]) == ["0.indices", "0.values"]
                model = embedding()
                model.load_state_dict(table)
                accumulation = nn.GradientAccumulation(nn.SGD(model.parameters(), lr=0.1), 3)
                accumulation.load_state_dict(state)
                assert isinstance(model.weight.grad, SparseGradient)
            accumulation.step()
        accumulation.flush()
        return model.weight.tensor

    assert near(run(True), run(False))
    assert run(True, interrupted=True).tolist() == run(True).tolist()


def test_accumulated_rows_of_another_table_are_refused():
    model, other = embedding(), nn.Embedding(6, 4, sparse=True, dtype=ft.float64)
    accumulation = nn.GradientAccumulation(nn.SGD(model.parameters()), 2)
    accumulation.backward(ft.sum(model(BATCHES[0])))
    target = nn.GradientAccumulation(nn.SGD(other.parameters()), 2)
    with pytest.raises(StateDictError, match="gradient 0.values"):
        target.load_state_dict(accumulation.state_dict())


# ---- ranks ---------------------------------------------------------------------------------------


def two_tables(communicator, uses):
    """The mean gradients over ranks of two tables, of which rank r looks up what `uses[r]` says:
    nothing, a batch, or the table as a whole."""
    from fl_nn.data_parallel import GradientAverage

    tables = [embedding(), embedding()]
    average = GradientAverage(communicator, [m.weight for m in tables])
    unit = average.begin(1)
    for model, use in zip(tables, uses[communicator.rank]):
        if use is not None:
            x = model.weight if use == "dense" else model(use)
            ft.sum(ft.square(x)).backward(1.0 / unit)
    average.finish(0.0)
    return [
        None
        if m.weight.grad is None
        else (isinstance(m.weight.grad, SparseGradient), dense_gradient(m) * average.samples)
        for m in tables
    ]


def test_ranks_add_up_rows():
    uses = [(BATCHES[0], None), (BATCHES[1], None), (None, None)]
    expected = embedding(False)
    for batch in BATCHES[:2]:
        ft.sum(ft.square(expected(batch))).backward()
    for first, second in dist.threads.run(3, two_tables, uses):
        assert first[0] and near(first[1], expected.weight.grad.tensor)
        assert second is None


def test_one_dense_gradient_makes_all_dense():
    uses = [(BATCHES[0], BATCHES[1]), (BATCHES[1], "dense")]
    expected = [embedding(False), embedding(False)]
    for batch in BATCHES[:2]:
        ft.sum(ft.square(expected[0](batch))).backward()
    ft.sum(ft.square(expected[1](BATCHES[1]))).backward()
    ft.sum(ft.square(expected[1].weight)).backward()
    for first, second in dist.threads.run(2, two_tables, uses):
        assert first[0] and near(first[1], expected[0].weight.grad.tensor)
        assert not second[0] and near(second[1], expected[1].weight.grad.tensor)


def fitted(communicator, make):
    """A table after training on 21 samples in batches of 10, 10 and 1, which leaves a rank of two
    without samples."""
    place = {"rank": communicator.rank, "world_size": communicator.world_size}
    words = ft.Generator(3).integers(0, 6, (21, 2))
    dataset = data.TensorDataset(words, ft.sum(words, 1) % 2)
    g = ft.Generator(1)
    model = nn.Sequential(
        nn.Embedding(6, 3, sparse=True, generator=g), nn.Flatten(), nn.Linear(6, 2, generator=g),
    ).to(ft.float64)  # fmt: skip
    optimizer = make(model.parameters(), lr=0.3)
    run = nn.Trainer(model, optimizer, nn.cross_entropy, communicator=communicator, progress=False)
    run.fit(data.Batch(dataset, 10, **place), epochs=2)
    return [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("make", [nn.SGD, nn.SparseAdam])
def test_ranks_train_the_table_that_one_trains(make):
    alone = fitted(dist.local(), make)
    for weights in dist.threads.run(2, fitted, make):
        for one, other in zip(weights, alone):
            assert near(ft.asarray(one), ft.asarray(other), 1e-6)


@needs("float16")
@pytest.mark.parametrize("make", [nn.SGD, nn.Adagrad, nn.SparseAdam])
def test_tables_in_half_precision_learn_small_steps(make):
    """Master weights are float32: a hundred steps that float16 would round away add up."""
    model = nn.Embedding(3, 2, sparse=True, dtype=ft.float16)
    model.weight.tensor = ft.ones((3, 2), ft.float16)
    optimizer = make(model.parameters(), lr=1e-4)
    for _ in range(100):
        optimizer.zero_grad()
        ft.sum(model(ft.asarray([1]))).backward()
        optimizer.step()
    untouched, moved = model.weight.tensor[0].tolist(), model.weight.tensor[1].tolist()
    assert untouched == [1.0, 1.0] and all(0.9 < x < 0.999 for x in moved)


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.fl_heavy
@pytest.mark.parametrize("make", [nn.SGD, nn.Adagrad, nn.SparseAdam])
def test_a_step_allocates_nothing_of_the_size_of_the_table(make):
    with fl_memory.use("caching") as manager:
        model = nn.Embedding(200_000, 64, sparse=True)
        optimizer = make(model.parameters(), lr=0.1)

        def step(seed):
            optimizer.zero_grad()
            x = model(ft.Generator(seed).integers(0, 200_000, (8, 16)))
            ft.sum(ft.square(x)).backward()
            nn.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        step(1)  # allocates the optimizer's own tables
        sizes = []
        stop = manager.on_event(lambda event: sizes.append(event.nbytes))
        step(2)
        stop()
    assert sizes and max(sizes) < model.weight.tensor.nbytes / 100


# ---- what does not go ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        nn.Adam, nn.AdamW, nn.RMSprop, nn.Adadelta, nn.LAMB, nn.Lion, nn.Novograd, nn.NAG,
        nn.Adafactor,
        lambda p, lr: nn.SGD(p, lr, weight_decay=0.1),
        lambda p, lr: nn.Adagrad(p, lr, weight_decay=0.1),
    ],
)  # fmt: skip
def test_optimizers_that_move_every_row_say_so(make):
    model = embedding()
    before = model.weight.tolist()
    optimizer = make(model.parameters(), lr=0.1)
    backward(model, BATCHES[0])
    with pytest.raises(TrainingError, match="gradient of rows.*moves every row.*SparseAdam"):
        optimizer.step()
    assert model.weight.tolist() == before
