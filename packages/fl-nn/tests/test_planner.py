"""The planner: its peaks are those of a run, its sums are right, its refusals say what to do."""

from __future__ import annotations

import gc

import pytest

import fl_dist as dist
import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_nn.parallel import Pipeline, Sharded, planner
from fl_nn.parallel.measurements import UnitSize
from fl_nn.parallel.message_costs import Line
from fl_nn.parallel.step_segments import Segment

SIZE, LAYERS, CLASSES = 96, 3, 8


@pytest.fixture(autouse=True)
def backend_with_kernels():
    """NumPy in place of a backend in pure Python, on which the model takes minutes."""
    name = ft.current_backend().name
    with ft.use(name if name in ("numpy", "jit") else "numpy"):
        yield


def make_model():
    ft.seed(0)
    layers = [nn.TransformerEncoderLayer(SIZE, 4, 4 * SIZE) for _ in range(LAYERS)]
    return nn.Sequential(*layers, nn.Linear(SIZE, CLASSES))


def make_batch(rank=0):
    g = ft.Generator(rank)
    x = ft.randn((4, 48, SIZE), g)
    target = ft.floor(ft.rand((4, 48), g) * CLASSES).astype(ft.int64)
    ft.eval(x, target)
    return x, target


def loss(output, target):
    return nn.cross_entropy(ft.reshape(output, (-1, CLASSES)), ft.reshape(target, (-1,)))


def measured(comm=None, **options):
    model = make_model()
    optimizer = nn.AdamW(model.parameters())
    return planner.measure(model, make_batch(), loss, optimizer, comm, **options)


# ---- peaks: predicted, and of a run ----------------------------------------------------------


def most_live(manager, step):
    """The most bytes alive in a step that others went before."""
    live = most = manager.stats().live_bytes

    def count(event):
        nonlocal live, most
        if event.kind in ("alloc", "free"):
            live += event.nbytes if event.kind == "alloc" else -event.nbytes
            most = max(most, live)

    # From the first step on: while memory is observed, no updates are joined, and the first such
    # step would be a new program for `jit`, which reuses more memory once a program repeats itself.
    remove = manager.on_event(count)
    for _ in range(10):
        step()
    gc.collect()
    gc.disable()
    most = live
    step()
    remove()
    gc.enable()
    return most


def peak_of(plan, comm):
    with mem.use(SystemManager()) as manager:
        model, (x, target) = make_model(), make_batch(comm.rank)
        trained = plan.apply(model, nn.AdamW(model.parameters()), comm)

        def step():
            trained.zero_grad()
            loss(model(x), target).backward()
            trained.step()

        return most_live(manager, step)


def peak_of_pipeline(plan, comm, microbatches):
    with mem.use(SystemManager()) as manager:
        layers, (x, target) = list(make_model()), make_batch()
        bounds = [0, *plan.cuts, len(layers)]
        stages = [nn.Sequential(*layers[a:b]) for a, b in zip(bounds, bounds[1:])]
        own = [stage if rank == comm.rank else None for rank, stage in enumerate(stages)]
        del layers, stages
        pipe = Pipeline(own, comm, microbatches)
        optimizer = nn.AdamW(pipe.model.parameters())

        def step():
            optimizer.zero_grad()
            pipe.forward_backward(x, target, loss)
            optimizer.step()

        return most_live(manager, step)


def peaks(comm, settings):
    """(predicted, of the run) for each setting, on the rank that has most."""
    found = measured(comm)
    pairs = []
    for stage, checkpointed in settings:
        plan = planner.predict(found, stage, checkpointed, (), comm.world_size)
        most = comm.all_reduce(ft.asarray(peak_of(plan, comm), ft.int64), "max").item()
        pairs.append((plan.predicted_peak_bytes, most))
    return pairs


def pipeline_peaks(comm):
    plan = planner.predict(measured(comm), 0, (), (2,), 2, 4)
    most = ft.asarray(peak_of_pipeline(plan, comm, 4), ft.int64)
    return plan.predicted_peak_bytes, comm.all_reduce(most, "max").item()


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_peaks_with_and_without_checkpoints(backend, monkeypatch):
    if backend == "jit":
        # With the settings of programs: plans made at the first run reuse less memory.
        for name in ("FL_JIT_COMPILE_AFTER", "FL_JIT_MIN_SIZE"):
            monkeypatch.delenv(name, raising=False)
        backend = pytest.importorskip("fl_jit").JitBackend()
    with ft.use(backend):
        pairs = peaks(dist.local(), [(0, ()), (0, (0, 1)), (0, range(LAYERS + 1))])
    for predicted, run in pairs:
        assert predicted == pytest.approx(run, rel=0.15)
    assert pairs[2][1] < 0.9 * pairs[0][1]


