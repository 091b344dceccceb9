"""`python -m mamba_install`."""

from __future__ import annotations

import sys

from mamba_install.cli import main

if __name__ == "__main__":
    sys.exit(main())
