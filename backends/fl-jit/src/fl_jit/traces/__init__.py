"""What was put off: values that are not computed yet, and the calls that will compute them,
recorded, and compared with those before.
"""
