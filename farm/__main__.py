"""`python -m farm`."""

import sys

from farm.cli import main

sys.exit(main())
