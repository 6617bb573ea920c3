"""Batches of fixed size or of similar length, and collation."""
