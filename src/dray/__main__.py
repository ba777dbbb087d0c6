"""Start the command line: `dray` and `python -m dray`.

Only the command line itself is imported here, and within the handler, so that Ctrl-C during imports prints no traceback.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line of this process. Returns the exit status: 130 after Ctrl-C."""
    # The processes that dray starts run other programs, so gRPC need not prepare for forks; doing so can break them.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        from dray.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


def kubectl_plugin() -> int:
    """Run `kubectl dra …`. Returns the exit status: 130 after Ctrl-C."""
    try:
        from dray.cli._kubectl import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
