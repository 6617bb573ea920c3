"""The six models in PyTorch: the same constructors, the same names in their state dicts."""
