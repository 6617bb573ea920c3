"""Graphs: recorded by ``ft.trace``; executed, printed and rewritten here."""

from fl_tensor.graph.host_numbers import HostExpression as HostExpression
from fl_tensor.graph.ir import Constant as Constant
from fl_tensor.graph.ir import Fixed as Fixed
from fl_tensor.graph.ir import Graph as Graph
from fl_tensor.graph.ir import Node as Node
from fl_tensor.graph.ir import Ref as Ref
from fl_tensor.graph.ir import Value as Value
