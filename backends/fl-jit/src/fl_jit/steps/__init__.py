"""What runs: the calls of a trace one by one, and the steps of a plan, each of which computes one
node of its graph or a group of them.
"""
