"""The operations that the backend records, a file for each family."""
