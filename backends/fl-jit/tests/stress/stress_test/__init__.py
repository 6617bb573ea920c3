"""Random problems for kernel libraries, computed between guard pages, against float64."""
