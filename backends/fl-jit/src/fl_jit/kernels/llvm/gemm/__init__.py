"""GEMM: loop nest, packing and blocking."""
