"""Graph searches before a backward pass: reachable nodes and needed gradients, iteratively."""

from __future__ import annotations

from fl_autograd.errors import GraphFreedError
from fl_autograd.node import Node

FREED = (
    "this graph was freed by an earlier backward pass; pass retain_graph=True to the earlier one, "
    "or compute the result again"
)

#: What ``count_uses`` says of a node that gets one gradient, and of one that has several to add up
#: and waits for the last of them (for two: one more, and so on).
ONCE, LAST = 1, 2


def count_uses(roots: list[Node], needed: set[Node] | None) -> dict[Node, int]:
    """How many gradients each node waits for. A node becomes ready with the last of them, so that a
    leaf is finished (and its hooks called) as soon as nothing can reach it any more."""
    uses: dict[Node, int] = {}
    seen = set(roots)
    stack = list(seen)
    while stack:
        ins = stack.pop().ins
        if ins is None:
            raise GraphFreedError(FREED)
        for node in ins:
            if node is None or (needed is not None and node not in needed):
                continue
            count = uses.get(node)
            if count is not None:
                uses[node] = count + (2 if count == ONCE else 1)
            elif node in seen:  # it has a gradient to begin with
                uses[node] = LAST
            else:
                uses[node] = ONCE
                stack.append(node)
    return uses


def leading_to(roots: list[Node], wanted: set[Node]) -> set[Node]:
    """The nodes from which a wanted one can be reached (depth first, children before parents)."""
    needed: set[Node] = set()
    entered: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in roots]
    while stack:
        node, left = stack.pop()
        if left:
            if node in wanted or any(n in needed for n in node.ins or () if n is not None):
                needed.add(node)
        elif node not in entered:
            entered.add(node)
            if node.ins is None:
                raise GraphFreedError(FREED)
            stack.append((node, True))
            stack.extend((n, False) for n in node.ins if n is not None and n not in entered)
    return needed
