"""Entry points of `dray explain`: why a pod, claim, workload, PodGroup or pool status request waits, or that it does
not.

No I/O: snapshot in, explanation out. Left out: the steps of a pod (`pods`), device shortages (`shortage`), and
printing (`layout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from dray.api import podclaims
from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.objects import Object
from dray.api.reasons import cause_wording
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.deleting import ClaimFinalizersLeft, IsDeleting
from dray.api.reasons.causes.pool_status import AnswerFailed, NoController, NoMatchingPools, RequestAnswered
from dray.api.reasons.causes.settled import ClaimUnused, IsAllocated, PodWaits
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourcePoolStatusRequest
from dray.api.types.scheduling import PodGroup
from dray.inspect.explanation import AllocatedTwice, PreemptionForecast, WaitExplanation
from dray.inspect.groups import group_finding
from dray.inspect.hardware import alike
from dray.inspect.placement import Allowance, judge_devices
from dray.inspect.pods import CauseFinding, PodCase, missing_class
from dray.inspect.preempting import forecast
from dray.inspect.shortage import ClaimShortage
from dray.inspect.snapshot import Snapshot
from dray.inspect.suggesting.offers import suggestions
from dray.inspect.workloads import WorkloadCase

T = TypeVar("T", bound=Object)


class NotThere(LookupError):
    """The object to explain does not exist. The message names similar objects."""


def explain_pod(
    snapshot: Snapshot,
    namespace: str,
    name: str,
    allowance: Allowance | None = None,
    *,
    helps: bool = True,
) -> WaitExplanation:
    """Explain why a pod waits, or that it does not. Raises NotThere if the pod does not exist.

    Without `helps`, no suggestions are searched.
    """
    pod = _existing(snapshot, Pod, name, namespace)
    allowance = allowance or Allowance()
    found = PodCase(snapshot, pod, allowance).finding()
    help_ = suggestions(snapshot, pod, found.cause, found.nodes, allowance) if found.waits and helps else ()
    return _explanation("pod", namespace, name, found, snapshot, help_)


def explain_claim(
    snapshot: Snapshot,
    namespace: str,
    name: str,
    allowance: Allowance | None = None,
) -> WaitExplanation:
    """Explain why a claim is not allocated, or which devices and users it has.

    Raises NotThere if the claim does not exist.
    """
    claim = _existing(snapshot, ResourceClaim, name, namespace)
    allowance = allowance or Allowance()
    pods = [pod for pod in snapshot.all(Pod) if _uses(snapshot, pod, claim) and not podclaims.is_finished(pod)]
    found = _claim_finding(snapshot, claim, pods, allowance)
    help_ = suggestions(snapshot, pods[0], found.cause.root, found.nodes, allowance) if found.waits and pods else ()
    return _explanation("claim", namespace, name, found, snapshot, help_)


def explain_workload(
    snapshot: Snapshot,
    type_: type[Any],
    namespace: str,
    name: str,
    allowance: Allowance | None = None,
) -> WaitExplanation:
    """Explain why the pods of a workload do not run, or that they do. Raises NotThere if there is no such workload."""
    workload = _existing(snapshot, type_, name, namespace)
    found, help_ = WorkloadCase(snapshot, workload, allowance or Allowance()).finding()
    return _explanation(BY_TYPE[type_].kind.lower(), namespace, name, found, snapshot, help_)


def explain_group(snapshot: Snapshot, namespace: str, name: str, allowance: Allowance | None = None) -> WaitExplanation:
    """Explain why a PodGroup is not placed, or that its pods run. Raises NotThere if the PodGroup does not exist."""
    if PodGroup in snapshot.unserved:
        raise NotThere(say(CausePhrase.GATE_HIDES, kind="PodGroup", gate="GenericWorkload"))
    group = _existing(snapshot, PodGroup, name, namespace)
    found, help_ = group_finding(snapshot, group, allowance or Allowance())
    return _explanation("podgroup", namespace, name, found, snapshot, help_)


def explain_request(snapshot: Snapshot, name: str) -> WaitExplanation:
    """Explain why a ResourcePoolStatusRequest has no answer, or report its answer.

    Raises NotThere if it does not exist.
    """
    if ResourcePoolStatusRequest in snapshot.unserved:
        raise NotThere(say(CausePhrase.GATE_HIDES, kind="ResourcePoolStatusRequest", gate="DRAResourcePoolStatus"))
    waits, cause = _request_cause(_existing(snapshot, ResourcePoolStatusRequest, name))
    return WaitExplanation(kind="request", name=name, waits=waits, cause=cause)


def _explanation(
    kind: str,
    namespace: str,
    name: str,
    found: CauseFinding,
    snapshot: Snapshot,
    help_: tuple[Suggestion, ...] = (),
) -> WaitExplanation:
    """Assemble an explanation from a finding."""
    return WaitExplanation(
        kind=kind,
        namespace=namespace,
        name=name,
        waits=found.waits,
        cause=found.cause,
        help=help_,
        nodes=found.nodes,
        holders=found.holders,
        unread=tuple(snapshot.blind_spots()),
        late=tuple(v.node for v in found.nodes if v.is_late),
        twice=_twice(snapshot, kind, namespace, name),
        preemption=_preemption(snapshot, kind, namespace, name) if found.waits else None,
    )


def _preemption(snapshot: Snapshot, kind: str, namespace: str, name: str) -> PreemptionForecast | None:
    """Forecast the preemption for a waiting pod, or for the first waiting pod of a PodGroup; None for other kinds.

    None also if no such pod waits or it would preempt none. `kind` is in lower case, like "pod" or "podgroup".
    """
    if kind not in ("pod", "podgroup"):
        return None
    pods = (pod for pod in snapshot.all(Pod) if pod.metadata.namespace == namespace and not pod.spec.nodeName)
    wanted = (pod for pod in pods if name == (pod.metadata.name if kind == "pod" else podclaims.group_name(pod)))
    pod = next((pod for pod in wanted if not podclaims.is_finished(pod)), None)
    return forecast(snapshot, pod) if pod is not None else None


def _twice(snapshot: Snapshot, kind: str, namespace: str, name: str) -> tuple[AllocatedTwice, ...]:
    """Return the devices of a claim, or of a pod's claims, that are also allocated to other claims.

    `kind` is "claim" or "pod"; for other kinds and missing objects, the result is empty. Claims are named
    namespace/name.
    """
    names = {name} if kind == "claim" else set()
    pod = snapshot.get(Pod, name, namespace) if kind == "pod" else None
    if pod is not None:
        names = {use.claim for use in podclaims.uses_of(pod, snapshot.group_of(pod)) if use.claim}
    ours = [claim for one in names if (claim := snapshot.get(ResourceClaim, one, namespace)) is not None]
    devices = {device for claim in ours for device in taken_by_claim(claim).devices}
    if not devices:
        return ()
    holders: dict[DeviceId, list[str]] = {device: [] for device in sorted(devices)}
    for claim in snapshot.all(ResourceClaim):
        for device in devices.intersection(taken_by_claim(claim).devices):
            holders[device].append(f"{claim.metadata.namespace}/{claim.metadata.name}")
    return tuple(AllocatedTwice(str(device), tuple(claims)) for device, claims in holders.items() if len(claims) > 1)


# Requests for pool status


def _request_cause(request: ResourcePoolStatusRequest) -> tuple[bool, Cause]:
    """Return whether a pool status request waits, and the cause.

    A request waits as long as its status has no observation time.
    """
    status, driver = request.status, request.spec.driver
    if status is None or status.observationTime is None:
        return True, NoController()
    failed = next((c for c in status.conditions if c.type == "Failed"), None)
    if failed is not None:
        return False, AnswerFailed(driver, failed.message)
    if not status.pools:
        return False, NoMatchingPools(driver)
    return False, RequestAnswered(driver, len(status.pools), status.poolCount or 0)


# Claims


def _claim_finding(snapshot: Snapshot, claim: ResourceClaim, pods: Sequence[Pod], allowance: Allowance) -> CauseFinding:
    """Find why a claim waits: a missing class, too few devices, no user, or the reason why its first pod waits."""
    settled = _settled(claim)
    if settled is not None:
        return settled
    absent = missing_class(snapshot, claim)
    if absent is not None:
        return CauseFinding(absent)
    verdicts = tuple(judge_devices(snapshot, [claim], allowance.nodes))
    if verdicts and not any(v.fits for v in verdicts):
        devices = ClaimShortage(snapshot, [claim], verdicts, allowance)
        return CauseFinding(devices.cause(), verdicts, devices.holders())
    if not pods:
        return CauseFinding(ClaimUnused(), verdicts)
    found = PodCase(snapshot, pods[0], allowance).finding()
    return CauseFinding(PodWaits(pods[0].metadata.name, found.cause), found.nodes, found.holders)


def _settled(claim: ResourceClaim) -> CauseFinding | None:
    """Return the finding for a claim that is allocated or being deleted, or None if the claim waits for devices.

    A claim that is being deleted waits as long as pods use it.
    """
    users = tuple(f"{r.resource.removesuffix('s')} {r.name}" for r in claim.status.reservedFor)
    if claim.metadata.deletionTimestamp is not None:
        finalizers = tuple(claim.metadata.finalizers)
        if finalizers and not users:
            return CauseFinding(ClaimFinalizersLeft(finalizers, claim.status.allocation is not None))
        return CauseFinding(IsDeleting(users), waits=bool(users))
    allocation = claim.status.allocation
    if allocation is None:
        return None
    devices = tuple(f"{r.driver}/{r.pool}/{r.device}" for r in allocation.devices.results)
    return CauseFinding(IsAllocated(devices, users), waits=False)


def _uses(snapshot: Snapshot, pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a pod uses a claim."""
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    return any(use.claim == claim.metadata.name for use in podclaims.uses_of(pod, snapshot.group_of(pod)))


