"""Reference managers, one idea per file."""
