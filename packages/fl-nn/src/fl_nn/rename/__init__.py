"""Rename tables: conversion of tensor files between other programs and our models, in both
directions.

    table = rename.Table(
        rename.Rule("h.{i}.ln_1.{p}", "layers.{i}.norm1.{p}"),
        rename.Rule("h.{i}.attn.c_attn.weight", "layers.{i}.in_proj_weight", rename.Transpose()),
        rename.Rule(["h.{i}.k.{p}", "h.{i}.v.{p}"], "layers.{i}.kv_{p}", rename.Merge(2)),
        rename.Ignore("h.{i}.attn.mask"),
    )
    nn.load_weights("theirs.safetensors", model, rename=table)
    nn.save_weights("for_them.safetensors", model, rename=table)

In a template `{i}` stands for one part of a name between dots (or some of it), `{rest:path}` for
any number of them; other text stands for itself. The same names in braces stand for the same on
both sides. The first rule that fits a name takes it, so exceptions come first.
"""

from fl_nn.rename.rules import Ignore as Ignore
from fl_nn.rename.rules import Keep as Keep
from fl_nn.rename.rules import Rule as Rule
from fl_nn.rename.rules import Tied as Tied
from fl_nn.rename.steps import Merge as Merge
from fl_nn.rename.steps import Split as Split
from fl_nn.rename.steps import Squeeze as Squeeze
from fl_nn.rename.steps import Step as Step
from fl_nn.rename.steps import Transpose as Transpose
from fl_nn.rename.table import Renamed as Renamed
from fl_nn.rename.table import Table as Table
