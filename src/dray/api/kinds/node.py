"""Node: a machine that runs pods."""

from __future__ import annotations

from dray.api.cells import NONE, UNKNOWN
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import Resource
from dray.api.types import core
from dray.api.wire import Tree

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _state(node: core.Node) -> str:
    states = ["Ready" if c.status == "True" else "NotReady" for c in node.status.conditions if c.type == "Ready"]
    states = states or ["Unknown"]
    return ",".join([*states, "SchedulingDisabled"] if node.spec.unschedulable else states)


def _roles(node: core.Node) -> str:
    labels = node.metadata.labels
    found = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    found.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(found - {""}))


def _address(node: core.Node, type_: str) -> str:
    return next((a.address for a in node.status.addresses if a.type == type_), "")


def _defaults(tree: Tree) -> None:
    spec = tree.get("spec") or {}
    if spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    elif spec.get("podCIDR"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = tree.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


KIND = Resource(
    core.Node,
    namespaced=False,
    short_names=("no",),
    subresources=("proxy", "status"),
    columns=(
        NAME,
        text("Status", _state),
        text("Roles", _roles, NONE),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion"),
        wide("Internal-IP", lambda node: _address(node, "InternalIP"), NONE),
        wide("External-IP", lambda node: _address(node, "ExternalIP"), NONE),
        wide("OS-Image", "status.nodeInfo.osImage", UNKNOWN),
        wide("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN),
        wide("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN),
    ),
    has_status_at_creation=True,
    status_writes_metadata=True,
    more_defaults=_defaults,
    selectable={"spec.unschedulable": lambda node: str(node.spec.unschedulable).lower()},
)
