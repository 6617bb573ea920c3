"""Datasets and streams of token numbers."""
