"""Node: a machine that runs pods."""

from __future__ import annotations

from dray.api.addresses import BAD_CIDR, is_network
from dray.api.cells import NONE, UNKNOWN
from dray.api.columns import AGE, NAME, text, wide
from dray.api.errors import duplicate, invalid
from dray.api.kind import Resource
from dray.api.paths import METADATA, Path
from dray.api.rules import Errors, checked
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.wire import Tree
from dray.api.written import as_go

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


def taints(node: core.Node, _: Path | None) -> Errors:
    """Yield errors in node taints, including duplicates by key and effect."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.spec.taints):
        here = METADATA / "taints" / index  # the same path as in Kubernetes
        yield from checked(f"{CORE}Taint", taint, here)
        if (taint.key, taint.effect) in seen:
            yield duplicate(here, as_go(taint), "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def pod_ranges(ranges: tuple[str, ...], path: Path) -> Errors:
    """Yield errors unless the podCIDRs of a node are valid networks, at most one per IP family."""
    for index, range_ in enumerate(ranges):
        if not is_network(range_):
            yield invalid(path / index, range_, BAD_CIDR)
    if len(ranges) > 1 and (len(ranges) > 2 or len({":" in text for text in ranges}) < 2):
        yield invalid(path, ranges, "may specify no more than one CIDR for each IP family")
