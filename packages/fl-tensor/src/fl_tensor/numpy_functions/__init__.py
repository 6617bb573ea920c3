"""NumPy's functions under NumPy's names, where ``fl_tensor`` has another one or none.

Each is a synonym or a composition of public functions. So it works on every backend and on
Variables, and keeps backend, device and gradient. The names are in ``ft``, which loads a module of
this folder when one of its names is first asked for. Arrays are values: what NumPy writes into an
operand (``put``, ``place``, ``fill_diagonal``, ...) is the result here, and the operand stays.
"""
