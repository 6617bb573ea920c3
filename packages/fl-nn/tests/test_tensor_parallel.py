"""Tensor parallel layers compute what plain layers do, from the same seed."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, parallel


class Block(nn.Module):
    """Attention and two linear layers; `comm` None: the plain ones."""

    def __init__(self, comm=None, heads=4, kv_heads=2):
        if comm is None:
            self.tokens = nn.Embedding(11, 8, padding_idx=3)
            self.attend = nn.MultiHeadAttention(8, heads, kv_heads=kv_heads, rotary=10000.0)
            self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)
        else:
            self.tokens = parallel.VocabParallelEmbedding(11, 8, comm, padding_idx=3)
            self.attend = parallel.ParallelMultiHeadAttention(
                8, heads, comm, kv_heads=kv_heads, rotary=10000.0
            )
            self.up = parallel.ColumnParallelLinear(8, 12, comm)
            self.down = parallel.RowParallelLinear(12, 8, comm)
        self.norm = nn.LayerNorm(8)
        self.head = (
            nn.Linear(8, 6)
            if comm is None
            else parallel.ColumnParallelLinear(8, 6, comm, gather_output=True)
        )

    def forward(self, indices):
        x = self.tokens(indices)
        x = self.norm(x + self.attend(x, causal=True))
        return self.head(x + self.down(ft.gelu(self.up(x))))


def batch(step):
    g = ft.Generator(step)
    indices, target = (ft.floor(ft.rand((3, 5), g) * count).astype(ft.int64) for count in (11, 6))
    return indices, target


def train(model, whole):
    optimizer = nn.AdamW(model.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        indices, target = batch(step)
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(indices), target, axis=-1)
        loss.backward()
        parallel.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: x.tolist() for name, x in whole(model).items()}


def train_plain():
    ft.seed(7)
    model = Block()
    before = {name: x.tolist() for name, x in model.state_dict().items()}
    return before, *train(model, nn.Module.state_dict)


def train_parallel(comm):
    ft.seed(7 if comm.rank == 0 else 8)
    model = Block(comm)
    before = {name: x.tolist() for name, x in parallel.whole_state_dict(model).items()}
    return before, *train(model, parallel.whole_state_dict)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_block_trains_as_the_plain_one(ranks):
    expected = train_plain()
    for before, losses, after in dist.threads.run(ranks, train_parallel):
        assert before == expected[0]
        assert losses == pytest.approx(expected[1], abs=1e-5)
        assert after.keys() == expected[2].keys()
        for name, values in after.items():
            assert ft.allclose(ft.asarray(values), ft.asarray(expected[2][name]), 0, 1e-5), name


def test_heads_without_groups_on_four_ranks():
    def attend(comm):
        ft.seed(1)
        layer = parallel.ParallelMultiHeadAttention(8, 4, comm)
        x = ag.Variable(ft.randn((2, 3, 8), ft.Generator(0)), requires_grad=True)
        other = ft.randn((2, 5, 8), ft.Generator(1))
        y = layer(x, other)
        ft.sum(y * y).backward()
        return y.tolist(), x.grad.tolist()

    one, *others = dist.threads.run(4, attend)
    assert all(other == one for other in others)
    ft.seed(1)
    layer = nn.MultiHeadAttention(8, 4)
    x = ag.Variable(ft.randn((2, 3, 8), ft.Generator(0)), requires_grad=True)
    y = layer(x, ft.randn((2, 5, 8), ft.Generator(1)))
    ft.sum(y * y).backward()
    for found, expected in zip(one, (y, x.grad)):
        assert ft.allclose(ft.asarray(found), expected.detach().tensor, 0, 1e-5)


def test_a_row_layer_takes_what_all_have():
    def layer(comm):
        ft.seed(2)
        made = parallel.RowParallelLinear(6, 4, comm, input_is_parallel=False)
        x = ag.Variable(ft.randn((3, 6), ft.Generator(0)), requires_grad=True)
        y = made(x)
        ft.sum(y * y).backward()
        return y.tolist(), x.grad.tolist(), made.weight.assemble(made.weight.grad.tensor).tolist()

    found = dist.threads.run(3, layer)
    assert found[1] == found[0] and found[2] == found[0]
    ft.seed(2)
    plain = nn.Linear(6, 4)
    x = ag.Variable(ft.randn((3, 6), ft.Generator(0)), requires_grad=True)
    y = plain(x)
    ft.sum(y * y).backward()
    for one, expected in zip(found[0], (y, x.grad, plain.weight.grad)):
        assert ft.allclose(ft.asarray(one), expected.detach().tensor, 0, 1e-5)


def test_gradients_of_gradients_cross_ranks():
    def second(comm):
        x = ag.Variable(ft.arange(1.0, 5.0), requires_grad=True)
        part = parallel.scatter_to(x, comm)
        y = parallel.reduce_from(ft.sum(part * part * part), comm)
        (first,) = ag.grad(y, [x], create_graph=True)
        (found,) = ag.grad(ft.sum(parallel.copy_to(first, comm)) / comm.world_size, [x])
        return first.tolist(), found.tolist()

    for first, found in dist.threads.run(2, second):
        assert first == [3.0, 12.0, 27.0, 48.0]
        assert found == [6.0, 12.0, 18.0, 24.0]


def test_a_whole_state_loads_at_any_number_of_ranks():
    ft.seed(3)
    state = Block(heads=4, kv_heads=4).state_dict()

    def load(comm):
        model = Block(comm, 4, 4)
        parallel.load_whole_state(model, state)
        copy = model.attend.in_proj_weight.__copy__()
        assert copy.whole_shape == (24, 8) and copy.comm is comm
        return {name: x.tolist() for name, x in parallel.whole_state_dict(model).items()}

    for ranks in (1, 2):
        for found in dist.threads.run(ranks, load):
            assert found == {name: x.tolist() for name, x in state.items()}


def test_what_does_not_divide_is_refused():
    def refusals(comm):
        texts = []
        for build in (
            lambda: parallel.ColumnParallelLinear(4, 5, comm),
            lambda: parallel.RowParallelLinear(5, 4, comm),
            lambda: parallel.ParallelMultiHeadAttention(9, 3, comm),
            lambda: parallel.ParallelMultiHeadAttention(8, 4, comm, kv_heads=1),
            lambda: parallel.VocabParallelEmbedding(1, 4, comm),
            lambda: parallel.scatter_to(ft.zeros((2, 3)), comm),
        ):
            with pytest.raises(ModuleError) as refused:
                build()
            texts.append(str(refused.value))
        return texts

    for texts in dist.threads.run(2, refusals):
        assert "5 outputs do not divide over 2 ranks" in texts[0]
        assert "5 inputs do not divide over 2 ranks" in texts[1]
        assert "3 heads" in texts[2] and "1 kv_heads" in texts[3]
        assert "1 rows over 2 ranks" in texts[4] and "(2, 3)" in texts[5]


def test_a_whole_state_that_does_not_fit_is_refused():
    def load(comm):
        layer = parallel.ColumnParallelLinear(4, 6, comm)
        before = layer.weight.tolist()
        with pytest.raises(nn.StateDictError, match=r"shape \(3, 4\), here \(6, 4\).*bias"):
            parallel.load_whole_state(layer, {"weight": ft.zeros((3, 4))})
        return layer.weight.tolist() == before

    assert all(dist.threads.run(2, load))
