"""The causes of memory requests in a backward pass (``fl_memory.observe``).

While memory is observed, each node notes the module that recorded it. The backward pass says this
module, the operation that is differentiated, and the phase "backward".
"""

from __future__ import annotations

from fl_autograd.mode import Recorder
from fl_autograd.node import Node
from fl_autograd.variable import Variable
from fl_memory.causes import CURRENT, Cause
from fl_memory.instrumentation import register_instrumentation

__all__ = ["ModuleRecorder", "set_cause"]

_NOTHING = Cause()


class ModuleRecorder(Recorder):
    """Notes the module of the current cause on each node."""

    def recorded(self, node: Node, result: Variable) -> Node:
        cause = CURRENT.get()
        if cause is not None and cause.module:
            node.module = cause.module
        return node


def set_cause(node: Node, outer: Cause | None) -> None:
    """Let what follows be the backward pass of ``node``. ``outer`` is the cause of the whole pass,
    which names the module of a node that notes none: one computed again by a checkpoint, say."""
    outer = outer or _NOTHING
    rule = node.rule
    module = getattr(node, "module", outer.module)
    operation = "accumulate" if rule is None else rule.name
    CURRENT.set(Cause(operation, module, "backward", outer.step))


register_instrumentation(ModuleRecorder)
