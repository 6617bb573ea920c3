"""`summary(model, input)`: a table of layers and their costs, computed on shapes only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.evaluation import evaluating
from fl_nn.module import Module
from fl_nn.tree import own_state_entries
from fl_tensor.annotations import checked
from fl_tensor.html import table

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One module: `parameters`, `nbytes` (parameters and buffers) and `multiply_adds` are its own,
    without those of the modules below it. `output` is None for a module that was not called."""

    name: str
    kind: str
    output: Shape | None
    parameters: int
    nbytes: int
    multiply_adds: int = 0


@dataclass(frozen=True)
class Summary:
    """Rows in the order of the tree; `print` it for the table, which notebooks show as one.

    `multiply_adds` are those of products (matmul, linear, attention) and convolutions in one
    forward pass of the example, zeros of padding included. They are what papers and torchvision
    call the FLOPs of a network; `flops` counts a multiplication and an addition as two.
    """

    rows: tuple[Row, ...]

    @property
    def parameters(self) -> int:
        return sum(row.parameters for row in self.rows)

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        return sum(row.multiply_adds for row in self.rows)

    @property
    def flops(self) -> int:
        return 2 * self.multiply_adds

    def _cells(self) -> list[tuple[str, ...]]:
        # Titles, a row for each module, and the total.
        return [
            ("name", "type", "output shape", "parameters", "bytes", "multiply-adds"),
            *((r.name, r.kind, str(r.output or ""), *_numbers(r)) for r in self.rows),
            ("total", "", "", *_numbers(self)),
        ]

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        return table(_caption(self), head, rows)

    def __str__(self) -> str:
        head, *body, total = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *body, total)]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [_line(row, widths) for row in (head, *body, total)]
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


@checked
def summary(model: Module, *inputs: Any) -> Summary:
    """What the modules of `model` are, give, and hold.

    inputs   for each input of the model a tensor, or the shape of a floating one:
             `summary(model, (1, 1, 28, 28))`

    A copy of the model runs once in evaluation mode on the `null` backend, where values cost
    nothing; the model itself is not touched.
    """
    if not inputs:
        raise ModuleError("[summary] give an example, or its shape, for each input of the model")
    null = ft.get_backend("null")
    twin = copy.deepcopy(model).to(null)  # shares the values, which are immutable
    with evaluating(twin), ft.use(null), ft.count() as counts:
        calls = _Calls(counts)
        for name, module in twin.named_modules():
            calls.watch(name, module)
        twin(*(_example(x, null) for x in inputs))
    return Summary(tuple(_rows(model, calls.outputs, calls.flops)))


def layer_table(model: Module) -> str:
    """HTML: for each module of `model` its class, its settings, and the names, shapes and number of
    its own parameters. Nothing is computed; a shared parameter counts where it comes first."""
    made = Summary(tuple(_rows(model, {}, {})))
    rows = [
        (row.name, row.kind, module.extra_repr(), _shapes(module), f"{row.parameters:,}")
        for row, (_, module) in zip(made.rows, model.named_modules(), strict=True)
    ]
    head = ("name", "type", "settings", "parameters", "number")
    return table(f"{type(model).__name__}: {_caption(made)}", head, rows)


def _caption(found: Summary) -> str:
    return f"{found.parameters:,} parameters, {found.nbytes:,} bytes with buffers"


def _shapes(module: Module) -> str:
    entries = own_state_entries(module, persistent=False)
    return ", ".join(f"{e.name} {e.value.shape}" for e in entries if e.is_parameter)


class _Calls:
    """What modules gave, and the floating-point operations of each without those of the modules
    that it called."""

    def __init__(self, counts: ft.count) -> None:
        self.counts = counts
        self.outputs: dict[str, Shape | None] = {}
        self.flops: dict[str, int] = {}
        self._running: list[str] = []
        self._seen = 0

    def watch(self, name: str, module: Module) -> None:
        def before(module: Module, inputs: Any) -> None:
            self._attribute()
            self._running.append(name)

        def after(module: Module, inputs: Any, output: Any) -> None:
            self._attribute()
            self._running.pop()
            first = output[0] if isinstance(output, (tuple, list)) and output else output
            self.outputs[name] = first.shape if isinstance(first, ft.Array) else None

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)

    def _attribute(self) -> None:
        # What was counted since the last call began or ended belongs to the innermost module.
        now = self.counts.flops
        if self._running:
            name = self._running[-1]
            self.flops[name] = self.flops.get(name, 0) + now - self._seen
        self._seen = now


def _rows(model: Module, outputs: dict[str, Shape | None], flops: dict[str, int]) -> Iterator[Row]:
    seen: set[tuple[int, str]] = set()
    for name, module in model.named_modules():
        parameters = nbytes = 0
        for entry in own_state_entries(module, persistent=False):
            if entry.key not in seen:
                seen.add(entry.key)
                nbytes += entry.value.nbytes
                parameters += entry.value.size if entry.is_parameter else 0
        kind, count = type(module).__name__, flops.get(name, 0) // 2
        yield Row(name or "(model)", kind, outputs.get(name), parameters, nbytes, count)


def _example(given: Any, null: Any) -> ft.Tensor:
    if isinstance(given, ft.Array):
        return ft.full(given.shape, 0, given.dtype, backend=null)
    if isinstance(given, (tuple, list)) and all(isinstance(n, int) for n in given):
        return ft.full(tuple(given), 0.0, backend=null)
    raise ModuleError(f"[summary] input {given!r}: give a tensor or a shape")


def _numbers(of: Row | Summary) -> tuple[str, str, str]:
    return f"{of.parameters:,}", f"{of.nbytes:,}", f"{of.multiply_adds:,}"


def _line(texts: tuple[str, ...], widths: list[int]) -> str:
    # Words to the left, numbers to the right.
    padded = [t.ljust(w) if i < 3 else t.rjust(w) for i, (t, w) in enumerate(zip(texts, widths))]
    return "  ".join(padded).rstrip()
