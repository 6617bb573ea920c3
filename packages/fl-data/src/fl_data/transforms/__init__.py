"""Functions applied to samples, and their results kept."""
