"""Why a pod, a claim or a request for pool status waits, or that it does not: the way in.

Pure: a snapshot in, an explanation out. Left out: the steps of a pod (`pods`), devices that do not suffice (`shortage`),
and printing (`wording`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.api import podclaims
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourcePoolStatusRequest
from dray.api.types.scheduling import PodGroup
from dray.inspect.explanation import Cause, Explanation
from dray.inspect.hardware import alike
from dray.inspect.placement import Deadlines, judge_devices
from dray.inspect.pods import CauseFinding, PodCase, missing_class
from dray.inspect.shortage import ClaimShortage
from dray.inspect.snapshot import Snapshot

_NODES_NAMED = 5


class NotThere(LookupError):
    """What should be explained does not exist; the text says what is there instead."""


def explain_pod(
    snapshot: Snapshot,
    namespace: str,
    name: str,
    deadlines: Deadlines = Deadlines(),  # noqa: B008 (immutable)
) -> Explanation:
    """Why a pod waits, or that it does not."""
    pod = snapshot.get(Pod, name, namespace)
    if pod is None:
        _must_read(snapshot, Pod)
        raise NotThere(_absent("pod", name, (p for p in snapshot.all(Pod) if p.metadata.namespace == namespace)))
    return _explanation("pod", namespace, name, PodCase(snapshot, pod, deadlines).finding(), snapshot)


def explain_claim(
    snapshot: Snapshot,
    namespace: str,
    name: str,
    deadlines: Deadlines = Deadlines(),  # noqa: B008 (immutable)
) -> Explanation:
    """Why a claim is not allocated, or who has it."""
    claim = snapshot.get(ResourceClaim, name, namespace)
    if claim is None:
        _must_read(snapshot, ResourceClaim)
        others = (c for c in snapshot.all(ResourceClaim) if c.metadata.namespace == namespace)
        raise NotThere(_absent("resourceclaim", name, others))
    return _explanation("claim", namespace, name, _claim_finding(snapshot, claim, deadlines), snapshot)


def explain_request(snapshot: Snapshot, name: str) -> Explanation:
    """Why a ResourcePoolStatusRequest has no answer, or what it is."""
    if ResourcePoolStatusRequest in snapshot.unserved:
        raise NotThere(
            "the API server does not serve ResourcePoolStatusRequests: its gate DRAResourcePoolStatus is off"
        )
    request = snapshot.get(ResourcePoolStatusRequest, name)
    if request is None:
        _must_read(snapshot, ResourcePoolStatusRequest)
        raise NotThere(_absent("resourcepoolstatusrequest", name, snapshot.all(ResourcePoolStatusRequest)))
    waits, cause = _request_cause(request)
    return Explanation(kind="request", name=name, waits=waits, cause=cause)


def _explanation(kind: str, namespace: str, name: str, found: CauseFinding, snapshot: Snapshot) -> Explanation:
    return Explanation(
        kind=kind,
        namespace=namespace,
        name=name,
        waits=found.waits,
        cause=found.cause,
        nodes=found.nodes,
        holders=found.holders,
        notes=tuple(_notes(snapshot, found)),
    )


# Requests for pool status


def _request_cause(request: ResourcePoolStatusRequest) -> tuple[bool, Cause]:
    status = request.status
    if status is None or status.observationTime is None:
        text = "nobody has answered it: no controller manager runs, or its gate DRAResourcePoolStatus is off"
        return True, Cause("NoController", text, "a controller manager with --feature-gates=DRAResourcePoolStatus=true")
    failed = next((c for c in status.conditions if c.type == "Failed"), None)
    if failed is not None:
        return False, Cause("Failed", f"its computation failed: {failed.message}", "delete it and ask again")
    if not status.pools:
        text = f"it is answered: driver {request.spec.driver} has no matching pool"
        return False, Cause("NoPools", text, "the name of a driver that publishes slices")
    return False, Cause("Complete", f"it is answered: {len(status.pools)} of {status.poolCount} pools")


# Claims


def _claim_finding(snapshot: Snapshot, claim: ResourceClaim, deadlines: Deadlines) -> CauseFinding:
    if claim.metadata.deletionTimestamp is not None:
        users = ", ".join(r.name for r in claim.status.reservedFor)
        text = f"it is being deleted, and used by {users}" if users else "it is being deleted"
        return CauseFinding(Cause("ClaimDeleting", text), waits=bool(users))
    allocation = claim.status.allocation
    if allocation is not None:
        devices = ", ".join(f"{r.driver}/{r.pool}/{r.device}" for r in allocation.devices.results) or "no device"
        users = ", ".join(f"{r.resource.removesuffix('s')} {r.name}" for r in claim.status.reservedFor)
        text = f"it is allocated: {devices}; {f'used by {users}' if users else 'used by nobody'}"
        return CauseFinding(Cause("Allocated", text), waits=False)
    absent = missing_class(snapshot, claim)
    if absent is not None:
        return CauseFinding(absent)
    pods = [pod for pod in snapshot.all(Pod) if _uses(snapshot, pod, claim) and not podclaims.is_finished(pod)]
    verdicts = tuple(judge_devices(snapshot, [claim], deadlines.nodes))
    if verdicts and not any(v.fits for v in verdicts):
        devices_ = ClaimShortage(snapshot, [claim], verdicts, deadlines.cluster)
        return CauseFinding(devices_.cause(), verdicts, devices_.holders())
    if not pods:
        text = "no pod uses it: a claim is allocated when a pod that uses it gets its node"
        return CauseFinding(Cause("Unused", text, "a pod that uses it"), verdicts)
    pod = pods[0]
    found = PodCase(snapshot, pod, deadlines).finding()
    text = f"its devices are there, but pod {pod.metadata.name} waits: {found.cause.text}"
    return CauseFinding(Cause(found.cause.code, text, found.cause.help), found.nodes, found.holders)


def _uses(snapshot: Snapshot, pod: Pod, claim: ResourceClaim) -> bool:
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    name = podclaims.group_name(pod)
    group = snapshot.get(PodGroup, name, pod.metadata.namespace) if name else None
    return any(use.claim == claim.metadata.name for use in podclaims.uses_of(pod, group))


# Words


def _absent(kind: str, name: str, others: Iterable[object]) -> str:
    names = sorted(getattr(other, "metadata").name for other in others)  # noqa: B009 (kinds have no common type)
    meant = alike(name, names)
    return f'{kind} "{name}" not found' + (f", did you mean {meant}?" if meant else "")


def _must_read(snapshot: Snapshot, type_: type[Any]) -> None:
    if type_ in snapshot.unreadable:
        raise NotThere(f"you may not list {BY_TYPE[type_].plural}")


def _notes(snapshot: Snapshot, found: CauseFinding) -> list[str]:
    """What this explanation could not look at, or did not finish."""
    blind, late = snapshot.blind_spots(), [v.node for v in found.nodes if v.is_late]
    notes = [f"you may not list {', '.join(blind)}; what is said here leaves them out"] if blind else []
    if late:
        shown = ", ".join(late[:_NODES_NAMED]) + (
            f" and {len(late) - _NODES_NAMED} more" if len(late) > _NODES_NAMED else ""
        )
        notes.append(f"there was not enough time to look for devices on {shown}")
    return notes
