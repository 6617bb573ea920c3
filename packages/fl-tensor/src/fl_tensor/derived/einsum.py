"""Einstein summation as a sequence of sums, diagonals and pairwise products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.roles import N, Ops

__all__ = ["einsum"]

#: The axes of an operand by name: letters, and numbers (from the right) for those of an ellipsis.
Labels = tuple[str | int, ...]


class _Term(NamedTuple):
    value: Any
    labels: Labels


def einsum(ops: Ops, xs: Sequence[N], subscripts: str) -> Any:
    """Sums of products by the names of axes, as ``numpy.einsum``: ``"ij,jk->ik"``; repeated names
    take a diagonal, names that the result lacks are summed, ``...`` stands for axes that broadcast.
    Without ``->`` the result has the names that occur once, in alphabetical order. Of several
    operands those are multiplied first whose product is the smallest beside them."""
    inputs, output = _parse(subscripts, [x.shape for x in xs])
    sizes = _sizes(inputs, [x.shape for x in xs])
    terms = [
        _diagonals(ops, _Term(x, labels), sizes, i)
        for i, (x, labels) in enumerate(zip(xs, inputs, strict=True))
    ]
    for i, j, labels in _order([term.labels for term in terms], output, sizes):
        second, first = terms.pop(j), terms.pop(i)
        terms.append(_product(ops, first, second, labels))
    last = _summed(ops, terms[0], output)
    return ops.permute(last.value, tuple(last.labels.index(name) for name in output))


def order_of(
    subscripts: str, shapes: Sequence[tuple[int, ...]]
) -> list[tuple[int, int, tuple[int, ...]]]:
    """The products of ``einsum`` for operands of these shapes: the places of both operands in the
    list, at whose end the product is put, and its shape."""
    inputs, output = _parse(subscripts, shapes)
    sizes = _sizes(inputs, shapes)
    operands = [
        tuple(dict.fromkeys(n for n, size in zip(labels, shape) if size == sizes[n]))
        for labels, shape in zip(inputs, shapes)
    ]
    products = _order(operands, output, sizes)
    return [(i, j, tuple(sizes[name] for name in labels)) for i, j, labels in products]


# ---- reading the subscripts ---------------------------------------------------------------------


def _parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Labels], Labels]:
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise ArgumentError(
            f"[einsum] {subscripts!r} names {len(parts)} operands, but there are {len(shapes)}"
        )
    inputs = [_operand(subscripts, p, s, i) for i, (p, s) in enumerate(zip(parts, shapes))]
    hidden = tuple(range(min((n for t in inputs for n in t if isinstance(n, int)), default=0), 0))
    if not arrow:
        counts = Counter(name for term in inputs for name in term if isinstance(name, str))
        return inputs, (*hidden, *sorted(name for name, n in counts.items() if n == 1))
    output = _names(subscripts, right, hidden)
    known = {name for term in inputs for name in term}
    if unknown := [name for name in output if name not in known]:
        raise ArgumentError(f"[einsum] {subscripts!r}: no operand has the axis {unknown[0]!r}")
    if doubled := [name for name, n in Counter(output).items() if n > 1]:
        raise ArgumentError(f"[einsum] {subscripts!r}: the result has {doubled[0]!r} twice")
    return inputs, output


def _operand(subscripts: str, part: str, shape: tuple[int, ...], number: int) -> Labels:
    letters = len(part.replace("...", ""))
    extra = len(shape) - letters
    if extra < 0 or (extra and "..." not in part):
        raise ShapeError(
            f"[einsum] {subscripts!r}: {part!r} names {letters} axes, operand {number} has shape "
            f"{tuple(shape)}"
        )
    return _names(subscripts, part, tuple(range(-extra, 0)))


def _names(subscripts: str, part: str, hidden: tuple[int, ...]) -> Labels:
    before, dots, after = part.partition("...")
    if bad := [c for c in before + after if not (c.isascii() and c.isalpha())]:
        raise ArgumentError(
            f"[einsum] {subscripts!r}: {bad[0]!r} is no axis; expected letters, ',', '->' and "
            f"one '...' per operand"
        )
    return (*before, *(hidden if dots else ()), *after)


def _sizes(inputs: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> dict[str | int, int]:
    sizes: dict[str | int, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for name, size in zip(labels, shape, strict=True):
            known = sizes.setdefault(name, size)
            if known == 1:
                sizes[name] = size
            elif size not in (1, known):
                axis = "the ellipsis" if isinstance(name, int) else f"axis {name!r}"
                listed = ", ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(f"[einsum] {listed}: {axis} has sizes {known} and {size}")
    return sizes


# ---- computing ---------------------------------------------------------------------------------


def _diagonals(ops: Ops, term: _Term, sizes: dict[str | int, int], number: int) -> _Term:
    # Every axis with a name of its own, and none of size 1 that has another size elsewhere.
    value, labels = term
    while len(set(labels)) < len(labels):
        name = next(name for name in labels if labels.count(name) > 1)
        i = labels.index(name)
        j = labels.index(name, i + 1)
        if value.shape[i] != value.shape[j]:
            raise ShapeError(
                f"[einsum] operand {number}: {name!r} names axes of sizes {value.shape[i]} and "
                f"{value.shape[j]}, which have no common diagonal"
            )
        value = ops.diagonal(value, 0, i, j)
        labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], name)
    single = [n == 1 and sizes[m] != 1 for n, m in zip(value.shape, labels, strict=True)]
    if any(single):
        value = ops.squeeze(value, tuple(i for i, drop in enumerate(single) if drop))
        labels = tuple(name for name, drop in zip(labels, single, strict=True) if not drop)
    return _Term(value, labels)


def _order(
    operands: list[Labels], output: Labels, sizes: dict[str | int, int]
) -> list[tuple[int, int, Labels]]:
    # The places of both factors of each product, which goes to the end of the list, and its axes.
    left, found = list(operands), []
    while len(left) > 1:
        i, j = _cheapest(left, output, sizes)
        second, first = left.pop(j), left.pop(i)
        needed = _needed(left, output)
        labels = tuple(name for name in dict.fromkeys((*first, *second)) if name in needed)
        left.append(labels)
        found.append((i, j, labels))
    return found


def _needed(others: Sequence[Labels], output: Labels) -> set[str | int]:
    return {*output, *(name for labels in others for name in labels)}


def _cheapest(
    operands: Sequence[Labels], output: Labels, sizes: dict[str | int, int]
) -> tuple[int, int]:
    def size(labels: Collection[str | int]) -> int:
        return math.prod(sizes[name] for name in labels)

    def growth(pair: tuple[int, int]) -> int:
        first, second = (operands[i] for i in pair)
        others = [labels for i, labels in enumerate(operands) if i not in pair]
        made = {*first, *second} & _needed(others, output)
        return size(made) - size(first) - size(second)

    pairs = combinations(range(len(operands)), 2)
    return (0, 1) if len(operands) == 2 else min(pairs, key=growth)


def _summed(ops: Ops, term: _Term, keep: Collection[str | int]) -> _Term:
    axes = tuple(i for i, name in enumerate(term.labels) if name not in keep)
    if not axes:
        return term
    total = ops.sum(term.value, axes, False)
    if total.dtype is not term.value.dtype:  # integers are summed in 64 bits
        total = ops.cast(total, term.value.dtype)
    return _Term(total, tuple(name for name in term.labels if name in keep))


def _product(ops: Ops, x: _Term, y: _Term, names: Labels) -> _Term:
    """The two as one term with the axes ``names``, in an order of its own: a batch of matrix
    products, or of outer products where no axis is summed."""
    keep = {*names}
    x, y = _summed(ops, x, keep | {*y.labels}), _summed(ops, y, keep | {*x.labels})
    both = [name for name in x.labels if name in y.labels]
    batch = [name for name in both if name in keep]
    inner = [name for name in both if name not in keep]
    left = [name for name in x.labels if name not in both]
    right = [name for name in y.labels if name not in both]
    x_sizes = dict(zip(x.labels, x.value.shape, strict=True))
    sizes = x_sizes | dict(zip(y.labels, y.value.shape, strict=True))

    def arranged(term: _Term, *groups: list[str | int]) -> Any:
        order = tuple(term.labels.index(name) for group in groups for name in group)
        shape = tuple(math.prod(sizes[name] for name in group) for group in groups)
        return ops.reshape(ops.permute(term.value, order), shape)

    if inner:
        made = ops.matmul(arranged(x, batch, left, inner), arranged(y, batch, inner, right))
    else:
        made = ops.multiply(arranged(x, batch, left, []), arranged(y, batch, [], right))
    labels = (*batch, *left, *right)
    return _Term(ops.reshape(made, tuple(sizes[name] for name in labels)), labels)
