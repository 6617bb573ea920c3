"""The conformance kit for compilers of kernels: cases, random programs, the suite."""
