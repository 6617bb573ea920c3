"""What is computed at once: NumPy, with large contractions by the active kernel library."""
