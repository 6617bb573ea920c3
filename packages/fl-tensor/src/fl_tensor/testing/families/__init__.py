"""The rows of the operation table, one file per family; ``cases.CASES`` joins them."""
