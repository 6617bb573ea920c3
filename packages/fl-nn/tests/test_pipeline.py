"""A pipeline computes what the whole model does, and holds few microbatches."""

from __future__ import annotations

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, TrainingError, parallel


class First(nn.Module):
    def __init__(self, g):
        self.layer = nn.Linear(4, 6, generator=g)

    def forward(self, x):
        h = ft.tanh(self.layer(x))
        return h, h * h, (x[:, 0] > 0).astype(ft.int64)


class Middle(nn.Module):
    def __init__(self, g):
        self.layer = nn.Linear(6, 6, generator=g)

    def forward(self, h, square, sign):
        return self.layer(h) + square, ft.expand_dims(sign, 1)


class Last(nn.Module):
    def __init__(self, g):
        self.layer = nn.Linear(6, 3, generator=g)

    def forward(self, h, sign):
        return self.layer(h * sign)


def stages(count):
    g = ft.Generator(0)
    if count == 3:
        return [First(g), Middle(g), Last(g)]
    return [nn.Sequential(nn.Linear(4, 8, generator=g), nn.ReLU())] + [
        nn.Linear(8, 3 if i == count - 2 else 8, generator=g) for i in range(count - 1)
    ]


def batch(step, samples):
    g = ft.Generator(10 + step)
    return ft.randn((samples, 4), g), ft.floor(ft.rand((samples,), g) * 3).astype(ft.int64)


SAMPLES = (10, 10, 7)  # 4 microbatches of different sizes, and a short batch


def train_whole(count):
    parts = stages(count)
    parameters = [p for part in parts for p in part.parameters()]
    optimizer, losses = nn.SGD(parameters, lr=0.1, momentum=0.9), []
    for step, samples in enumerate(SAMPLES):
        x, y = batch(step, samples)
        optimizer.zero_grad()
        for part in parts:
            x = part(*x) if isinstance(x, tuple) else part(x)
        loss = nn.cross_entropy(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    x, _ = batch(0, 5)
    for part in parts:
        x = part(*x) if isinstance(x, tuple) else part(x)
    state = {f"{i}.{k}": v.tolist() for i, p in enumerate(parts) for k, v in p.state_dict().items()}
    return losses, state, x.tolist()


def train_pipeline(comm, schedule):
    pipe = parallel.Pipeline(stages(comm.world_size), comm, 4, schedule)
    optimizer, losses = nn.SGD(pipe.model.parameters(), lr=0.1, momentum=0.9), []
    for step, samples in enumerate(SAMPLES):
        x, y = batch(step, samples)
        optimizer.zero_grad()
        losses.append(
            pipe.forward_backward(
                x if pipe.is_first else None, y if pipe.is_last else None, nn.cross_entropy
            )
        )
        optimizer.step()
    output = pipe.forward(batch(0, 5)[0])
    state = {name: x.tolist() for name, x in pipe.state_dict().items()}
    return losses, state, None if output is None else output.tolist()


def close(found, expected):
    return bool(ft.allclose(ft.asarray(found), ft.asarray(expected), 0, 1e-5).item())


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_pipeline_trains_as_the_whole_model(count, schedule):
    expected = train_whole(count)
    found = dist.threads.run(count, train_pipeline, schedule)
    for losses, state, _ in found:
        assert losses == pytest.approx(expected[0], abs=1e-5)
        assert state and all(close(x, expected[1][name]) for name, x in state.items())
    assert [output is None for *_, output in found] == [True] * (count - 1) + [False]
    assert close(found[-1][2], expected[2])
    assert sum(len(state) for _, state, _ in found) == len(expected[1])


def test_1f1b_holds_fewer_microbatches_than_gpipe():
    def held(comm, schedule):
        most = under_way = 0

        class Counted(nn.Linear):
            def forward(self, x):
                nonlocal most, under_way
                under_way += 1
                most = max(most, under_way)
                y = super().forward(x)

                def left(gradient):
                    nonlocal under_way
                    under_way -= 1

                y.register_hook(left)
                return y

        module = Counted(4, 4, generator=ft.Generator(0))
        pipe = parallel.Pipeline(
            [module if r == comm.rank else None for r in range(comm.world_size)], comm, 6, schedule
        )
        pipe.forward_backward(ft.ones((6, 4)), ft.ones((6, 4)), nn.mse)
        return most

    assert dist.threads.run(3, held, "1f1b") == [3, 2, 1]
    assert dist.threads.run(3, held, "gpipe") == [6, 6, 6]


def test_shapes_are_told_once():
    sent = []

    def count(comm):
        pipe = parallel.Pipeline([nn.Linear(4, 4), nn.Linear(4, 4)], comm, 2)
        send = comm.send

        def counted(x, dst, *, tag=0, **options):
            sent.append((comm.rank, tag))
            return send(x, dst, tag=tag, **options)

        comm.send = counted
        for _ in range(3):
            pipe.forward_backward(ft.ones((4, 4)), ft.ones((4, 4)), nn.mse)

    dist.threads.run(2, count)
    assert len([1 for rank, tag in sent if rank == 0 and tag == 0]) == 6
    assert len([1 for rank, tag in sent if rank == 0 and tag == 2]) == 2
    assert len([1 for rank, tag in sent if rank == 1]) == 6


def test_refusals():
    def refused(comm):
        a, b = nn.Linear(2, 2), nn.Linear(2, 2)
        tied = nn.Linear(2, 2)
        tied.weight = a.weight
        texts = []
        for given in (
            ([a], 1, "1f1b"),
            ([a, b], 0, "1f1b"),
            ([a, b], 1, "2f2b"),
            ([a, tied], 1, "1f1b"),
            ([None, None], 1, "1f1b"),
        ):
            with pytest.raises(ModuleError) as error:
                parallel.Pipeline(given[0], comm, *given[1:])
            texts.append(str(error.value))
        pipe = parallel.Pipeline([a, b], comm, 3)
        with pytest.raises(TrainingError, match="2 samples for 3 microbatches"):
            pipe.forward_backward(ft.ones((2, 2)), ft.ones((2, 2)), nn.mse)
        return texts

    for texts in dist.threads.run(2, refused):
        assert "1 stages for 2 ranks" in texts[0]
        assert "microbatches=0" in texts[1]
        assert "give 1f1b or gpipe" in texts[2]
        assert "weight of stage 0 and weight of stage 1 are one parameter" in texts[3]
        assert "is None on its own rank" in texts[4]


def test_inputs_and_targets_of_different_sizes_are_refused():
    def wrong(comm):
        pipe = parallel.Pipeline([nn.Linear(2, 2), nn.Linear(2, 2)], comm, 2)
        pipe.forward_backward(ft.ones((4, 2)), ft.ones((3, 2)), nn.mse)

    with pytest.raises(dist.ProgramError, match=r"array \(3, 2\) in a batch of 4 samples"):
        dist.threads.run(2, wrong)
