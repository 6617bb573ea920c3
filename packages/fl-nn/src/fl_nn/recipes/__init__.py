"""Recipes of programs: settings in dataclasses with a rule each, read from JSON files and options.

`fl_nn.extend` has the names for other packages.
"""
