"""SyncBatchNorm: BatchNorm of the batch of all ranks."""

from __future__ import annotations

import copy

import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft


def parts(sizes, features=3, dtype="float64"):
    """The batch of all ranks, far from zero, and the rows of each rank."""
    x = 100.0 + ft.randn((sum(sizes), features, 2), ft.Generator(1), dtype=ft.float64)
    x, ends = x.astype(ft.dtype(dtype)), [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return x, [x[a:b] for a, b in zip(ends, ends[1:])]


def layer(dtype="float64", **options):
    made = nn.BatchNorm(3, **options).to(dtype)
    made.weight.tensor = ft.asarray([1.0, -2.0, 0.5], made.weight.dtype)
    return made


def run(made, x):
    """What a layer makes of x, the gradients of x and parameters, and its buffers."""
    x = ag.Variable(x, requires_grad=True)
    y = made(x)
    ft.sum(ft.sin(y * 3.0)).backward()
    grads = [v.grad.tensor for v in (x, made.weight, made.bias)]
    return [y.tensor, *grads, made.running_mean, made.running_var, made.num_batches_tracked]


def near(x, y, bound):
    return x.shape == y.shape and (not x.size or ft.max(ft.absolute(x - y)).item() < bound)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("sizes", [(4, 4), (5, 2, 1), (6, 0), (0, 1, 1)])
def test_equal_to_the_layer_that_sees_the_whole_batch(sizes, momentum):
    whole, shares = parts(sizes)

    def program(communicator):
        made = nn.convert_sync_batchnorm(layer(momentum=momentum), communicator)
        return run(made, shares[communicator.rank])

    y, dx, dw, db, *buffers = run(layer(momentum=momentum), whole)
    ranks = dist.threads.run(len(sizes), program)
    assert near(ft.concatenate([rank[0] for rank in ranks]), y, 1e-11)
    assert near(ft.concatenate([rank[1] for rank in ranks]), dx, 1e-10)
    assert near(sum(rank[2] for rank in ranks), dw, 1e-10)
    assert near(sum(rank[3] for rank in ranks), db, 1e-10)
    for rank in ranks:
        assert all(near(a, b, 1e-11) for a, b in zip(rank[4:], buffers))
        assert [x.tolist() for x in rank[4:]] == [x.tolist() for x in ranks[0][4:]]


def test_no_digits_are_lost_far_from_zero_in_single_precision():
    whole, shares = parts((8, 8), dtype="float32")

    def program(communicator):
        made = nn.convert_sync_batchnorm(layer("float32"), communicator)
        return made(1000.0 + shares[communicator.rank]).tolist()

    expected = layer("float32")(1000.0 + whole)
    found = ft.concatenate([ft.asarray(y) for y in dist.threads.run(2, program)])
    assert near(found, expected.tensor, 2e-3)


def test_gradients_of_gradients():
    _, shares = parts((3, 3))

    def program(communicator):
        made = nn.convert_sync_batchnorm(layer(), communicator)
        x = ag.Variable(shares[communicator.rank], requires_grad=True)
        (g,) = ag.grad(ft.sum(made(x) ** 3), [x], create_graph=True)
        ft.sum(g * g).backward()
        return x.grad.tensor

    whole = layer()
    x = ag.Variable(parts((3, 3))[0], requires_grad=True)
    (g,) = ag.grad(ft.sum(whole(x) ** 3), [x], create_graph=True)
    ft.sum(g * g).backward()
    found = ft.concatenate(dist.threads.run(2, program))
    assert near(found, x.grad.tensor, 1e-7 * ft.max(ft.absolute(x.grad.tensor)).item())


def test_converting_keeps_parameters_buffers_and_settings():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3, momentum=None, eps=1e-3), nn.ReLU())
    state, weight = model.state_dict(), model[1].weight
    assert nn.convert_sync_batchnorm(model, dist.local()) is model
    assert isinstance(model[1], nn.SyncBatchNorm) and model[1].weight is weight
    assert (model[1].momentum, model[1].eps) == (None, 1e-3)
    assert model.state_dict().keys() == state.keys()
    single = nn.convert_sync_batchnorm(nn.BatchNorm(3), dist.local())
    assert isinstance(single, nn.SyncBatchNorm)


def test_evaluation_and_one_rank_are_those_of_batch_norm():
    x = parts((4,))[0]
    plain, single = layer(), nn.convert_sync_batchnorm(layer(), dist.local())
    assert plain(x).tolist() == single(x).tolist()

    def program(communicator):
        made = nn.convert_sync_batchnorm(layer(), communicator).eval()
        # No collective: the ranks make different numbers of calls.
        return [made(x).tolist() for _ in range(1 + communicator.rank)][0]

    expected = layer().eval()(x).tolist()
    assert dist.threads.run(2, program) == [expected] * 2


def test_a_copy_has_no_communicator():
    def program(communicator):
        made = nn.convert_sync_batchnorm(layer(), communicator)
        twin = copy.deepcopy(made)
        return made.communicator is communicator, twin.communicator is None

    assert dist.threads.run(2, program) == [(True, True)] * 2


def test_one_value_on_all_ranks_is_refused_on_all():
    def program(communicator):
        made = nn.convert_sync_batchnorm(nn.BatchNorm(3), communicator)
        with pytest.raises(ft.ShapeError, match="1 values per feature on all ranks"):
            made(ft.ones((1 - communicator.rank, 3)))
        return True

    assert dist.threads.run(2, program) == [True, True]
