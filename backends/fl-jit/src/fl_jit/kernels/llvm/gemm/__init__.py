"""Products of matrices: the loop nest, what it packs and how it is cut."""
