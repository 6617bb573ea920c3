"""Fused kernels: a program, as machine code of this processor."""
