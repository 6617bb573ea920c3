"""References that NumPy does not have. They share no code with the package."""