# Objects that do not exist


def _existing(snapshot: Snapshot, type_: type[T], name: str, namespace: str = "") -> T:
    """Return the object to explain. Raises NotThere if it does not exist or cannot be read."""
    found = snapshot.get(type_, name, namespace)
    if found is not None:
        return found
    resource = BY_TYPE[type_]  # type: ignore[index]  # every object type is listed
    if type_ in snapshot.unreadable:
        raise NotThere(say(CausePhrase.MAY_NOT_LIST, names=resource.plural))
    raise _absent(resource.kind.lower(), name, namespace, snapshot.all(type_))


def _absent(kind: str, name: str, namespace: str, known: Sequence[Object]) -> NotThere:
    """Return the error that an object does not exist, naming namespaces where the name exists, or a similar name."""
    elsewhere = sorted({one.metadata.namespace for one in known if one.metadata.name == name} - {namespace})
    if elsewhere:
        names = cause_wording.listed(elsewhere)
        return NotThere(say(CausePhrase.IN_NAMESPACES, kind=kind, name=name, namespace=namespace, names=names))
    meant = alike(name, (one.metadata.name for one in known if one.metadata.namespace == namespace))
    hint = say(CausePhrase.MEANT, meant=meant) if meant else ""
    return NotThere(say(CausePhrase.NOT_FOUND, kind=kind, name=name) + hint)
