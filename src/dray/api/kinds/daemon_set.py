"""DaemonSet: runs one pod on every suitable node."""

from __future__ import annotations

import msgspec

from dray.api.cells import labels
from dray.api.columns import AGE, NAME, number, text
from dray.api.counts import at_most_all, count
from dray.api.errors import invalid, required
from dray.api.kind import ALL, STATUS, Resource
from dray.api.paths import Path
from dray.api.podspecs import template_defaults
from dray.api.rules import Errors
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.trees import annotations_of
from dray.api.types import apps, core
from dray.api.wire import Tree

_GENERATION = "deprecated.daemonset.template.generation"


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        update = spec["updateStrategy"].setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", 1)
        update.setdefault("maxSurge", 0)
    template_defaults(spec)


def _create(tree: Tree) -> None:
    """Set the annotation that counts template changes to 1, unless it is a positive number already.

    The annotation is older than ControllerRevisions.
    """
    annotations = annotations_of(tree)
    said = annotations.get(_GENERATION)
    annotations[_GENERATION] = said if said is not None and said.isdigit() and int(said) > 0 else "1"


def _count_template(tree: Tree, old: apps.DaemonSet) -> None:
    """Increment the annotation that counts template changes if the template has changed; ignore the client's value."""
    before = old.metadata.annotations.get(_GENERATION, "1")
    template = msgspec.convert((tree.get("spec") or {}).get("template") or {}, core.PodTemplateSpec)
    number = (int(before) if before.isdigit() else 1) + (template != old.spec.template)
    annotations_of(tree)[_GENERATION] = str(number)


KIND = Resource(
    apps.DaemonSet,
    short_names=("ds",),
    categories=ALL,
    subresources=STATUS,
    columns=(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        text("Node Selector", lambda daemons: labels(daemons.spec.template.spec.nodeSelector)),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    generation=("spec",),
    status_writes_metadata=True,
    defaults={"spec.revisionHistoryLimit": 10, "spec.updateStrategy.type": "RollingUpdate"},
    more_defaults=_defaults,
    warnings=template_warnings("spec.template"),
    guards=pod_guards("spec.template.spec"),
    on_create=_create,
    on_update={"": _count_template},
)


def one_way(update: apps.RollingUpdateDaemonSet, path: Path) -> Errors:
    """Yield errors in the rolling update of a DaemonSet: exactly one of maxUnavailable and maxSurge must be non-zero."""
    for field in ("maxUnavailable", "maxSurge"):
        yield from at_most_all(getattr(update, field), path / field)
    if count(update.maxUnavailable) and count(update.maxSurge):
        yield invalid(path / "maxSurge", update.maxSurge, "may not be set when maxUnavailable is non-zero")
    elif not count(update.maxUnavailable) and not count(update.maxSurge):
        yield required(path / "maxUnavailable", "cannot be 0 when maxSurge is 0")
