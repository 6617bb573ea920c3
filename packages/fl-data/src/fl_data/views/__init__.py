"""Views of datasets: subsets, concatenation, merging, reordering."""
