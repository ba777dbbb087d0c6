"""ResourceClaimTemplate: template of claims that are created for pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.claimspecs import FLAT_NAMES, claim_defaults, claim_guards, flatten, unflatten
from dray.api.conversion import WorkloadLookup
from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, Resource
from dray.api.kinds.resource_claim import claim_spec
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import resource
from dray.api.validation.metadata import claim_template_metadata
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


def _defaults(tree: Tree) -> None:
    claim_defaults(tree.setdefault("spec", {}).setdefault("spec", {}))


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    unflatten(tree.get("spec", {}).get("spec", {}))


def _from_stored(tree: Tree) -> None:
    flatten(tree.get("spec", {}).get("spec", {}))


KIND = Resource(
    resource.ResourceClaimTemplate,
    versions=DRA_VERSIONS,
    gate="DynamicResourceAllocation",
    deprecated=DRA_DEPRECATED,
    error_names={"v1beta1": FLAT_NAMES},
    more_defaults=_defaults,
    guards=claim_guards("spec.spec"),
    to_stored={"v1beta1": _to_stored},
    from_stored={"v1beta1": _from_stored},
    is_returned_when_deleted=True,
)


def template_spec(
    spec: resource.ResourceClaimTemplateSpec,
    old: resource.ResourceClaimTemplateSpec | None,
    path: Path,
    context: Context,
) -> Errors:
    """Yield errors in the spec of a claim template; nothing if it equals `old`, which is None for a new template."""
    if spec != old:
        yield from claim_template_metadata(spec.metadata, path / "metadata")
        yield from claim_spec(spec.spec, None, path / "spec", context)
