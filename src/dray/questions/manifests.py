"""Objects read from text: manifests, and recordings of a cluster. Left out: reading files."""

from __future__ import annotations

from typing import Any

from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError, object_of
from dray.api.wire import Tree, Wire
from dray.files import YamlError, yaml_documents
from dray.inspect.snapshot import Snapshot
from dray.recordings.history import history_from_bytes


def objects_in(text: str, gates: FeatureGates | None = None) -> list[Wire]:
    """Return the objects of a YAML manifest, with the items of a List one by one. Raises ManifestError.

    Empty documents are left out. ManifestError is raised if the text is no YAML or an object is invalid.
    """
    try:
        documents = [one for one in yaml_documents(text) if one is not None]
    except YamlError as error:
        raise ManifestError(str(error)) from error
    return [object_of(tree, gates or FeatureGates()) for document in documents for tree in _listed(document)]


def recorded(content: bytes) -> Snapshot:
    """Return the last state of a recorded cluster as a snapshot. Raises RecordingError."""
    return Snapshot.of(*history_from_bytes(content).final_objects())


def _listed(document: Any) -> list[Tree]:
    """Return the items of a List, or the document itself. Raises ManifestError if one of them is not a mapping."""
    items = document.get("items") if isinstance(document, dict) else None
    found = items if isinstance(items, list) else [document]
    if not all(isinstance(one, dict) for one in found):
        raise ManifestError("expected objects with apiVersion and kind")
    return found