def test_peaks_at_the_stages_of_sharding():
    with ft.use("numpy"):
        pairs = dist.load("processes").run(2, peaks, [(1, ()), (2, ()), (3, ()), (3, (0, 1))])[0]
    for predicted, run in pairs:
        assert predicted == pytest.approx(run, rel=0.15)


def test_the_peak_of_a_pipeline():
    with ft.use("numpy"):
        predicted, run = dist.load("processes").run(2, pipeline_peaks)[0]
    assert predicted == pytest.approx(run, rel=0.15)


# ---- measure ---------------------------------------------------------------------------------


def test_measure_leaves_model_and_optimizer_as_they_are():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm(6), nn.Linear(6, 2))
    optimizer = nn.Adam(model.parameters())
    before = {name: x.tolist() for name, x in model.state_dict().items()}
    x, target = ft.randn((8, 6)), ft.zeros((8,), dtype=ft.int64)
    planner.measure(model, (x, target), nn.cross_entropy, optimizer, rounds=1)
    assert {name: x.tolist() for name, x in model.state_dict().items()} == before
    assert not any(optimizer.state) and all(p.grad is None for p in model.parameters())
    nn.cross_entropy(model(x), target).backward()  # nothing is checkpointed, hooked or sharded
    assert all("forward" not in vars(child) for _, child in model.named_children())
    optimizer.step()


