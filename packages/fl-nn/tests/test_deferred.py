"""Values that are not computed yet are values: whatever takes a tensor takes them."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
from collections import Counter

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

np = pytest.importorskip("numpy", reason="jit is a backend over NumPy")


@pytest.fixture
def jit(monkeypatch):
    """The backend, putting everything off, and planning what it sees twice."""
    pytest.importorskip("fl_jit", reason="the deferred backend is not installed")
    backend = ft.get_backend("jit")
    monkeypatch.setattr(backend, "smallest", 1)
    monkeypatch.setattr(backend.plans, "background", False)
    monkeypatch.setattr(backend.plans.policy, "patience", 0)
    monkeypatch.setattr(backend.plans.policy, "rest", 0)
    with ft.use("jit"):
        yield backend


def deferred(jit, values=(1.0, 2.0, 3.0)):
    """A tensor that is not there yet: twice the values."""
    x = ft.asarray(values) * 2.0
    assert jit._pending.calls, "it is computed already"
    return x


LOOKS = {
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "from_dlpack": lambda x: ft.from_dlpack(x),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "tobytes": lambda x: ft.frombytes(x.tobytes(), x.shape, x.dtype),
    "detached": lambda x: ag.Variable(x).tensor,
    "iteration": lambda x: ft.stack(list(x)),
}


@pytest.mark.parametrize("look", LOOKS)
def test_every_way_out(jit, look):
    if look == "numpy" and not hasattr(ft.Tensor, "numpy"):
        pytest.skip("np.asarray(x) is the way")
    for _ in range(3):
        x = deferred(jit)
        found = LOOKS[look](x)
        assert np.asarray(found).tolist() == [2.0, 4.0, 6.0] == x.tolist()


def test_a_copy_is_a_value_of_its_own(jit):
    for make in (copy.copy, copy.deepcopy, lambda x: x.copy()):
        x = deferred(jit)
        y = make(x)
        x[0] = 9.0
        assert (x[0].item(), y[0].item()) == (9.0, 2.0)


class Digits:
    """A small classification: a network, its optimizer, the same batches each time."""

    def __init__(self, optimizer=nn.AdamW):
        ft.seed(5)
        self.model = nn.Sequential(
            nn.Conv2D(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm(4),
            nn.ReLU(),
            nn.Pool2D(2),
            nn.View((-1, 4 * 3 * 3)),
            nn.Dropout(0.2),
            nn.Linear(36, 5),
        )
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)
        g = ft.Generator(6)
        self.x, self.y = g.normal((8, 1, 6, 6)), g.integers(0, 5, 8)

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def weights(self):
        return {name: np.asarray(x) for name, x in self.model.state_dict().items()}


@pytest.mark.parametrize("optimizer", [nn.SGD, nn.AdamW, nn.RMSprop])
def test_training_is_that_of_numpy(jit, optimizer):
    with ft.use("numpy"):
        expected = Digits(optimizer)
        losses = [expected.step().item() for _ in range(6)]
    training = Digits(optimizer)
    assert [training.step().item() for _ in range(6)] == pytest.approx(losses, rel=1e-4)
    for name, wanted in expected.weights().items():
        np.testing.assert_allclose(training.weights()[name], wanted, rtol=2e-3, atol=2e-5)


def test_weights_and_checkpoints_of_values_that_are_not_there_yet(jit, tmp_path):
    training = Digits()
    for _ in range(3):
        training.step()
    for p in training.model.parameters():
        p.tensor = p.tensor * 0.5  # put off
    nn.save_weights(tmp_path / "weights.safetensors", training.model)
    nn.save_checkpoint(tmp_path / "all", training.model, training.optimizer)
    first, second = Digits(), Digits()
    nn.load_weights(tmp_path / "weights.safetensors", first.model)
    nn.load_checkpoint(tmp_path / "all").restore(second.model, second.optimizer)
    for other in (first, second):
        for name, wanted in training.weights().items():
            np.testing.assert_array_equal(other.weights()[name], wanted)


def test_modules_are_pickled_and_copied(jit):
    training = Digits()
    training.step()
    for other in (pickle.loads(pickle.dumps(training.model)), copy.deepcopy(training.model)):
        for name, wanted in training.weights().items():
            np.testing.assert_array_equal(np.asarray(other.state_dict()[name]), wanted)


def test_meters_take_losses_that_are_not_there_yet(jit):
    mean, accuracy = nn.AverageValueMeter(), nn.FrameErrorMeter(accuracy=True)
    training = Digits()
    for _ in range(3):
        mean.add(training.step() * 2.0)
        accuracy.add(training.model(training.x) * 1.0, training.y)
    assert 0.0 < mean.value.mean < 10.0 and 0.0 <= accuracy.value <= 100.0


@pytest.mark.defect("V9")
def test_probabilities_are_not_computed_for_the_sake_of_a_check(jit):
    probs, targets = deferred(jit, [0.25, 0.4]), ft.ones(2)
    loss = nn.binary_cross_entropy(probs, targets)
    assert not ft.is_ready(probs) and loss.item() == pytest.approx(-math.log(0.5 * 0.8) / 2)

    probs = deferred(jit, [0.25, 1.5])
    loss = nn.binary_cross_entropy(probs, targets)
    assert not ft.is_ready(probs) and math.isnan(loss.item())
    with pytest.raises(ft.ArgumentError, match="probs hold 3"):
        nn.binary_cross_entropy(ft.asarray(probs.tolist()), targets)


@pytest.mark.defect("V9")
def test_the_trainer_says_which_probabilities_made_the_loss_nan(jit):
    model = nn.Linear(3, 1, generator=ft.Generator(0))
    trainer = nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.1), nn.binary_cross_entropy, progress=False
    )
    with pytest.raises(nn.TrainingError, match=r"the loss is nan.*probs hold .*expected 0 \.\. 1"):
        trainer.fit([(ft.full((4, 3), 50.0), ft.ones((4, 1)))], epochs=1)


def test_an_override_sees_as_many_additions_as_under_numpy(jit):
    def additions():
        training, seen = Digits(), Counter()

        def add(inner, x, y):
            seen[phase] += 1
            return inner.add(x, y)

        with ft.override(add=add):
            for _ in range(3):
                phase = "forward"
                loss = nn.cross_entropy(training.model(training.x), training.y)
                phase = "backward"
                loss.backward()
                phase = "optimizer"
                training.optimizer.step()
                training.optimizer.zero_grad()
        return seen

    with ft.use("numpy"):
        wanted = additions()
    assert additions() == wanted
    assert all(wanted[phase] >= 3 for phase in ("forward", "backward", "optimizer"))


def test_an_override_changes_what_is_computed(jit):
    def one(add):
        with ft.override(add=add):
            x = ag.Variable(ft.ones(4), requires_grad=True)
            y = nn.Linear(4, 4, generator=ft.Generator(1))(x) + x
            (ft.layer_norm(y) + y).sum().backward()
            return np.asarray(x.grad)

    def doubled(inner, x, y):
        return inner.multiply(inner.add(x, y), inner.constant(2.0, x))

    with ft.use("numpy"):
        wanted = one(doubled)
        plain = one(lambda inner, x, y: inner.add(x, y))
    for _ in range(3):
        np.testing.assert_allclose(one(doubled), wanted, rtol=1e-4, atol=1e-5)
    assert not np.allclose(wanted, plain)


def test_inference_between_training_steps_changes_no_bit(tmp_path, monkeypatch):
    """Weights that are kept packed for inference are trained, and saved, as they were."""
    jit = pytest.importorskip("fl_jit", reason="jit packs weights")
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    library = importlib.import_module("fl_jit.kernels.llvm.library").GeneratedKernels()
    monkeypatch.setattr("fl_jit.kernels.registry.active_library", lambda: library)
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((96, 128)).astype(np.float32)

    def trained(inferences, path):
        kept = []
        with ft.use(jit.JitBackend()) as backend:
            backend.policy.patience = 0
            ft.seed(3)
            model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
            optimizer = nn.AdamW(model.parameters(), lr=1e-2)
            x, outputs = ft.asarray(batch), []
            for _ in range(4):
                difference = model(x) - x
                ft.mean(difference * difference).backward()
                optimizer.step()
                optimizer.zero_grad()
                for _ in range(inferences):
                    with ag.no_grad():
                        outputs.append(np.asarray(model(x).tensor))
                kept.append(any(plan.reads_prepacked for plan in backend.plans.entries()))
            nn.save_weights(path, model)
            again = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
            nn.load_weights(path, again)
            for one, other in zip(model.parameters(), again.parameters(), strict=True):
                np.testing.assert_array_equal(np.asarray(one.tensor), np.asarray(other.tensor))
            return path.read_bytes(), outputs, kept

    plain, _, _ = trained(0, tmp_path / "plain.safetensors")
    found, outputs, kept = trained(12, tmp_path / "found.safetensors")
    assert found == plain
    assert kept[0], "nothing was packed"
    for step in range(4):
        for output in outputs[12 * step : 12 * step + 12]:
            np.testing.assert_allclose(output, outputs[12 * step], rtol=1e-5, atol=1e-5)
