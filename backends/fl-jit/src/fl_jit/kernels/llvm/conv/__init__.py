"""Convolution kernels, forward and dgrad, by implicit GEMM: windows, input tiles, weight panels and
one loop nest."""
