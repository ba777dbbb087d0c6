"""Run the benchmarks that are named, or all of them."""

from __future__ import annotations

import importlib
import pathlib
import platform
import sys


def main() -> None:
    here = pathlib.Path(__file__).parent
    known = sorted(p.stem for p in here.glob("*.py") if not p.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    for name in wanted:
        if name not in known:
            sys.exit(f"no benchmark is called {name!r}; there are: {', '.join(known)}")
    print(f"# Python {platform.python_version()} ({platform.python_implementation()}), {platform.machine()}")
    for name in wanted:
        print(f"\n## {name}", flush=True)
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
