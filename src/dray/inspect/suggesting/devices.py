"""Suggestions about the devices of a cluster: more devices, devices of other pods, taints and pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.pools import PoolName
from dray.api.reasons.causes.base import Cause, RequestCause
from dray.api.reasons.causes.constraints import ConstraintUnmet
from dray.api.reasons.causes.pools import PoolCause, PublishPoolAgain
from dray.api.reasons.causes.tainted import RemoveRule, RemoveTaint
from dray.api.reasons.causes.taken import EndPods
from dray.api.reasons.causes.too_few import MoreDevices
from dray.api.reasons.suggestions import Suggestion
from dray.api.taints import taint_text
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.wire import Tree, tree_of
from dray.core.victims import priority_of
from dray.inspect.asking import Ask, DeviceCensus, asks_of
from dray.inspect.changes import deleted, is_controlled, patched
from dray.inspect.expressions import conjuncts, in_words
from dray.inspect.hardware import Published
from dray.inspect.shortage import rules_with
from dray.inspect.suggesting.subject import WaitingPod
from dray.sim.moving import may_be_evicted

_TOGETHER = 3  # maximum number of pods that a suggestion deletes
_PODS = 6  # pods considered per node
_NODES = 8  # nodes considered for more devices
_DEVICES_A_SLICE = 128


# More devices


def more(subject: WaitingPod, cause: RequestCause | ConstraintUnmet) -> Iterator[Suggestion]:
    """Yield suggestions to add as few devices as needed, similar to suitable ones, on the node that lacks fewest.

    Yields nothing if the request is unknown. The smallest number of devices comes first for each node.
    """
    census = census_of(subject, cause)
    if census is None:
        return
    needed = max(cause.asked.needed if isinstance(cause, RequestCause) else cause.needed, 1)
    by_node: dict[str, list[Published]] = {}
    for one in census.tolerated or census.selected:
        by_node.setdefault(one.node, []).append(one)
    free = {one.id for one in census.free}
    nodes = [name for name in by_node if name in {verdict.node for verdict in subject.nodes}]
    ordered = sorted(nodes, key=lambda name: (-sum(one.id in free for one in by_node[name]), name))
    for node in ordered[:_NODES]:
        like = by_node[node]
        lacking = needed - sum(one.id in free for one in like)
        for number in range(max(1, min(lacking, needed)), needed + 1):
            yield from _added(subject, census.ask, like[0], node, number)


def census_of(subject: WaitingPod, cause: RequestCause | ConstraintUnmet) -> DeviceCensus | None:
    """Return the device census of the request that a cause names, or of its claim's first request; None if unknown."""
    claims = {c.metadata.name: c for c in subject.pending()}
    asked = cause.asked if isinstance(cause, RequestCause) else None
    claim = claims.get(cause.asked.claim if isinstance(cause, RequestCause) else cause.claim)
    if claim is None:
        return None
    asks = asks_of(claim, subject.snapshot)
    ask = asks.get(asked.request) if asked is not None else next(iter(asks.values()), None)
    return DeviceCensus(ask, subject.hardware, subject.snapshot.taken) if ask is not None else None


def _added(subject: WaitingPod, ask: Ask, like: Published, node: str, number: int) -> Iterator[Suggestion]:
    """Yield the suggestion to add `number` copies of a device, without its taints, to its slice.

    Yields nothing if the slice would have too many devices.
    """
    for piece in subject.snapshot.all(ResourceSlice):
        names = {device.name for device in piece.spec.devices}
        is_home = (piece.spec.driver, piece.spec.pool.name) == like.id[:2] and like.id.device in names
        if not is_home or len(names) + number > _DEVICES_A_SLICE:
            continue
        devices: list[Tree] = tree_of(piece)["spec"]["devices"]
        model = next(device for device in devices if device["name"] == like.id.device)
        clone = {key: value for key, value in model.items() if key != "taints"}
        free_names = (f"{like.id.device}-more-{n}" for n in range(1, len(names) + number + 1))
        new = [name for name in free_names if name not in names][:number]
        body = {"spec": {"devices": [*devices, *({**clone, "name": name} for name in new)]}}
        yield MoreDevices(_thing(ask, number), node, number, changes=(patched(piece, body),))


def _thing(ask: Ask, number: int) -> str:
    """Return a description of the wanted devices, with singular or plural noun."""
    wanted = ", ".join(in_words(part) for expression in ask.selectors for part in conjuncts(expression))
    noun = "device" if number == 1 else "devices"
    return f"{ask.class_name} {noun} with {wanted}" if wanted else f"{ask.class_name} {noun}"


# Devices of other pods


