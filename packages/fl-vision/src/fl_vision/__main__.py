"""`python -m fl_vision` is the command `fl-vision`."""

import sys

from fl_vision.cli import main

if __name__ == "__main__":
    sys.exit(main())
