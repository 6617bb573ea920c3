"""Random programs that two backends run: ``numpy`` at once, ``jit`` deferred and in kernels.

program.py   a program is lines of Python; running it, and printing it as a script
runtime.py   the helpers that its lines call
grow.py      drawing a program, line by line, on NumPy's values
lines.py     the lines that a program may take
noise.py     how much rounding may matter to each result
compare.py   what must hold between the two backends' results
stress.py  many programs, and making one that fails short
"""
