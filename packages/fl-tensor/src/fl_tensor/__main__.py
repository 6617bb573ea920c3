"""``python -m fl_tensor``: the command ``fl-tensor``."""

import sys

from fl_tensor.cli import main

if __name__ == "__main__":
    sys.exit(main())
