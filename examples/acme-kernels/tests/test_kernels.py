"""The operations on the deferred backend, against their compositions elsewhere."""

import pytest

import acme_kernels as acme
import fl_autograd as ag
import fl_jit
import fl_tensor as ft
from acme_kernels import registration

SHAPE = (128, 256)
FUNCTIONS = {
    "swiglu": lambda x, gate: acme.swiglu(x, gate),
    "rms_norm": lambda x, gate: acme.rms_norm(x) * gate,
    "rms_norm of columns": lambda x, gate: acme.rms_norm(ft.permute(x, (1, 0)), eps=1e-3),
    "concatenate": lambda x, gate: ft.concatenate([x * 2.0, gate + 1.0]),
    "concatenate columns": lambda x, gate: ft.concatenate([x * 2.0, gate + 1.0], 1),
    "exponentials": lambda x, gate: ft.exp(x) * ft.exp(gate),
    "all": lambda x, gate: acme.rms_norm(acme.swiglu(ft.concatenate([x, x]), gate[0])) * 3.0,
}


@pytest.fixture(autouse=True)
def in_the_foreground(monkeypatch, tmp_path):
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))


@pytest.fixture
def backend():
    if "acme-exponentials" not in fl_jit.passes():  # the package is on the path, not installed
        registration.register()
    return fl_jit.JitBackend()


def values(backend, function, dtype="float32"):
    generator = ft.Generator(3)
    with ft.use(backend):
        x, gate = (ft.cast(generator.normal(SHAPE), dtype) for _ in range(2))
        return function(x, gate).tolist()


def close(a, b, tolerance):
    return ft.allclose(ft.asarray(a), ft.asarray(b), tolerance, tolerance)


def operations(backend):
    return [node.op for step in fl_jit.plans(backend)[-1].steps for node in step.nodes]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_runs_give_what_the_composition_gives(backend, name, dtype):
    wanted = values("numpy", FUNCTIONS[name], dtype)
    for _ in range(3):
        assert close(
            values(backend, FUNCTIONS[name], dtype), wanted, 2e-2 if dtype == "float16" else 1e-4
        )


def test_the_kernels_are_used(backend):
    for _ in range(2):
        values(backend, FUNCTIONS["all"])
    steps = fl_jit.plans(backend)[-1].steps
    done = {(step.kind, node.op) for step in steps for node in step.nodes}
    assert ("kernel", "acme.swiglu") in done, "part of a generated kernel"
    assert {("external", "acme.rms_norm"), ("external", "concatenate")} <= done


def test_the_pass_is_used(backend):
    for _ in range(2):
        values(backend, FUNCTIONS["exponentials"])
    assert operations(backend).count("exp") == 1


@pytest.mark.parametrize("function", [acme.swiglu, lambda x, gate: acme.rms_norm(x * gate)])
def test_gradients(function):
    generator = ft.Generator(5)
    x, gate = (ft.cast(generator.normal((3, 4)), "float64") for _ in range(2))
    ag.check_grads(function, [x, gate], order=2)


def test_a_training_step(backend):
    with ft.use(backend):
        generator = ft.Generator(7)
        w = ag.Variable(generator.normal((256, 256)) * 0.05, requires_grad=True)
        x = generator.normal(SHAPE)
        losses = []
        for _ in range(5):
            y = acme.rms_norm(acme.swiglu(x @ w, x))
            loss = ft.mean((y - x) ** 2)
            w.grad = None
            loss.backward()
            w = ag.Variable(w.tensor - 0.5 * w.grad.tensor, requires_grad=True)
            losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_operands_are_promoted_or_refused(backend):
    with ft.use(backend):
        x, gate = ft.ones((2, 3)), ft.ones((2, 3), dtype="int32")
        wanted = ft.silu(gate).tolist()
        assert acme.swiglu(x, gate).tolist() == acme.swiglu(gate, gate).tolist() == wanted
        for call in (acme.swiglu, lambda x, y: acme.swiglu(ag.Variable(x), y)):
            with pytest.raises(ft.ShapeError, match=r"acme.swiglu.*\(2, 3\).*\(2, 4\)"):
                call(x, ft.ones((2, 4)))
        with pytest.raises(ft.AxisError, match="acme.rms_norm"):
            acme.rms_norm(ft.ones(()))
