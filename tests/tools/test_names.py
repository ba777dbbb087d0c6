"""One name means one thing: a class has a name that no other class of the program has.

Kubernetes has a few names in several groups of its API (Event in core and in events.k8s.io), and the wire types keep them.
What protoc writes is left out: its names come from the .proto files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/dray"
WIRE_TYPES = SOURCE / "api/types"


def homes_of_classes() -> dict[str, list[Path]]:
    """The modules that define a class, by its name."""
    homes: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if "_pb2" not in path.name:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(path)
    return homes


def test_each_class_has_a_name_of_its_own() -> None:
    homes = homes_of_classes()
    assert len(homes["Pod"]) == 1  # the modules were found
    doubles = {
        name: [str(path.relative_to(SOURCE)) for path in paths]
        for name, paths in homes.items()
        if len(paths) > 1 and not all(path.is_relative_to(WIRE_TYPES) for path in paths)
    }
    assert doubles == {}
