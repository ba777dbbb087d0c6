"""ResourceClaimTemplate: what the claims that are made for pods look like."""

from __future__ import annotations

from dray.api.claimspecs import FLAT_NAMES, claim_defaults, claim_guards, flatten, unflatten
from dray.api.conversion import WorkloadLookup
from dray.api.kind import DRA, DRA_DEPRECATED, DRA_VERSIONS, KindRules, Resource
from dray.api.types import resource
from dray.api.wire import Tree, Wire


def _defaults(tree: Tree) -> None:
    claim_defaults(tree.setdefault("spec", {}).setdefault("spec", {}))


def _to_stored(version: str, tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    if version == "v1beta1":
        unflatten(tree.get("spec", {}).get("spec", {}))


def _from_stored(version: str, tree: Tree) -> None:
    if version == "v1beta1":
        flatten(tree.get("spec", {}).get("spec", {}))


KIND = Resource(
    DRA,
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    resource.ResourceClaimTemplate,
    versions=DRA_VERSIONS,
    gate="DynamicResourceAllocation",
    deprecated=DRA_DEPRECATED,
    rules=KindRules("claims.create_template", "claims.update_template"),
    error_names={"v1beta1": FLAT_NAMES},
    more_defaults=_defaults,
    guards=claim_guards("spec.spec"),
    to_stored=_to_stored,
    from_stored=_from_stored,
)
