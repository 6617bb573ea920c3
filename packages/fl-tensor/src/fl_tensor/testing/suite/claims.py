"""Tests of a backend's declarations: dtypes, devices, capabilities."""

from __future__ import annotations

from typing import Any

import pytest

import fl_tensor as ft
from fl_memory.testing.kit import hide
from fl_tensor import contract
from fl_tensor.backend import TensorBackend
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.composition import cached_composition
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import ALL, REQUIRED, DType
from fl_tensor.errors import CapabilityError, DTypeError
from fl_tensor.graph import Graph, HostExpression, Node, Value
from fl_tensor.testing import form, wording
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import operand
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide


class ClaimTests(TensorSuite, official=True):
    """Contract number, name, devices, dtypes, capabilities, signatures."""

    def test_name(self, harness: Harness) -> None:
        """A short identifier: it appears in messages, settings and reports."""
        name = harness.backend.name
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
            wording.fail(f"name {name!r} is no identifier")

    def test_devices(self, harness: Harness) -> None:
        """At least one device, all distinct; values lie where they were put; waiting returns."""
        devices = harness.backend.devices()
        assert devices
        assert all(isinstance(d, Device) for d in devices)
        assert len(set(devices)) == len(devices)
        for device in devices:
            x = harness.backend.full((2,), 1, ft.float32, device)
            assert x.device == device
            harness.backend.synchronize(device)

    def test_flags(self, harness: Harness) -> None:
        """``checks_shapes`` and ``has_values`` are bools."""
        assert isinstance(harness.backend.checks_shapes, bool)
        assert isinstance(harness.backend.has_values, bool)

    def test_what_was_evaluated_is_ready(self, harness: Harness) -> None:
        """After ``evaluate`` and ``synchronize``: a value can be read at once."""
        backend, device = harness.backend, harness.device
        x = backend.full((2, 3), 1.5, ft.float32, device)
        y = backend.add(x, x)
        backend.evaluate([y])
        backend.synchronize(device)
        if backend.is_ready(y) is not True:
            wording.fail(f"is_ready gave {backend.is_ready(y)!r} for a value that was evaluated")

    def test_call_composition(self, harness: Harness) -> None:
        """``call_composition`` gives what the function gives: for new values of the same shapes and
        dtypes, for another plain value, and where one of several results is None."""
        backend = harness.backend

        @cached_composition
        def composition(ops: Any, x: Any, y: Any, factor: float) -> tuple[Any, ...]:
            total = ops.add(ops.multiply(x, ops.constant(factor, x)), y)
            return total, None, ops.negative(total)

        for values, factor in (([1.0, 2.0], 2.0), ([3.0, 5.0], 2.0), ([3.0, 5.0], 4.0)):
            x = harness.put(operand(values, ft.float32))
            total, nothing, negated = composition(backend, x, x, factor)
            wanted = [v * (factor + 1) for v in values]
            assert nothing is None
            assert total.shape == negated.shape == (2,)
            if backend.has_values:
                found = harness.get(total).tolist(), harness.get(negated).tolist()
                if found != (wanted, [-v for v in wanted]):
                    wording.fail(f"x * {factor} + x of {values} and its negative are {found}")

    def test_prepare(self, harness: Harness) -> None:
        """What ``prepare`` returns computes the graph, for other operands and numbers, too."""
        backend = harness.backend
        x, scale, y, z = (
            Value(i, s, ft.float32, CPU) for i, s in enumerate(((2,), (), (2,), (2,)))
        )
        number = {"shape": (), "value": HostExpression("n0 + 1.0"), "dtype": ft.float32}
        nodes = [
            Node("full", (), {**number, "device": CPU}, (scale,)),
            Node("multiply", (x, scale), {}, (y,)),
            Node("add", (y, x), {}, (z,)),
        ]
        prepare = vars(type(backend)).get("prepare")
        run = prepare and prepare(backend, Graph([x], (), nodes, [z, y]), ["n0"])
        if run is None or not backend.has_values:
            return
        for values, factor in (([1.0, 2.0], 2.0), ([3.0, 5.0], 2.0), ([3.0, 5.0], 4.0)):
            total, product = run([harness.put(operand(values, ft.float32))], [factor - 1.0])
            found = harness.get(total).tolist(), harness.get(product).tolist()
            wanted = [v * (factor + 1) for v in values], [v * factor for v in values]
            if found != wanted:
                wording.fail(f"the graph of x * {factor} + x and x * {factor}: {found} of {values}")

    def test_control_flow(self, harness: Harness) -> None:
        """``cond``, ``while_loop`` and ``scan`` of small graphs: both branches, the number of
        trips, both directions, fewer steps than rows."""
        backend = harness.backend
        c, w, x, p, d = (Value(i, (), ft.float32, CPU) for i in range(5))
        less = Value(5, (), ft.bool, CPU)
        product = Node("multiply", (c, w), {}, (p,))
        step = Graph([c, w, x], (), [product, Node("add", (p, x), {}, (d,))], [d, c])
        grow = Graph([c, w], (), [product], [p])
        keep = Graph([c, w], (), (), [c])
        below = Graph([c, w], (), [Node("less", (c, w), {}, (less,))], [less])

        def put(values: Any, dtype: DType = ft.float32) -> Any:
            return harness.put(operand(values, dtype))

        three, ten = put(3.0), put(10.0)
        found = {
            "cond, true": backend.cond(put(True, ft.bool), [three, ten], grow, keep),
            "cond, false": backend.cond(put(False, ft.bool), [three, ten], grow, keep),
            "while_loop": backend.while_loop([three, ten], below, grow, 1, 2),
            "while_loop, keep": backend.while_loop([three, ten], below, grow, 1, 2, True),
        }
        rows, two = put([1.0, 2.0, 4.0]), put(2, ft.int64)
        for name, count, reverse in (
            ("", None, False),
            (", reverse", None, True),
            (", 2", two, True),
        ):
            found[f"scan{name}"] = backend.scan([three, ten, rows], count, step, 1, 1, 3, reverse)
        if not backend.has_values:
            return
        wanted = {
            "cond, true": [30.0],
            "cond, false": [3.0],
            "while_loop": [30.0],
            "while_loop, keep": [30.0, 1, [3.0, 0.0]],
            "scan": [3124.0, [3.0, 31.0, 312.0]],
            "scan, reverse": [3421.0, [342.0, 34.0, 3.0]],
            "scan, 2": [321.0, [32.0, 3.0, 0.0]],
        }
        for name, results in found.items():
            values = [harness.get(r).tolist() for r in results]
            if values != wanted[name]:
                wording.fail(f"{name} gave {values}: expected {wanted[name]}")

    def test_required_dtypes(self, harness: Harness) -> None:
        """Those that every backend must have are claimed, and nothing that is no dtype."""
        claimed = harness.backend.dtypes
        assert isinstance(claimed, frozenset)
        missing = sorted(map(str, REQUIRED - claimed))
        if missing:
            wording.fail(f"required dtypes are not claimed: {', '.join(missing)}")
        assert all(isinstance(d, DType) for d in claimed)

    @pytest.mark.parametrize("dtype", list(ALL))
    def test_unclaimed_dtype_is_refused(self, harness: Harness, dtype: str) -> None:
        """Asking for a dtype that the backend does not have is our error, and names what it has."""
        backend = harness.backend
        if ALL[dtype] in backend.dtypes:
            pytest.skip(f"{dtype} is claimed: test_operation tries it")
        x = ft.asarray([1.0], backend=backend)
        for attempt in (lambda: x.astype(dtype), lambda: ft.full(2, 1, dtype, backend=backend)):
            with pytest.raises(DTypeError, match="float32") as caught:
                attempt()
            assert dtype in str(caught.value)

    def test_capabilities(self, harness: Harness) -> None:
        """Every declared capability is one of the contract's, so that some test tries it.

        A name with a dot, such as "acme.fused", is the backend's own affair.
        """
        declared = harness.backend.capabilities
        assert isinstance(declared, frozenset)
        unknown = sorted(c for c in declared - set(CAPABILITIES) if "." not in c)
        version = ".".join(map(str, TensorBackend.CONTRACT))
        if unknown:
            wording.fail(f"capabilities {unknown} are not in tensor contract {version}")
        if "fft" in declared and "complex" not in declared:
            wording.fail("capability 'fft' needs the capability 'complex'")

    def test_complex_dtypes_have_parts(self, harness: Harness) -> None:
        """A backend that lists a complex dtype declares the capability "complex", and one that
        declares it lists a dtype to have parts of."""
        kinds = {d.kind for d in harness.backend.dtypes}
        declared = "complex" in harness.backend.capabilities
        assert declared or "c" not in kinds, "a complex dtype needs the capability 'complex'"
        assert not declared or "c" in kinds, (
            "capability 'complex' is declared, but no complex dtype"
        )

    @pytest.mark.parametrize("name", CAPABILITIES)
    def test_undeclared_capability(self, harness: Harness, name: str) -> None:
        """The operations of a capability that is not declared raise CapabilityError: nobody relies
        on what no test tries."""
        backend = harness.backend
        operations = [op for op in contract.OPTIONAL if op.capability == name]
        if name in backend.capabilities:
            pytest.skip(f"capability {name!r} is declared: test_operation tries it")
        if not operations:
            pytest.skip(f"capability {name!r} is not declared")
        x: Any = backend.full((2, 2), 1, ft.float32, harness.device)
        offered = []
        for op in operations:
            try:
                getattr(backend, op.name)(*(x if contract.role(p) else 1 for p in op.parameters))
            except CapabilityError:
                continue
            except Exception:  # tried and failed: it would do something for other arguments
                offered.append(op.name)
            else:
                offered.append(op.name)
        if offered:
            wording.fail(
                f"capability {name!r} is not declared, but there is {', '.join(offered)}: declare "
                f"it, or leave out what is inherited from TensorBackend and raises CapabilityError"
            )

    def test_signatures(self, harness: Harness) -> None:
        """Operations can be called the contract's way: arguments in this order, by position, the
        same ones left out; ``donate`` by its name. Other names of parameters are welcome."""
        wrong = []
        for op in contract.OPERATIONS:
            if problem := form.misfit(op, getattr(harness.backend, op.name)):
                wrong.append(f"{op.name}{op.signature}: {problem}")
        if wrong:
            wording.fail("\n".join(wrong))

    def test_names(self, harness: Harness) -> None:
        """Every public name in the backend's classes is one of the contract's: one that is not is
        misspelled, so that what it was meant to replace still runs, or taken by a later version."""
        wrong = [
            f"{name}: " + (f"do you mean {meant}?" if meant else "begin names of your own with _")
            for name, meant in form.strangers(type(harness.backend)).items()
        ]
        if wrong:
            wording.fail("these are not in the contract:\n" + "\n".join(wrong))

    def test_constants(self, harness: Harness) -> None:
        """``constant`` gives a 0-d value like its model; zeros keep their sign."""
        model = harness.put(operand([1.0, 2.0], ft.float32))
        for value in (0.0, -0.0, 1.5, float("inf")):
            made: Any = harness.backend.constant(value, model)
            assert (made.shape, made.dtype, made.device) == ((), ft.float32, harness.device)
            if harness.backend.has_values:
                assert str(float(harness.get(made))) == str(value)
