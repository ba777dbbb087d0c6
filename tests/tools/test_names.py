"""One name means one thing: classes and type aliases have names of their own, and exceptions in docstrings exist.

Kubernetes has a few names in several groups of its API (Event in core and in events.k8s.io), and the wire types keep them.
What protoc writes is left out: its names come from the .proto files.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

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


class TypeAliasHome(NamedTuple):
    """Where a type alias is defined, and what it stands for."""

    module: str
    meaning: str


def homes_of_type_aliases() -> dict[str, set[TypeAliasHome]]:
    """The definitions of type aliases and type variables outside the wire types, by name."""
    homes: dict[str, set[TypeAliasHome]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        if "_pb2" in path.name or path.is_relative_to(WIRE_TYPES):
            continue
        body = ast.parse(path.read_text()).body
        for statement in [*body, *(one for block in body if isinstance(block, ast.If) for one in block.body)]:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            if name[0].isupper() and any(letter.islower() for letter in name):
                homes[name].add(TypeAliasHome(str(path.relative_to(SOURCE)), ast.unparse(value)))
    return homes


def test_each_type_alias_means_one_thing() -> None:
    homes = homes_of_type_aliases()
    classes = {name: paths for name, paths in homes_of_classes().items() if not paths[0].is_relative_to(WIRE_TYPES)}
    assert homes["Tree"]  # the modules were found
    several = {name: found for name, found in homes.items() if len({home.meaning for home in found}) > 1}
    assert several == {}
    assert {name: found for name, found in homes.items() if name in classes} == {}


RAISES = re.compile(r"\b[Rr]aises? ((?:(?:an? |and |or |, )*`?[A-Z]\w+(?:\.\w+)*`?(?:, | and | or )?)+)")
NOT_EXCEPTIONS = {"Python"}


def test_exceptions_that_docstrings_name_exist() -> None:
    known = {*dir(builtins), *NOT_EXCEPTIONS}
    named: dict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                known.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                known |= {(alias.asname or alias.name).rpartition(".")[2] for alias in node.names}
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for raised in RAISES.finditer(ast.get_docstring(node) or ""):
                    words = [word.rpartition(".")[2] for word in re.findall(r"[A-Z][\w.]*", raised[1].rstrip("."))]
                    named[str(path.relative_to(SOURCE))] |= {word for word in words if word[:1].isupper()}
    assert sum(map(len, named.values())) > 100
    assert {path: missing for path, words in named.items() if (missing := words - known)} == {}
