"""`python -m dray` is the command `dray`."""

import sys

from dray.cli import main

sys.exit(main())
