"""The grammar: parsing of lines into a tree of layers, without building them.

file = { line }
line = TOKEN { argument }               a layer
     | RES layers shortcuts blocks      and so many layers and shortcuts on the next lines:
       SKIP start end [scale]
     | SKIPL start end layers [scale]   and on the next lines the layers of the projection
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fl_nn.arch.arguments import Factory, Size, Unfit, Whole, arguments_of, usage
from fl_nn.arch.source import Word
from fl_nn.module import Module

#: How deep blocks may stand in blocks, and how many layers a file may have, repeated ones included.
MAX_DEPTH = 16
MAX_LAYERS = 100_000


@dataclass(frozen=True)
class Layer:
    """A layer to be made; arguments that are layers are to be made before."""

    word: Word
    factory: Factory
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Shortcut:
    """A shortcut between places of a block, through `projection` unless it is empty."""

    word: Word
    start: int
    end: int
    scale: float
    projection: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Block:
    """`blocks` times the same Residual, one after the other."""

    word: Word
    layers: tuple[Node, ...]
    shortcuts: tuple[Shortcut, ...]
    blocks: int


Node = Layer | Block


@dataclass(frozen=True)
class _Res:
    layers: Size
    shortcuts: Whole
    blocks: Size


@dataclass(frozen=True)
class _Skip:
    start: Whole
    end: Size
    scale: float = 1.0


@dataclass(frozen=True)
class _SkipThrough:
    start: Whole
    end: Size
    layers: Size
    scale: float = 1.0


_SKIPS: dict[str, Factory] = {"SKIP": _Skip, "SKIPL": _SkipThrough}
_STRUCTURE: dict[str, Factory] = {"RES": _Res, **_SKIPS}


class Parser:
    """Reads lines with a table of tokens, and `names` for numbers."""

    def __init__(
        self,
        lines: Iterable[list[Word]],
        table: Mapping[str, Factory],
        names: Mapping[str, int | None],
    ) -> None:
        self._lines = iter(lines)
        self._table = table
        self._names = names

    def nodes(self) -> list[Node]:
        """Everything to the end. Raises ArchError."""
        found: list[Node] = []
        total = 0
        for words in self._lines:
            found.append(self._node(words, 0))
            total += _count(found[-1])
            if total > MAX_LAYERS:
                raise words[0].error(f"with this there are more than {MAX_LAYERS} layers")
        return found

    def _node(self, words: list[Word], depth: int) -> Node:
        head = words[0]
        if depth > MAX_DEPTH:
            raise head.error(f"nested more than {MAX_DEPTH} deep")
        if head.text == "RES":
            return self._block(words, depth + 1)
        if head.text in _SKIPS:
            raise head.error(f"{head.text} belongs to a RES, among its layers or behind them")
        return self._layer(words, depth)

    def _layer(self, words: list[Word], depth: int) -> Layer:
        head = words[0]
        if head.text not in self._table:
            raise head.error(self._unknown(head.text))
        if depth > MAX_DEPTH:
            raise head.error(f"nested more than {MAX_DEPTH} deep")
        factory = self._table[head.text]
        return Layer(head, factory, tuple(self._values(words, factory, depth)))

    def _block(self, words: list[Word], depth: int) -> Block:
        head = words[0]
        wanted = _Res(*self._values(words, _Res, depth))
        layers: list[Node] = []
        shortcuts: list[Shortcut] = []
        while len(layers) < wanted.layers or len(shortcuts) < wanted.shortcuts:
            line = next(self._lines, None)
            if line is None:
                raise head.error(
                    f"{_of(wanted)} announced, but the file ends after "
                    f"{_of(_Res(len(layers), len(shortcuts), 1))}"
                )
            if line[0].text in _SKIPS:
                if len(shortcuts) == wanted.shortcuts:
                    raise line[0].error(
                        f"one too many: the RES on line {head.line.number} announced {_of(wanted)}"
                    )
                shortcuts.append(self._shortcut(line, wanted, shortcuts, depth))
            elif len(layers) == wanted.layers:
                raise line[0].error(
                    f"expected SKIP or SKIPL: the RES on line {head.line.number} announced "
                    f"{_of(wanted)}, of which {len(shortcuts)} are there"
                )
            else:
                layers.append(self._node(line, depth))
        block = Block(head, tuple(layers), tuple(shortcuts), wanted.blocks)
        if _count(block) > MAX_LAYERS:
            raise head.error(f"repeated this often there are more than {MAX_LAYERS} layers")
        return block

    def _shortcut(
        self, words: list[Word], block: _Res, others: list[Shortcut], depth: int
    ) -> Shortcut:
        head = words[0]
        values = self._values(words, _SKIPS[head.text], depth)
        start, end = values[:2]
        if not start < end <= block.layers + 1:
            raise words[2].error(
                f"a shortcut leads from a place, 0 (the input) to {block.layers}, to a later one, "
                f"up to {block.layers + 1} (the output); not from {start} to {end}"
            )
        if any((start, end) == (other.start, other.end) for other in others):
            raise head.error(f"there is a shortcut from {start} to {end} already")
        if head.text == "SKIP":
            return Shortcut(head, *_filled(_Skip(*values)))
        wanted = _SkipThrough(*values)
        projection: list[Node] = []
        while len(projection) < wanted.layers:
            line = next(self._lines, None)
            if line is None:
                raise head.error(
                    f"{_number(wanted.layers, 'layer')} announced, but the file ends after "
                    f"{len(projection)}"
                )
            projection.append(self._node(line, depth + 1))
        return Shortcut(head, start, end, wanted.scale, tuple(projection))

    def _values(self, words: list[Word], factory: Factory, depth: int) -> list[Any]:
        head, rest = words[0], words[1:]
        arguments = arguments_of(factory)
        line = usage(head.text, arguments)
        values: list[Any] = []
        for argument in arguments:
            many = len(rest) if argument.variadic else 1
            if not rest and argument.required:
                raise words[-1].error_behind(f"{argument.name} is missing; usage: {line}")
            if rest and issubclass(argument.type, Module):
                values.append(self._layer(rest, depth + 1))
                rest = []
            for word in rest[:many]:
                try:
                    values.append(argument.value(word.text, self._names))
                except Unfit as error:
                    raise word.error(f"{error}; usage: {line}") from None
            rest = rest[many:]
        if rest:
            raise rest[0].error(f"{head.text} takes no more arguments; usage: {line}")
        return values

    def _unknown(self, text: str) -> str:
        if text in _STRUCTURE:
            return f"{text} stands on a line of its own"
        known = sorted({*self._table, *_STRUCTURE})
        close = difflib.get_close_matches(text.upper(), known, 1, 0.5)
        if close:
            return f"unknown token {text!r}; did you mean {close[0]}?"
        hint = ""
        if text.endswith(".arch"):
            hint = ". To read a file, pass a path: pathlib.Path(...)"
        return f"unknown token {text!r}; there are {' '.join(known)}{hint}"


def _of(wanted: _Res) -> str:
    return f"{_number(wanted.layers, 'layer')} and {_number(wanted.shortcuts, 'shortcut')}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _filled(skip: _Skip) -> tuple[int, int, float]:
    return skip.start, skip.end, skip.scale


def _count(node: Node) -> int:
    if isinstance(node, Layer):
        return 1
    inside = [*node.layers, *(n for shortcut in node.shortcuts for n in shortcut.projection)]
    return node.blocks * sum(map(_count, inside))
