"""Datasets of rows: of tensors in memory, of arrays in files."""
