"""Passes between a recorded graph and a plan: fusion, layouts, rematerialization, scheduling."""
