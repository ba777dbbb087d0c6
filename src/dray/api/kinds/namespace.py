"""Namespace: a scope for the objects of one user or purpose."""

from __future__ import annotations

from operator import attrgetter

from dray.api import names
from dray.api.columns import AGE, NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.quoting import quote
from dray.api.trees import tree_of
from dray.api.types import core
from dray.api.wire import Tree

_POD_SECURITY = "pod-security.kubernetes.io/"


def _name_label(tree: Tree) -> None:
    name = tree.get("metadata", {}).get("name")
    if name:
        labels = tree["metadata"].get("labels") or {}
        tree["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def _create(tree: Tree) -> None:
    metadata = tree["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    tree["status"] = {"phase": "Active"}
    spec = tree.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    spec["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]


def _keep_finalizers(tree: Tree, old: core.Namespace) -> None:
    """Revert changes of spec.finalizers, which can only be changed through the subresource `finalize`."""
    tree["spec"] = {"finalizers": list(old.spec.finalizers)} if old.spec.finalizers else {}


def _keep_status(tree: Tree, old: core.Namespace) -> None:
    tree["status"] = tree_of(old.status)


def _unenforced(namespace: core.Namespace, old: core.Namespace | None) -> list[str]:
    """Return a warning per added or changed Pod Security label, because dray does not enforce these labels."""
    before = old.metadata.labels if old is not None else {}
    return [
        f"metadata.labels: {quote(key)} is not enforced: dray has no Pod Security admission"
        for key, value in namespace.metadata.labels.items()
        if key.startswith(_POD_SECURITY) and before.get(key) != value
    ]


KIND = Resource(
    core.Namespace,
    namespaced=False,
    short_names=("ns",),
    subresources=("finalize", "status"),
    columns=(NAME, text("Status", "status.phase"), AGE),
    status_writes_metadata=True,
    rules=KindRules(name=names.label),
    more_defaults=_name_label,
    on_create=_create,
    on_update={"": _keep_finalizers, "finalize": _keep_status},
    warnings=_unenforced,
    selectable={"status.phase": attrgetter("status.phase"), "name": attrgetter("metadata.name")},
)
