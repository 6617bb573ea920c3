"""Gradients of the weights and biases of convolutions: sums over the places of images."""
