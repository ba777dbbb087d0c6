"""StatefulSet: runs numbered pods, each with a stable name and its own volumes."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import names
from dray.api.cells import container_names, images
from dray.api.columns import AGE, NAME, text, wide
from dray.api.counts import at_most_all, count
from dray.api.errors import invalid
from dray.api.kind import ALL, SCALED, KindRules, Resource
from dray.api.paths import Path
from dray.api.pod_warnings import claim_warnings
from dray.api.podspecs import template_defaults
from dray.api.rules import Errors
from dray.api.templates import pod_guards, template_warnings
from dray.api.trees import fill
from dray.api.types import apps
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        update = spec["updateStrategy"].setdefault("rollingUpdate", {})
        update.setdefault("partition", 0)
        update.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for occasion in ("whenDeleted", "whenScaled"):
        fill(retention, occasion, "Retain")
    template_defaults(spec)


_about_template = template_warnings("spec.template")


def _warnings(set_: apps.StatefulSet, old: apps.StatefulSet | None) -> Iterator[str]:
    yield from _about_template(set_, old)
    for at, claim in enumerate(set_.spec.volumeClaimTemplates if old is None else ()):
        yield from claim_warnings(claim.spec, f"spec.volumeClaimTemplates[{at}]")


KIND = Resource(
    apps.StatefulSet,
    short_names=("sts",),
    categories=ALL,
    subresources=SCALED,
    columns=(
        NAME,
        text("Ready", lambda set_: f"{set_.status.readyReplicas}/{set_.spec.replicas or 0}"),
        AGE,
        wide("Containers", lambda set_: container_names(set_.spec.template.spec.containers)),
        wide("Images", lambda set_: images(set_.spec.template.spec.containers)),
    ),
    generation=("spec",),
    status_writes_metadata=True,
    rules=KindRules(name=names.label),
    defaults={
        "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10,
        "spec.podManagementPolicy": "OrderedReady",
        "spec.updateStrategy.type": "RollingUpdate",
        "spec.volumeClaimTemplates[].spec.volumeMode": "Filesystem",
        "spec.volumeClaimTemplates[].status.phase": "Pending",
    },
    more_defaults=_defaults,
    warnings=_warnings,
    guards=pod_guards("spec.template.spec"),
)


def some(value: int | str, path: Path) -> Errors:
    """Yield an error if a count or percentage is 0 or above 100%."""
    yield from at_most_all(value, path)
    if not count(value):
        yield invalid(path, value, "cannot be 0")


def growing(count: int | None, before: int | None, path: Path) -> Errors:
    """Yield an error if a counter is lower than before; None counts as 0."""
    if (count or 0) < (before or 0):
        yield invalid(path, count or 0, "cannot be decremented")
