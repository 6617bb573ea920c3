"""Deferred execution over the NumPy backend."""
