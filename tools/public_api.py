#!/usr/bin/env python3
"""Write docs/public-api.md, which lists the names that are intended for users. Descriptions are those of the docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "public-api.md"
INTRODUCTION = """# Public API

These names are intended for users; everything else in the package is internal and may change in any version, whatever its name
looks like ([versions](versioning.md)). The page is made of the docstrings by `tools/public_api.py`, and a test keeps it
correct: each name exists, is exported by its package and has a docstring.
"""


class PublicPackage(NamedTuple):
    """What users import from one package. Without `names`, everything that the package exports."""

    module: str
    purpose: str
    page: str
    names: tuple[str, ...] = ()


PACKAGES = (
    PublicPackage("dray.questions", "Typed questions about a cluster at one moment, without a server.", "questions.md"),
    PublicPackage("dray.testing", "A cluster inside a test, and the pytest fixture `dray_cluster`.", "how-to.md"),
    PublicPackage("dray.driver", "What the author of a DRA driver imports.", "driver.md"),
    PublicPackage(
        "dray.sim",
        "A cluster in memory under virtual time.",
        "simulation.md",
        ("Cluster", "Explanation", "Observer"),
    ),
    PublicPackage(
        "dray.allocator",
        "Devices for claims, without a cluster.",
        "allocator.md",
        ("allocate", "verify", "Index", "Budget", "Features", "Allocated", "Unallocatable", "steps_in"),
    ),
    PublicPackage(
        "dray.allocatorkit",
        "Recorded answers of Kubernetes, to compare other allocators with.",
        "allocatorkit.md",
        ("cases", "judge", "ask_program", "read_answers", "AllocatorReport", "ProgramError"),
    ),
    PublicPackage(
        "dray.cel",
        "Device selectors, evaluated as Kubernetes does.",
        "cel.md",
        ("compile_selector", "check_selector", "DeviceView", "CompileError", "EvaluationError", "CostExceeded"),
    ),
    PublicPackage(
        "dray.recordings",
        "Recordings of a cluster and of what happens in it.",
        "simulation.md",
        ("Recording", "record", "RecordingError"),
    ),
    PublicPackage(
        "dray.replay", "Recordings played again, with changes.", "simulation.md", ("Replay", "Meter", "Setup")
    ),
    PublicPackage("dray.api.gates", "Feature gates.", "api.md", ("FeatureGates",)),
    PublicPackage("dray.api.manifests", "Typed objects of manifests.", "simulation.md", ("object_of", "ManifestError")),
    PublicPackage(
        "dray.api.reasons.causes", "Causes and suggestions by code.", "questions.md", ("CAUSES", "SUGGESTIONS")
    ),
)
TYPES = """
Types of Kubernetes objects are in `dray.api.types`, one module for each API group: `core`, `resource`, `apps`, `batch`,
`policy`, `scheduling` and others. Their names and fields are those of Kubernetes ([API objects](api.md)).
"""
# What has no docstring of its own: tables.
MEANINGS = {
    "dray.driver.Pools": "Pools by name.",
    "dray.api.reasons.causes.CAUSES": "Every cause that `explain` tells, by its code.",
    "dray.api.reasons.causes.SUGGESTIONS": "Every suggestion, by its code.",
}


def names_of(package: PublicPackage) -> tuple[str, ...]:
    """The public names of a package, in the order of the page."""
    exported = getattr(import_module(package.module), "__all__", ())
    return package.names or tuple(sorted(exported, key=str.lower))


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for package in PACKAGES:
        lines += [f"## {package.module}", "", f"{package.purpose} See [{package.page}]({package.page}).", ""]
        lines += ["| name | what it is |", "|---|---|", *_rows(package), ""]
    return "\n".join([*lines, "## Types", TYPES])


def _rows(package: PublicPackage) -> Iterator[str]:
    for name in names_of(package):
        yield f"| `{name}` | {meaning(package.module, name)} |"


def meaning(module: str, name: str) -> str:
    """The first paragraph of a docstring, on one line."""
    known = MEANINGS.get(f"{module}.{name}")
    found = getattr(import_module(module), name)
    own = found.__dict__.get("__doc__") if isinstance(found, type) else found.__doc__
    text = known or inspect.cleandoc(own or "")
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
