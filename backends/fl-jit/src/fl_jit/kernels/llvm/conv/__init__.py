"""Convolutions and the gradients of their data: windows, strips of images, panels of weights, one
loop nest.
"""
