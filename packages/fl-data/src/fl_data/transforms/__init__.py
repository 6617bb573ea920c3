"""Functions applied to samples, with optional caching."""
