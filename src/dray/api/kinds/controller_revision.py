"""ControllerRevision: an earlier state of a DaemonSet or StatefulSet."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import Resource
from dray.api.types import apps


def _controller(revision: apps.ControllerRevision) -> str:
    owner = next((owner for owner in revision.metadata.ownerReferences if owner.controller), None)
    if owner is None:
        return ""
    group, slash, _ = owner.apiVersion.partition("/")
    return f"{owner.kind.lower()}{'.' + group if slash else ''}/{owner.name}"


KIND = Resource(
    apps.ControllerRevision, columns=(NAME, text("Controller", _controller, NONE), number("Revision", "revision"), AGE)
)