def test_measure_finds_parameters_activations_and_the_rest(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(ft.ones((256,)))
            self.up = nn.Linear(256, 512, bias=False)
            self.down = nn.Linear(512, 256, bias=False)
            self.down.weight.requires_grad = False

        def forward(self, x):
            return self.down(ft.tanh(self.up(x * self.scale)))

    with ft.use("numpy"):
        model, x = Model(), ft.ones((64, 256))
        trained = [p for p in model.parameters() if p.requires_grad]
        found = planner.measure(
            model, (x, x), nn.mse, nn.SGD(trained, 0.1), rounds=1, folder=tmp_path
        )
    assert [unit.name for unit in found.units] == ["up", "down", "(rest)"]
    assert [unit.parameter_bytes for unit in found.units] == [2**19, 2**19, 2**10]
    assert [unit.trained_bytes for unit in found.units] == [2**19, 0, 2**10]
    assert [unit.output_bytes for unit in found.units] == [2**17, 2**16, 0]
    assert found.batch_bytes == 2 * x.nbytes and found.state_bytes == 0
    assert found.chain and found.swap > 0
    gradients = sum(segment.growth for segment in found.plain)
    assert gradients == pytest.approx(2**19, rel=0.05)
    assert "| up |" in str(found) and "update:" in str(found)


def test_ranks_get_the_same_measurements():
    def both(comm):
        return planner.search(measured(comm, rounds=1), 1 << 30, comm.world_size)

    one, other = dist.threads.run(2, both)
    assert one == other and {plan.stage for plan in one} == {0, 1, 2, 3}


def measure_of(model, optimizer, **options):
    return planner.measure(model, (ft.ones((2, 3)), ft.ones((2, 3))), nn.mse, optimizer, **options)


def test_measure_refuses_what_it_cannot_divide():
    alone = nn.Linear(3, 3)
    with pytest.raises(nn.ModuleError, match="no modules below it.*put its layers into nn.Seq"):
        measure_of(alone, nn.SGD(alone.parameters(), 0.1))
    model = nn.Sequential(nn.Linear(3, 3))
    optimizer = nn.SGD(model.parameters(), 0.1)
    with pytest.raises(nn.ModuleError, match="not below this Sequential"):
        measure_of(model, optimizer, units=[alone])
    with pytest.raises(nn.ModuleError, match="rounds=0"):
        measure_of(model, optimizer, rounds=0)

    class Unused(nn.Module):
        def __init__(self):
            self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    class Changing(nn.Sequential):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(super().forward(x) if self.calls % 2 else x)

    changing = Changing(nn.Linear(3, 3))
    with pytest.raises(nn.ModuleError, match="steps of this Changing call its units differently"):
        measure_of(changing, nn.SGD(changing.parameters(), 0.1))
    model = Unused()
    with pytest.raises(nn.ModuleError, match="unit 1, a Linear, is not called by Unused"):
        measure_of(model, nn.SGD(model.parameters(), 0.1))
    for parameter in model.parameters():
        parameter.requires_grad = False
    with pytest.raises(nn.ModuleError, match="no parameter of the optimizer learns"):
        measure_of(model, nn.SGD(model.parameters(), 0.1))


# ---- search: figures that can be added up by hand --------------------------------------------


def figures(count=2, **changes):
    """Units of 100 bytes of parameters that save 1,000 bytes and 10 under a checkpoint, which takes
    2 + 4 ms, and 6 ms where the forward pass runs again."""

    def segments(saved, backward_ms):
        forward = [Segment(i, "forward", 2.0, saved, saved) for i in range(count)]
        backward = [
            Segment(i, "backward", backward_ms, 100 - saved, 100) for i in reversed(range(count))
        ]
        return (*forward, *backward)

    units = (*(UnitSize(str(i), 100, 100, 10) for i in range(count)), UnitSize("(rest)", 0, 0, 0))
    given = planner.Measurements(
        units=units,
        plain=segments(1000, 4.0),
        checkpointed=segments(10, 6.0),
        update_ms=1.0,
        update_peak=0,
        largest=100,
        state_bytes=200 * count,
        batch_bytes=50,
        buckets=(100 * count,),
        links={
            name: Line(0.5, 0.01)
            for name in ("all_reduce", "reduce_scatter_tensor", "all_gather_tensor", "send", "copy")
        },
        workspace=dict.fromkeys(("all_reduce", "reduce_scatter_tensor", "all_gather_tensor"), 1.0),
        swap=None,
        chain=True,
    )
    return given._replace(**changes)


def test_times_and_bytes_are_added_up():
    plain = planner.predict(figures(), 0, ())
    # Batch, parameters and state, then all that is saved; the first gradient comes on top.
    assert (plain.predicted_ms, plain.predicted_peak_bytes) == (13.0, 50 + 200 + 400 + 2000 + 100)
    half = planner.predict(figures(), 0, (0,))
    assert (half.predicted_ms, half.predicted_peak_bytes) == (15.0, 50 + 200 + 400 + 1010 + 100)
    assert half.checkpointed == ("0",)


def test_the_fastest_plan_that_fits_is_first():
    plans = planner.search(figures(), 3000, 1)
    assert [plan.checkpointed for plan in plans] == [(), ("0",), ("1",), ("0", "1")]
    best = planner.search(figures(), 2000, 1)[0]
    assert len(best.checkpointed) == 1 and best.predicted_peak_bytes <= 2000
    text = planner.table(plans)
    assert text.count("\n") == 5 and "| 0 | 0, 1 | - | 0 | 17 |" in text


def test_sharding_costs_messages_and_saves_state():
    by_stage = {
        stage: planner.predict(figures(), stage, (), (), 2).predicted_peak_bytes
        for stage in (0, 1, 2, 3)
    }
    assert by_stage[0] - by_stage[1] == 200  # half of the state
    assert by_stage[3] < by_stage[2]
    one = planner.predict(figures(), 1, (), (), 2)
    # Copies of gradients and share, two messages of 200 bytes, half an update.
    assert one.predicted_ms == 12 + (2.5 + 2.5) + 1.5 + 0.5 + 2.5
    assert one.predicted_peak_bytes == 50 + 200 + 200 + 2000 + 100
    three = planner.predict(figures(), 3, (), (), 2)
    # Each unit is gathered twice, and its gradients are copied and sent.
    assert three.predicted_ms == 12 + 4 * 1.5 + 2 * (1.5 + 1.5) + 0.5
    # Shares, a reduction of the step before, one unit and its gradients.
    assert three.predicted_peak_bytes == 50 + 200 + 100 + 50 + 2000 + 100 + 100
    slow = figures(links=dict.fromkeys(figures().links, Line(1000.0, 0.0)))
    assert planner.search(slow, 10**6, 2)[0].predicted_ms > 1000
    assert planner.search(slow, 10**6, 2)[0].stage == 0


def test_a_pipeline_is_cut_where_its_slowest_stage_is_fastest():
    found = figures(4)
    uneven = tuple(s._replace(ms=9.0) if s.unit == 3 else s for s in found.plain)
    found = found._replace(plain=uneven, checkpointed=uneven)
    best = planner.search(found, 10**6, 2, stages=(0,), microbatches=8)[0]
    assert best.cuts == (3,)
    assert not any(p.cuts for p in planner.search(found, 10**6, 2))  # unless asked for


def test_off_load_takes_the_time_of_the_file():
    found = figures(swap=100.0)
    plans = planner.search(found, 2000, 1)
    plain = next(plan for plan in plans if not plan.checkpointed)
    assert plain.offload == 750 and plain.predicted_peak_bytes == 2000
    assert plain.predicted_ms == pytest.approx(13.0 + 7.5)
    with pytest.raises(nn.ModuleError, match="none of"):
        planner.search(found, 600, 1)  # a unit needs 1,000 at once


def test_many_units_are_checkpointed_in_the_order_of_what_it_saves():
    found = figures(20)
    dear = tuple(
        s._replace(ms=50.0) if (s.unit, s.phase) == (0, "backward") else s
        for s in found.checkpointed
    )
    plans = planner.search(found._replace(checkpointed=dear), 10**6, 1)
    assert len(plans) == 21
    assert [len(plan.checkpointed) for plan in plans] == list(range(21))
    assert all("0" not in plan.checkpointed for plan in plans[:-1])


def test_the_error_names_the_smallest_peak_and_its_plan():
    least = planner.predict(figures(), 0, (0, 1)).predicted_peak_bytes
    message = f"none of 4 plans for 1 ranks.*smallest peak is {least} bytes.*2 of 2 units"
    with pytest.raises(nn.ModuleError, match=message):
        planner.search(figures(), 100, 1)
    assert planner.search(figures(), least, 1)[0].predicted_peak_bytes == least


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"budget": 0}, "a budget of 0 bytes: give an integer above 0"),
        ({"budget": 1.5}, "a budget of 1.5 bytes"),
        ({"world_size": 0}, "world_size=0"),
        ({"stages": (4,)}, r"stages=\(4,\): give some of 0, 1, 2 and 3"),
        ({"stages": ()}, r"stages=\(\)"),
        ({"microbatches": 0}, "microbatches=0"),
    ],
)
def test_bad_arguments(arguments, message):
    given = {"budget": 10**6, "world_size": 1, **arguments}
    with pytest.raises(nn.ModuleError, match=message):
        planner.search(figures(), **given)


