"""Wrappers that see every operation of a block (``dispatch.stack.Wrapper``), one per file."""

from fl_tensor.wrappers.check import check as check
from fl_tensor.wrappers.count import count as count
from fl_tensor.wrappers.profile import profile as profile
from fl_tensor.wrappers.trace import per_step as per_step
from fl_tensor.wrappers.trace import trace as trace
from fl_tensor.wrappers.wrapped import wrapped as wrapped
