"""Names of NumPy, PyTorch and JAX that this project does not have, each with our way.

``tables`` reads the text files of this folder when an attribute is missing, so that
``ft.cat`` says what to write. Other packages have tables of their own, in the same form. The
methods of arrays are in ``methods.txt``, all other names of fl_tensor in one file per library.
"""
