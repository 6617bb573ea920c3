"""Exchange with other libraries through host memory: NumPy arrays, buffers, DLPack.

``arrays`` and ``dlpack`` serve every backend: values come in as ndarrays over foreign memory, and
go out through ``to_host``. An adapter over host memory may have NumPy's ``__array__``, and is then
shown without a copy. The modules are imported where they are used: they load NumPy.
"""