def test_ranks_without_measured_messages():
    with pytest.raises(nn.ModuleError, match=r"2 ranks.*measure\(\.\.\., comm\)"):
        planner.search(figures(links={}), 10**6, 2)


# ---- apply -----------------------------------------------------------------------------------


def plan_of(stage=0, checkpointed=(), cuts=(), world_size=1):
    return planner.Plan(stage, checkpointed, cuts, 0, 1.0, 1, world_size)


def gradients(checkpointed):
    model, (x, target) = make_model(), make_batch()
    optimizer = nn.AdamW(model.parameters())
    assert plan_of(checkpointed=checkpointed).apply(model, optimizer) is optimizer
    ft.seed(1)
    loss(model(x), target).backward()
    return [p.grad.tensor for p in model.parameters()]


def test_a_plan_checkpoints_its_units():
    for one, other in zip(gradients(()), gradients(("0", "2"))):
        assert ft.allclose(one, other, 1e-5, 1e-6)


def sharded_losses(comm, checkpointed):
    model = make_model().eval()  # dropout would draw other numbers on each rank
    made = plan_of(3, checkpointed, world_size=2).apply(
        model, nn.SGD(model.parameters(), 0.1), comm
    )
    assert isinstance(made, Sharded) and made.stage == 3
    found = []
    for _ in range(2):
        made.zero_grad()
        value = loss(model(make_batch()[0]), make_batch()[1])
        value.backward()
        made.step()
        found.append(value.item())
    return found


def test_a_plan_shards_and_checkpoints():
    plain = dist.threads.run(2, sharded_losses, ())[0]
    assert dist.threads.run(2, sharded_losses, ("0", "3"))[0] == pytest.approx(plain, rel=1e-5)


def test_apply_refuses_what_is_not_simple():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    optimizer = nn.SGD(model.parameters(), 0.1)
    with pytest.raises(nn.ModuleError, match=r"cuts the model before units 1: build.*Pipeline"):
        plan_of(cuts=(1,), world_size=2).apply(model, optimizer)
    with pytest.raises(nn.ModuleError, match="1 ranks, and the plan is for 2: search again"):
        plan_of(stage=1, world_size=2).apply(model, optimizer)
    with pytest.raises(nn.ModuleError, match="no module 'deep' below this Sequential"):
        plan_of(checkpointed=("deep",)).apply(model, optimizer)
    assert all("forward" not in vars(child) for _, child in model.named_children())
