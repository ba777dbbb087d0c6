"""Claims of pods on this node: who may use them, prepared before the first pod and unprepared after the last.

What is known is in the checkpoint, written before and after each call, so a restart repeats no call that succeeded and
forgets none that may have; to unprepare, nothing but the checkpoint is needed. Each method makes one try: whoever calls
waits and tries again. Left out: which devices a runtime can bring into a container.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

from dray.api import podclaims
from dray.api.claim_access import Knowledge, Purpose, claim_problem
from dray.api.errors import ApiError, NotFound
from dray.api.reasons import wording
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Client
from dray.node import preparation
from dray.node.checkpoint import Checkpoint, CheckpointedDevice, PreparedClaim
from dray.node.containers import AnyContainer
from dray.node.drivers import ClaimId, DriverConnection, DriverError, Prepared
from dray.node.metrics import ClaimsInUse
from dray.node.plugins import Plugins

PREPARE, UNPREPARE, EVERYTHING = "NodePrepareResources", "NodeUnprepareResources", "*"  # calls that can be left out


class ClaimsError(Exception):
    """Why a pod cannot have its claims prepared or unprepared now; the text is for an event."""


class Granted(NamedTuple):
    """A device that a container gets."""

    driver: str
    claim: str  # the entry of the pod's spec
    request: str  # that the container names; empty for none
    device: CheckpointedDevice
    resource: str = ""  # the extended resource that it serves; empty for none
    name: str = ""  # of the claim


class _Wanted(NamedTuple):
    """A claim that a pod uses, through these entries, with devices of these drivers for these requests."""

    identity: ClaimId
    entries: tuple[str, ...]
    drivers: dict[str, bool]  # those to be called, each with whether what it prepares stays
    requests: frozenset[str]


class ClaimsOnNode:
    """All claims on this node."""

    def __init__(
        self,
        client: Client,
        checkpoint: Checkpoint,
        plugins: Plugins,
        sharing: podclaims.Sharing,
        *,
        skips: bool = False,
    ) -> None:
        """With `skips`, calls are left out that drivers say they do not need (DRAOptionalNodeOperations)."""
        self._client = client
        self._skips = skips
        self._known = Knowledge(sharing)
        self._checkpoint = checkpoint
        self._plugins = plugins
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # as long as somebody holds one
        self._in_use = ClaimsInUse()
        self.show()

    def pods(self) -> set[str]:
        """The uids of pods that hold claims."""
        return {pod for claim in self._checkpoint.claims.values() for pod in claim.pods}

    def holds(self, pod: str) -> bool:
        return any(pod in claim.pods for claim in self._checkpoint.claims.values())

    def is_prepared(self, pod: Pod) -> bool:
        """Whether everything the pod uses is prepared for it; needs no API server."""
        ready = {
            entry
            for claim in self._checkpoint.claims.values()
            if claim.prepared
            for entry in claim.pods.get(pod.metadata.uid, ())
        }
        return all(use.entry in ready or not use.needed for use in podclaims.uses_of(pod))

    def granted(self, pod: Pod, container: AnyContainer) -> list[Granted]:
        """The devices of a container, in the order in which it names claims; then those for extended resources."""
        found = []
        for entry, request, resource in _references(pod, container):
            for claim in self._checkpoint.claims.values():
                if entry in claim.pods.get(pod.metadata.uid, ()):
                    found += [
                        Granted(share.driver, entry, request, device, resource, claim.name)
                        for share in claim.shares
                        for device in share.devices or ()
                        if device.serves(request)
                    ]
        return found

    # Preparing

    async def prepare(self, pod: Pod) -> list[str]:
        """Prepare what is not prepared yet, one call a driver; `ClaimsError` when something is missing or fails.

        The answer says of which requests containers get nothing, because their claims have none of that name.
        """
        if self.is_prepared(pod):
            return []
        wanted = await self._verified(pod)
        async with self._holding(w.identity.uid for w in wanted):
            self._begin(pod, wanted)
            claims = [self._checkpoint.claims[w.identity.uid] for w in wanted]
            todo = _unprepared_shares(claims)
            answers = await asyncio.gather(*(self._prepare(driver, ids) for driver, ids in todo.items()))
            self._note(dict(zip(todo, answers, strict=True)))
        _raise([text for answer in answers for text in answer.values() if isinstance(text, str)])
        return _unknown_requests(pod, wanted)

    def _begin(self, pod: Pod, wanted: Sequence[_Wanted]) -> None:
        """Write down that drivers are about to be asked; refused before that, a pod leaves nothing behind."""
        for want in wanted:
            self._check_incarnation(want.identity)
            for driver in want.drivers:
                self._driver(driver)
        entries = [
            preparation.wanted(
                self._checkpoint.claims.get(w.identity.uid), w.identity, w.drivers, pod.metadata.uid, w.entries
            )
            for w in wanted
        ]
        self._checkpoint.put(*entries)
        self.show()

    async def _prepare(self, name: str, ids: Sequence[ClaimId]) -> dict[str, Prepared | str]:
        """Ask one driver; by uid what it prepared or why not."""
        try:
            answer = await self._driver(name).prepare(ids)
        except (DriverError, ClaimsError) as error:
            return dict.fromkeys((i.uid for i in ids), str(error))
        names = {i.uid: i.name for i in ids}
        return {
            uid: f"ResourceClaim {names[uid]}: DRA driver {name}: {said}" if isinstance(said, str) else said
            for uid, said in answer.items()
        }

    def _note(self, answers: dict[str, dict[str, Prepared | str]]) -> None:
        changed = []
        for uid in {uid for answer in answers.values() for uid in answer}:
            done = {
                driver: said
                for driver, answer in answers.items()
                if uid in answer and not isinstance(said := answer[uid], str)
            }
            changed.append(preparation.answered(self._checkpoint.claims[uid], done))
        self._checkpoint.put(*changed)

    async def _verified(self, pod: Pod) -> list[_Wanted]:
        """The claims of a pod, read again: they exist, are allocated, and the pod may use them."""
        try:
            group = await self._group(pod)
            found: dict[str, tuple[ResourceClaim, list[str]]] = {}
            for use in podclaims.uses_of(pod, group):
                if use.needed:
                    claim = await self._claim(pod, use, group)
                    found.setdefault(claim.metadata.uid, (claim, []))[1].append(use.entry)
        except ApiError as error:
            raise ClaimsError(str(error)) from error
        return [
            _Wanted(
                ClaimId(c.metadata.namespace, c.metadata.name, c.metadata.uid),
                tuple(entries),
                _drivers(c, self._skips),
                frozenset(request.name for request in c.spec.devices.requests or ()),
            )
            for c, entries in found.values()
        ]

    async def _claim(self, pod: Pod, use: podclaims.Use, group: PodGroup | None) -> ResourceClaim:
        claim: ResourceClaim | None = None
        if use.claim is not None:
            with suppress(NotFound):
                claim = await self._client.get(ResourceClaim, use.claim, pod.metadata.namespace)
        problem = claim_problem(Purpose.START, pod, use, claim, group, self._known)
        if claim is None or problem is not None:
            assert problem is not None  # a claim that does not exist is one
            raise ClaimsError(wording.claim_problem(problem))
        return claim

    async def _group(self, pod: Pod) -> PodGroup | None:
        name = podclaims.group_name(pod)
        if not (name and pod.spec.resourceClaims and self._known.sharing.groups):
            return None
        try:
            return await self._client.get(PodGroup, name, pod.metadata.namespace)
        except NotFound:
            return None

    def _check_incarnation(self, claim: ClaimId) -> None:
        for other in self._checkpoint.claims.values():
            if (other.namespace, other.name) == claim[:2] and other.uid != claim.uid:
                raise ClaimsError(
                    f"old ResourceClaim with same name {claim.name} and different UID {other.uid} still exists"
                )

    # Unpreparing

    async def unprepare(self, pod: str) -> None:
        """Let go of a pod's claims, and unprepare those that no other pod uses; `ClaimsError` when some remain."""
        held = [claim.uid for claim in self._checkpoint.claims.values() if pod in claim.pods]
        if not held:
            return
        async with self._holding(held):
            self._checkpoint.put(*(preparation.left(self._checkpoint.claims[uid], pod) for uid in held))
            leaving = [claim for uid in held if (claim := self._checkpoint.claims[uid]).leaving]
            todo = _unprepared_shares(leaving, leaving=True)
            answers = await asyncio.gather(*(self._unprepare(driver, ids) for driver, ids in todo.items()))
            self._note_unprepared(leaving, dict(zip(todo, answers, strict=True)))
            self.show()
        _raise([text for answer in answers for text in answer.values() if text])

    async def _unprepare(self, name: str, ids: Sequence[ClaimId]) -> dict[str, str]:
        try:
            answer = await self._driver(name).unprepare(ids)
        except (DriverError, ClaimsError) as error:
            text = str(error)
            if isinstance(error, DriverError) and error.not_found:
                return {i.uid: "" if await self._vanished(i) else text for i in ids}
            return dict.fromkeys((i.uid for i in ids), text)
        names = {i.uid: i.name for i in ids}
        return {
            uid: f"ResourceClaim {names[uid]}: DRA driver {name}: {said}" if said else ""
            for uid, said in answer.items()
        }

    def _note_unprepared(self, claims: Iterable[PreparedClaim], answers: dict[str, dict[str, str]]) -> None:
        kept, gone = [], []
        for claim in claims:
            done = [driver for driver, answer in answers.items() if answer.get(claim.uid) == ""]
            rest = preparation.unprepared(claim, done)
            if rest is None:
                gone.append(claim.uid)
            else:
                kept.append(rest)
        self._checkpoint.put(*kept)
        self._checkpoint.remove(*gone)

    async def _vanished(self, identity: ClaimId) -> bool:
        """Whether a claim that a driver does not know does not exist either, so that nothing is left to undo."""
        try:
            claim = await self._client.get(ResourceClaim, identity.name, identity.namespace)
        except NotFound:
            return True
        except ApiError:
            return False
        return claim.metadata.uid != identity.uid

    # Both

    def _driver(self, name: str) -> DriverConnection:
        driver = self._plugins.find(name)
        if driver is None:
            raise ClaimsError(f"DRA driver {name} is not registered")
        return driver

    @asynccontextmanager
    async def _holding(self, uids: Iterable[str]) -> AsyncIterator[None]:
        """Keep others off some claims; in one order everywhere, so that nobody waits for each other."""
        async with AsyncExitStack() as stack:
            for uid in sorted(set(uids)):
                lock = self._locks.get(uid)
                if lock is None:
                    lock = self._locks[uid] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def show(self) -> None:
        """Bring the metrics up to date: after a change of the claims, and when a driver comes or goes."""
        drivers = [{share.driver for share in claim.shares} for claim in self._checkpoint.claims.values()]
        self._in_use.show(drivers, self._plugins.is_reachable)

    def show_nothing(self) -> None:
        """Take this agent's claims out of the metrics: it ends, and another one in this process may take them over."""
        self._in_use.show([], self._plugins.is_reachable)

    def stranded(self, driver: str) -> dict[str, list[str]]:
        """By the uid of a pod, the names of its claims that this driver prepared."""
        found: dict[str, list[str]] = {}
        for claim in self._checkpoint.claims.values():
            if any(share.driver == driver for share in claim.shares):
                for pod in claim.pods:
                    found.setdefault(pod, []).append(claim.name)
        return found


