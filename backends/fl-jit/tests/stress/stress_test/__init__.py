"""Random problems for providers of contractions, computed between guard pages, against float64."""
