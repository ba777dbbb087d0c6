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

A profile describes a node with the devices that a vendor's driver publishes. Use it with `--profile` of `dray up`, `what-if`,
`replay` and `autoscale` ([how profiles work](simulation.md#profiles)). Names of classes, drivers and attributes come from the source
and the charts of the drivers, at the given version; **no driver was run on this hardware to create the profiles**. Values such as
serial numbers are invented. `tools/profile_pages.py` writes this page.

Each example is a file of the package, in `dray/examples/profiles`. `dray what-if -f EXAMPLE --profile NAME` shows which devices
its pods get; a test runs this for every profile. To run an example in a cluster, start `dray up --profile NAME*2` and use
`kubectl apply -f EXAMPLE`.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([INTRODUCTION, *(line for name in profiles.known() for line in _profile(name))])


def _profile(name: str) -> Iterator[str]:
    profile = profiles.read(name)
    yield from (f"## {name}", "", _summary(name), "")
    yield from ("| follows | version | unknown, or different from the driver |", "|---|---|---|")
    yield from (f"| {one.driver} | {one.version} | {one.unknown or '-'} |" for one in profile.follows)
    yield from ("", "Classes: " + ", ".join(f"`{one.name}`" for one in profile.classes) + ".", "")
    yield from ("```yaml", (EXAMPLES / f"{name}.yaml").read_text().rstrip(), "```", "")


def _summary(name: str) -> str:
    """Return the comment at the beginning of a profile, without the sentence that explains its format."""
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
