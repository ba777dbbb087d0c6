"""State of PodGroups as rows: whether their pods have nodes, in which topology domain, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dray.api import podclaims
from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PodGroup
from dray.inspect.snapshot import Snapshot

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class GroupRow(msgspec.Struct, frozen=True):
    """State of one PodGroup.

    `state` is `placed` if all pods have nodes, `partly placed` if enough but not all pods have nodes, `empty` without
    pods, and
    otherwise `waiting`. `wants` is the number of pods that must be placed together. `domain` is the value of the node
    label
    `topology` on the pods' nodes. `waits_for` is the scheduler's message.
    """

    namespace: str
    name: str
    policy: str  # gang or basic
    wants: int
    pods: int
    placed: int
    state: str
    topology: str
    domain: str
    nodes: tuple[str, ...]
    waits_for: str
    workload: str
    created: str


def group_rows(snapshot: Snapshot, namespace: str = "") -> list[GroupRow]:
    """Return a row for each PodGroup of a namespace, or of all namespaces if empty, sorted by namespace and name."""
    members: dict[tuple[str, str], list[Pod]] = {}
    for pod in snapshot.all(Pod):
        if name := podclaims.group_name(pod):
            members.setdefault((pod.metadata.namespace, name), []).append(pod)
    labels = {node.metadata.name: node.metadata.labels for node in snapshot.all(Node)}
    rows = [
        group_row(group, members.get((group.metadata.namespace, group.metadata.name), ()), labels)
        for group in snapshot.all(PodGroup)
        if namespace in ("", group.metadata.namespace)
    ]
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def group_row(group: PodGroup, pods: Iterable[Pod], labels: Mapping[str, Mapping[str, str]]) -> GroupRow:
    """Return the row of a group. `labels` maps known nodes to their labels."""
    alive = [pod for pod in pods if not podclaims.is_finished(pod)]
    placed = [pod for pod in alive if pod.spec.nodeName]
    gang = group.spec.schedulingPolicy.gang
    wants = gang.minCount if gang is not None else 1
    nodes = tuple(sorted({pod.spec.nodeName for pod in placed}))
    constraints = group.spec.schedulingConstraints
    topology = constraints.topology[0].key if constraints is not None and constraints.topology else ""
    state = _state(len(alive), len(placed), wants)
    reference = group.spec.workloadRef
    return GroupRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        policy="gang" if gang is not None else "basic",
        wants=wants,
        pods=len(alive),
        placed=len(placed),
        state=state,
        topology=topology,
        domain=_domain(topology, nodes, labels),
        nodes=nodes,
        waits_for=_waits_for(group, alive, state),
        workload=reference.workloadName if reference is not None else "",
        created=group.metadata.creationTimestamp or "",
    )


def _state(pods: int, placed: int, wants: int) -> str:
    if not pods:
        return "empty"
    if placed < min(wants, pods) or not placed:
        return "waiting"
    return "placed" if placed == pods else "partly placed"


def _domain(topology: str, nodes: Sequence[str], labels: Mapping[str, Mapping[str, str]]) -> str:
    """Return the values of the topology label on these nodes, comma-separated.

    Empty without a topology or if no node has the label.
    """
    values = {labels[node].get(topology, "") for node in nodes if node in labels} if topology else set[str]()
    return ", ".join(sorted(values - {""}))


def _waits_for(group: PodGroup, alive: Sequence[Pod], state: str) -> str:
    """Return the scheduler's message about a waiting group or, after its first placement, about a waiting pod.

    Empty if no pod waits.
    """
    if state not in ("waiting", "partly placed"):
        return ""
    said = next((one for one in group.status.conditions if one.type == INITIALLY_SCHEDULED), None)
    if said is not None and said.status == "False":
        return said.message
    late = [pod for pod in alive if not pod.spec.nodeName]
    told = (one.message for pod in late for one in pod.status.conditions if one.type == "PodScheduled" and one.message)
    return next(told, "")
