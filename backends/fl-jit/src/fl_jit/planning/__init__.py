"""From a trace to a plan: whether one pays, when it is made and takes over, and what it
consists of.
"""
