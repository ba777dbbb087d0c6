#!/usr/bin/env python3
"""Write docs/profiles.md, which describes every profile, from the profiles and their examples.

With --check, say whether the page is current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from dray.sim import profiles

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "profiles.md"
EXAMPLES = ROOT / "src" / "dray" / "examples" / "profiles"
INTRODUCTION = """# Vendor profiles

Nodes with devices as vendors' drivers publish them, for `--profile` of `dray up`, `what-if`, `replay` and `autoscale`
([how profiles work](simulation.md#profiles)). Names of classes, drivers and attributes were looked up in the source and the
charts of the drivers, at the version that is told; **no driver was run on such hardware to make them**. Values, such as serial
numbers, are invented. This page is made by `tools/profile_pages.py`.

Each example is a file of the package, in `dray/examples/profiles`: `dray what-if -f EXAMPLE --profile NAME` shows which devices
its pods get, and a test does so for every profile. With the devices of `dray up --profile NAME*2`, `kubectl apply -f EXAMPLE`
does the same in a running cluster.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(line for name in profiles.known() for line in _profile(name))])


def _profile(name: str) -> Iterator[str]:
    profile = profiles.read(name)
    yield from (f"## {name}", "", _summary(name), "")
    yield from ("| follows | version | not known, or not as the driver does it |", "|---|---|---|")
    yield from (f"| {one.driver} | {one.version} | {one.unknown or '-'} |" for one in profile.follows)
    yield from ("", "Classes: " + ", ".join(f"`{one.name}`" for one in profile.classes) + ".", "")
    yield from ("```yaml", (EXAMPLES / f"{name}.yaml").read_text().rstrip(), "```", "")


def _summary(name: str) -> str:
    """The comment that a profile begins with, without what is told about its form."""
    lines = []
    for line in (Path(profiles.__file__).parent / f"{name}{profiles.SUFFIX}").read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("# "))
    text = " ".join(lines)
    return text[: text.index("{")].rpartition(". ")[0] + "." if "{" in text else text


def main() -> int:
    written = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text() != written)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
