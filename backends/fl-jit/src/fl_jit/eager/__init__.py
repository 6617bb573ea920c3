"""Eager execution: NumPy, with large contractions by the active kernel library."""
