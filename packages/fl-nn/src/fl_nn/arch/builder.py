"""`build_sequential`: construction of a network from an architecture file."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterable, Iterator, Mapping

import fl_tensor as ft
from fl_nn.arch.arguments import Factory
from fl_nn.arch.grammar import BlockNode, LayerNode, Node, Parser, ShortcutNode
from fl_nn.arch.source import read
from fl_nn.arch.tokens import ORIGINAL_TOKENS, TOKENS
from fl_nn.containers import Sequential
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.residual import Residual
from fl_nn.tree import state_entries
from fl_tensor.annotations import explained
from fl_tensor.errors import NoDataError


@explained
def build_sequential(
    source: str | os.PathLike[str],
    n_features: int | None = None,
    n_labels: int | None = None,
    *,
    tokens: Mapping[str, Factory] | None = None,
    as_flashlight: bool = False,
    max_parameters: int = 2_000_000_000,
) -> Sequential:
    """The network that an architecture file describes, one module per line, with fresh weights.

    source          the text; or the path of a file, as a pathlib.Path
    n_features      what NFEAT stands for in it
    n_labels        what NLABEL stands for
    tokens          tokens of your own, or others in place of ours: functions that make a module of
                    the words behind the token, see `fl_nn.arch.arguments`
    as_flashlight   TR and CFR have the parameters of Flashlight's own layers: no biases, its norms
                    and its places of them; for published parameter counts and weights
    max_parameters  a network with more numbers in parameters and buffers is refused, before any
                    memory is taken

    The grammar and what each token means for our row-major arrays: docs/arch-files.md. Nothing in a
    file is executed. Raises ArchError, which says file, line and column and what was expected
    there.
    """
    names = {"NFEAT": n_features, "NLABEL": n_labels}
    for name, given in names.items():
        if given is not None and (type(given) is not int or given < 1):
            raise ModuleError(f"[build_sequential] {name} is {given!r}: give a number, at least 1")
    table = {**TOKENS, **(ORIGINAL_TOKENS if as_flashlight else {}), **(tokens or {})}
    nodes = Parser(read(source), table, names).nodes()
    _check_size(nodes, max_parameters)
    return Sequential(*map(_made, nodes))


def _made(node: Node) -> Module:
    if isinstance(node, LayerNode):
        return _layer(node)
    made = [_residual(node) for _ in range(node.blocks)]
    return made[0] if len(made) == 1 else Sequential(*made)


def _layer(node: LayerNode) -> Module:
    arguments = [_layer(a) if isinstance(a, LayerNode) else a for a in node.arguments]
    try:
        made = node.factory(*arguments)
    except (ft.FlError, ValueError, ArithmeticError) as error:
        raise node.word.error(f"{node.word.text}: {error}") from error
    if not isinstance(made, Module):
        raise node.word.error(f"{node.word.text} made {made!r}, which is not a Module")
    return made


def _residual(block: BlockNode) -> Residual:
    residual = Residual(*map(_made, block.layers))
    for shortcut in block.shortcuts:
        residual.add_shortcut(shortcut.start, shortcut.end, _projection(shortcut))
        if shortcut.scale != 1.0:
            residual.add_scale(shortcut.end, shortcut.scale)
    return residual


def _projection(shortcut: ShortcutNode) -> Module | None:
    made = [_made(node) for node in shortcut.projection]
    if len(made) < 2:
        return made[0] if made else None
    return Sequential(*made)


# ---- the size of a network, before it is made ----------------------------------------------------


class _NoNumbers(ft.Generator):
    # Splits where there are no values to draw seeds from.

    def split(self, n: int) -> list[ft.Generator]:
        return [ft.Generator(0) for _ in range(n)]


def _check_size(nodes: Iterable[Node], most: int) -> None:
    # In a context of its own, which ends with the call: its backend and generator are no one's.
    total = 0
    for layer, times in _repeated(nodes):
        total += times * contextvars.copy_context().run(_numbers_in, layer)
        if total > most:
            raise layer.word.error(
                f"with this layer the network has {total} numbers in parameters and buffers: if "
                f"that is meant, pass max_parameters={total} or more"
            )


def _repeated(nodes: Iterable[Node]) -> Iterator[tuple[LayerNode, int]]:
    # Every layer, and how often it is made.
    for node in nodes:
        if isinstance(node, LayerNode):
            yield node, 1
            continue
        inside = [*node.layers, *(n for link in node.shortcuts for n in link.projection)]
        for layer, times in _repeated(inside):
            yield layer, times * node.blocks


def _numbers_in(layer: LayerNode) -> int:
    ft.set_default_generator(_NoNumbers())
    try:
        with ft.use("null"):
            return sum(entry.value.size for entry in state_entries(_layer(layer), persistent=False))
    except NoDataError:
        return 0  # a layer that looks at values when it is made: it has to be made to be measured
