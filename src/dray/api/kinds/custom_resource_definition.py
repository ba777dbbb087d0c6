"""CustomResourceDefinition: adds a kind to the API."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, TableColumn
from dray.api.kind import API_EXTENSIONS, STATUS, KindRules, Resource
from dray.api.trees import fill
from dray.api.types import apiextensions
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    """Add the default names and the conversion strategy None."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    fill(spec.setdefault("conversion", {}), "strategy", "None")


def _create(tree: Tree) -> None:
    versions = (tree.get("spec") or {}).get("versions") or ()
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    tree["status"] = {"storedVersions": stored} if stored else {}


def _keep_versions(tree: Tree, old: apiextensions.CustomResourceDefinition) -> None:
    """Keep the stored versions in the status, and add the current storage version."""
    stored = list(old.status.storedVersions or ())
    for version in (tree.get("spec") or {}).get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version.get("name") or "")
    tree.setdefault("status", {})["storedVersions"] = stored


KIND = Resource(
    apiextensions.CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    categories=API_EXTENSIONS,
    subresources=STATUS,
    columns=(
        NAME,
        TableColumn(
            "Created At", lambda definition, now: definition.metadata.creationTimestamp or UNKNOWN, type="date"
        ),
    ),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules("definitions.create_definition", "definitions.update_definition", name=None, any_finalizer=True),
    defaults={"spec.conversion.webhook.clientConfig.service.port": 443},
    more_defaults=_defaults,
    on_create=_create,
    on_update={"": _keep_versions},
)
