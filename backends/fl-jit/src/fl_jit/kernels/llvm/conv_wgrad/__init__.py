"""Kernels of the weight and bias gradients of convolutions (wgrad): sums over the pixels of
images."""
