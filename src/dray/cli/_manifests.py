"""Kubernetes YAML and JSON files as typed objects, for commands that work without a cluster.

Documents may be of any served version; they are checked, converted to the stored one and given their defaults, as the
API server would. Left out: validation beyond the shape of an object, and everything that needs other objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from dray.api.conversion import home, to_stored
from dray.api.decode import check, to_object
from dray.api.defaults import apply_defaults
from dray.api.errors import BadRequest
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND
from dray.api.wire import Wire

W = TypeVar("W", bound=Wire)


class ManifestError(ValueError):
    """A file that cannot be used; says which, where and why."""


class Manifests:
    """The objects of some files, by type."""

    def __init__(self, objects: Iterable[Wire]) -> None:
        self._objects = list(objects)

    def all(self, type_: type[W]) -> list[W]:
        """The objects of a type, in the order of the files."""
        return [found for found in self._objects if isinstance(found, type_)]


def read_manifests(paths: Iterable[str], gates: FeatureGates) -> Manifests:
    """Read files, directories (their .yaml, .yml and .json files) and, for `-`, standard input."""
    return Manifests(_object(tree, place, gates) for place, tree in read_trees(paths))


def read_trees(paths: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents as they are, each with its place; objects of a List one by one."""
    for path in paths:
        for source, text in _texts(path):
            for number, tree in _documents(source, text):
                yield f"{source}, document {number}", tree


def _texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    place = Path(path)
    files = sorted(p for p in place.iterdir() if p.suffix in (".yaml", ".yml", ".json")) if place.is_dir() else [place]
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ManifestError(f"{file}: {error}") from error


def _documents(source: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        for number, tree in enumerate(yaml.safe_load_all(text), 1):
            if tree is None:
                continue
            if not isinstance(tree, dict):
                raise ManifestError(f"{source}, document {number}: expected an object with apiVersion and kind")
            if tree.get("kind") == "List":
                for item in tree.get("items") or ():
                    yield number, item
            else:
                yield number, tree
    except (yaml.YAMLError, RecursionError) as error:
        raise ManifestError(f"{source}: {error}") from error


def _object(tree: dict[str, Any], place: str, gates: FeatureGates) -> Wire:
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ManifestError(f"{place}: apiVersion and kind must be given")
    group, _, version = api_version.rpartition("/")
    resource = BY_KIND.get((group, kind))
    if resource is None or version not in resource.versions:
        raise ManifestError(f"{place}: no kind {kind} in {api_version} is known")
    try:
        complaints = check(resource, version, tree)
        if complaints:
            raise ManifestError(f"{place}: {'; '.join(complaints)}")
        stored = to_stored(resource, version, tree)
        apply_defaults(resource, stored, gates)
        return to_object(home(resource), stored)
    except BadRequest as error:
        raise ManifestError(f"{place}: {error}") from error