def end_pods(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Yield suggestions to delete pods that hold devices on one node, fewest and least important first.

    Pods that a controller would create again are never included.
    """
    by_node = _holders(subject)
    for number in range(1, _TOGETHER + 1):
        sets = [(node, some) for node, pods in by_node.items() for some in combinations(pods[:_PODS], number)]
        for node, some in sorted(sets, key=lambda one: max(map(priority_of, one[1]))):
            yield ending(some, node, subject.namespace)


def ending(pods: Iterable[Pod], node: str, home: str) -> EndPods:
    """Return the suggestion to delete some pods of a node.

    Pods outside the `home` namespace are named with their namespace.
    """
    ended = [*pods]
    names = tuple(
        f"pod {meta.name}" if meta.namespace == home else f"pod {meta.namespace}/{meta.name}"
        for meta in (pod.metadata for pod in ended)
    )
    return EndPods(names, node, changes=tuple(map(deleted, ended)))


def _holders(subject: WaitingPod) -> dict[str, list[Pod]]:
    """Return by node the pods that may be deleted for this pod, lowest priority first, then fewest devices.

    These pods hold devices alone, have no controller, and are not more important.
    """
    found: dict[str, dict[str, tuple[int, Pod]]] = {}
    known = {pod.metadata.uid: pod for pod in subject.snapshot.all(Pod)}
    for claim in subject.snapshot.all(ResourceClaim):
        held = len(taken_by_claim(claim).touched)
        users = (
            [known[one.uid] for one in claim.status.reservedFor if one.uid in known and known[one.uid].spec.nodeName]
            if held
            else []
        )
        if len(users) == 1 and users[0].metadata.uid != subject.pod.metadata.uid and _may_end(users[0], subject):
            pods = found.setdefault(users[0].spec.nodeName, {})
            before = pods.get(users[0].metadata.uid, (0, users[0]))[0]
            pods[users[0].metadata.uid] = before + held, users[0]
    return {
        node: [
            pod
            for _, pod in sorted(pods.values(), key=lambda item: (priority_of(item[1]), item[0], item[1].metadata.name))
        ]
        for node, pods in found.items()
    }


def _may_end(pod: Pod, subject: WaitingPod) -> bool:
    """Whether a pod may be deleted: no controller, no higher priority, and allowed by disruption budgets."""
    if is_controlled(pod) or priority_of(pod) > priority_of(subject.pod):
        return False
    return subject.budgets is not None and may_be_evicted(pod, subject.budgets)


# Taints and pools


def untaint(subject: WaitingPod, cause: RequestCause) -> Iterator[Suggestion]:
    """Yield suggestions to delete taint rules, or to publish slices without their devices' taints.

    Yields nothing if the request is unknown.
    """
    census = census_of(subject, cause)
    if census is None:
        return
    rules = [
        rule
        for name in rules_with(census.taints(), subject.snapshot)
        if (rule := subject.snapshot.get(DeviceTaintRule, name)) is not None
    ]
    if rules:
        names = tuple(rule.metadata.name for rule in rules)
        yield RemoveRule(names, changes=tuple(map(deleted, rules)))
    tainted = {one.id for one in census.tainted}
    for piece in subject.snapshot.all(ResourceSlice):
        yield from _without_taints(piece, tainted)


def _without_taints(piece: ResourceSlice, tainted: set[DeviceId]) -> Iterator[Suggestion]:
    """Yield the suggestion to remove the taints of these devices from a slice.

    Yields nothing if none of these devices in the slice has taints.
    """
    spec = piece.spec
    own = [d for d in spec.devices if d.taints and DeviceId(spec.driver, spec.pool.name, d.name) in tainted]
    if own:
        names = {device.name for device in own}
        devices: list[Tree] = tree_of(piece)["spec"]["devices"]
        for device in devices:
            if device["name"] in names:
                device.pop("taints", None)
        texts = tuple(dict.fromkeys(taint_text(taint) for device in own for taint in device.taints))
        change = patched(piece, {"spec": {"devices": devices}})
        yield RemoveTaint(spec.pool.name, texts, changes=(change,))


def pool_again(subject: WaitingPod, cause: PoolCause) -> Iterator[Suggestion]:
    """Yield the suggestion to publish a pool with the correct number of slices and without duplicate devices.

    The first of several devices with the same name is kept.
    """
    pieces = subject.hardware.pools.get(PoolName(cause.driver, cause.pool), ())
    published = {piece.metadata.name: piece for piece in subject.snapshot.all(ResourceSlice)}
    seen: set[str] = set()
    changes = []
    for piece in pieces:
        devices: list[Tree] = tree_of(published[piece.metadata.name])["spec"].get("devices", [])
        kept = [device for device in devices if device["name"] not in seen]
        seen |= {device["name"] for device in kept}
        spec = {"devices": kept, "pool": {"resourceSliceCount": len(pieces)}}
        changes.append(patched(published[piece.metadata.name], {"spec": spec}))
    yield PublishPoolAgain(cause.pool, len(pieces), changes=tuple(changes))
