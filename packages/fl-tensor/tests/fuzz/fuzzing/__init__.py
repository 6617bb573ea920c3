"""Random programs, run in lockstep by fl_tensor and by NumPy.

step.py         one line of a program, and what a library makes of it
lockstep.py     a program: both sides' values, and what must hold after every step
draws.py        what steps are made of: arrays, axes, shapes, partners that broadcast
indices.py      the index language
operations.py   the steps that a program may take
differences.py  where we differ from NumPy on purpose: the one table
"""