def _references(pod: Pod, container: AnyContainer) -> Iterator[tuple[str, str, str]]:
    """What a container uses: an entry of the pod, a request (empty for all), and the extended resource that it serves."""
    for claim in container.resources.claims:
        yield claim.name, claim.request, ""
    special = pod.status.extendedResourceClaimStatus
    for mapping in special.requestMappings if special is not None else ():
        if mapping.containerName == container.name:
            yield podclaims.EXTENDED_ENTRY, mapping.requestName, mapping.resourceName


def _drivers(claim: ResourceClaim, skips: bool) -> dict[str, bool]:
    """The drivers to be called for a claim, each with whether what it prepares stays.

    A call is left out where the driver needs it for none of its devices.
    """
    assert claim.status.allocation is not None
    needed: dict[str, set[str]] = {}
    for result in claim.status.allocation.devices.results:
        spared = set(result.skipNodeOperations) if skips else set()
        spared = {PREPARE, UNPREPARE} if EVERYTHING in spared else spared
        needed.setdefault(result.driver, set()).update({PREPARE, UNPREPARE} - spared)
    return {driver: UNPREPARE not in calls for driver, calls in needed.items() if PREPARE in calls}


def _unknown_requests(pod: Pod, wanted: Iterable[_Wanted]) -> list[str]:
    claims = {entry: want for want in wanted for entry in want.entries}
    return [
        f"container {container.name}: claim {used.name} (ResourceClaim {claim.identity.name}) has no request "
        f"{used.request}, so that the container gets no device for it"
        for container in (*pod.spec.initContainers, *pod.spec.containers)
        for used in container.resources.claims
        if used.request and (claim := claims.get(used.name)) is not None and used.request not in claim.requests
    ]


def _unprepared_shares(claims: Iterable[PreparedClaim], *, leaving: bool = False) -> dict[str, list[ClaimId]]:
    """Which claims to name in the call to each driver, to prepare them or to be sure that they are not prepared."""
    todo: dict[str, list[ClaimId]] = {}
    for claim in claims:
        for share in claim.shares:
            if share.devices is None and not (leaving and share.stays):
                todo.setdefault(share.driver, []).append(ClaimId(claim.namespace, claim.name, claim.uid))
    return todo


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise ClaimsError("; ".join(dict.fromkeys(problems)))
