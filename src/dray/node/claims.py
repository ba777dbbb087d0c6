"""Claims of the pods on this node: access is checked, claims are prepared before their first pod and unprepared after
their last.

All state is in the checkpoint, which is written before and after each driver call. After a restart no successful call
is repeated and no call is forgotten; unpreparing needs nothing but the checkpoint. Each method makes one attempt, and
the caller waits and tries again. Left out: which devices a runtime can bring into a container.
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

# calls that a driver may declare unnecessary
PREPARE, UNPREPARE, EVERYTHING = "NodePrepareResources", "NodeUnprepareResources", "*"


class ClaimsError(Exception):
    """A pod's claims cannot be prepared or unprepared now. The text gives the reason, for an event."""


class Granted(NamedTuple):
    """A prepared device that a container gets."""

    driver: str
    claim: str  # the name of the entry in the pod's spec.resourceClaims
    request: str  # the request that the container names, or empty
    device: CheckpointedDevice
    resource: str = ""  # the extended resource that the device serves, or empty
    name: str = ""  # the name of the ResourceClaim


class _Wanted(NamedTuple):
    """A claim that a pod uses, the pod's entries that refer to it, and its drivers and requests."""

    identity: ClaimId
    entries: tuple[str, ...]
    drivers: dict[str, bool]  # drivers to call, each with whether its unprepare is skipped
    requests: frozenset[str]


class ClaimsOnNode:
    """Prepares, unprepares and looks up the claims of all pods on this node."""

    def __init__(
        self,
        client: Client,
        checkpoint: Checkpoint,
        plugins: Plugins,
        sharing: podclaims.Sharing,
        *,
        skips: bool = False,
    ) -> None:
        """With `skips`, calls that drivers declare unnecessary are left out (DRAOptionalNodeOperations)."""
        self._client = client
        self._skips = skips
        self._known = Knowledge(sharing)
        self._checkpoint = checkpoint
        self._plugins = plugins
        # a lock exists only while a task holds it
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._in_use = ClaimsInUse()
        self.show()

    def pods(self) -> set[str]:
        """Return the uids of the pods that hold claims."""
        return {pod for claim in self._checkpoint.claims.values() for pod in claim.pods}

    def holds(self, pod: str) -> bool:
        return any(pod in claim.pods for claim in self._checkpoint.claims.values())

    def is_prepared(self, pod: Pod) -> bool:
        """Whether all claims that the pod needs are prepared, according to the checkpoint alone.

        Entries that need no claim are ignored.
        """
        ready = {
            entry
            for claim in self._checkpoint.claims.values()
            if claim.prepared
            for entry in claim.pods.get(pod.metadata.uid, ())
        }
        return all(use.entry in ready or not use.needed for use in podclaims.uses_of(pod))

    def granted(self, pod: Pod, container: AnyContainer) -> list[Granted]:
        """Return the prepared devices of a container: by its claim references in order, then for extended resources.

        Devices of claims that are not prepared yet are left out.
        """
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
        """Prepare the pod's claims that are not prepared yet, with one call to each driver.

        Returns a warning for each request that a container names but its claim does not have. Raises `ClaimsError` if
        a claim, driver or permission is missing or a call fails.
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
        """Write the claims to the checkpoint before drivers are called. A pod that fails the checks leaves no entry.

        Raises ClaimsError if a check fails.
        """
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
        """Call one driver's prepare. Returns by claim uid the devices, or the error as text."""
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
        """Write the devices that drivers have prepared to the checkpoint.

        `answers` has by driver and claim uid the devices, or an error, which is left out.
        """
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
        """Read the claims that a pod needs from the API server and check that the pod may use them.

        They must exist and be allocated. Raises `ClaimsError` if a check fails.
        """
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
            assert problem is not None  # a claim that does not exist is a problem
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
        """Raise `ClaimsError` if a claim with the same name but another uid is still prepared."""
        for other in self._checkpoint.claims.values():
            if (other.namespace, other.name) == claim[:2] and other.uid != claim.uid:
                raise ClaimsError(
                    f"old ResourceClaim with same name {claim.name} and different UID {other.uid} still exists"
                )

    # Unpreparing

    async def unprepare(self, pod: str) -> None:
        """Release a pod's claims and unprepare those that no other pod uses. Raises `ClaimsError` if a call fails.

        `pod` is the pod's uid. Nothing happens if the pod holds no claims.
        """
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
        """Whether a claim that its driver does not know is also gone from the API server.

        Then nothing is left to unprepare. Returns False if the API server cannot be asked.
        """
        try:
            claim = await self._client.get(ResourceClaim, identity.name, identity.namespace)
        except NotFound:
            return True
        except ApiError:
            return False
        return claim.metadata.uid != identity.uid

    # Common parts

    def _driver(self, name: str) -> DriverConnection:
        driver = self._plugins.find(name)
        if driver is None:
            raise ClaimsError(f"DRA driver {name} is not registered")
        return driver

    @asynccontextmanager
    async def _holding(self, uids: Iterable[str]) -> AsyncIterator[None]:
        """Lock claims by uid during a `with` block, always in sorted order, so that no deadlock can occur."""
        async with AsyncExitStack() as stack:
            for uid in sorted(set(uids)):
                lock = self._locks.get(uid)
                if lock is None:
                    lock = self._locks[uid] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def show(self) -> None:
        """Update the metrics. Must be called after claims change and when a driver connects or disconnects."""
        drivers = [{share.driver for share in claim.shares} for claim in self._checkpoint.claims.values()]
        self._in_use.show(drivers, self._plugins.is_reachable)

    def show_nothing(self) -> None:
        """Remove this agent's claims from the metrics at its end; another agent in the process may take them over."""
        self._in_use.show([], self._plugins.is_reachable)

    def stranded(self, driver: str) -> dict[str, list[str]]:
        """Return the names of the claims for which this driver is needed, by the uid of each pod that uses them."""
        found: dict[str, list[str]] = {}
        for claim in self._checkpoint.claims.values():
            if any(share.driver == driver for share in claim.shares):
                for pod in claim.pods:
                    found.setdefault(pod, []).append(claim.name)
        return found


def _references(pod: Pod, container: AnyContainer) -> Iterator[tuple[str, str, str]]:
    """Yield for each use of devices: the pod's claim entry, the request (or ""), the extended resource (or "")."""
    for claim in container.resources.claims:
        yield claim.name, claim.request, ""
    special = pod.status.extendedResourceClaimStatus
    for mapping in special.requestMappings if special is not None else ():
        if mapping.containerName == container.name:
            yield podclaims.EXTENDED_ENTRY, mapping.requestName, mapping.resourceName


def _drivers(claim: ResourceClaim, skips: bool) -> dict[str, bool]:
    """Return the drivers to call for a claim, each with whether its unprepare call is skipped.

    True means that what the driver prepared stays. A driver is left out if none of its devices needs the prepare
    call.
    """
    assert claim.status.allocation is not None
    needed: dict[str, set[str]] = {}
    for result in claim.status.allocation.devices.results:
        spared = set(result.skipNodeOperations) if skips else set()
        spared = {PREPARE, UNPREPARE} if EVERYTHING in spared else spared
        needed.setdefault(result.driver, set()).update({PREPARE, UNPREPARE} - spared)
    return {driver: UNPREPARE not in calls for driver, calls in needed.items() if PREPARE in calls}


def _unknown_requests(pod: Pod, wanted: Iterable[_Wanted]) -> list[str]:
    """Return a warning for each request that a container names but its claim does not have.

    Ephemeral containers and claims that the pod does not have are not checked.
    """
    claims = {entry: want for want in wanted for entry in want.entries}
    return [
        f"container {container.name}: claim {used.name} (ResourceClaim {claim.identity.name}) has no request "
        f"{used.request}, so that the container gets no device for it"
        for container in (*pod.spec.initContainers, *pod.spec.containers)
        for used in container.resources.claims
        if used.request and (claim := claims.get(used.name)) is not None and used.request not in claim.requests
    ]


def _unprepared_shares(claims: Iterable[PreparedClaim], *, leaving: bool = False) -> dict[str, list[ClaimId]]:
    """Return by driver the claims to name in the next prepare call, or in the next unprepare call if `leaving`."""
    todo: dict[str, list[ClaimId]] = {}
    for claim in claims:
        for share in claim.shares:
            if share.devices is None and not (leaving and share.stays):
                todo.setdefault(share.driver, []).append(ClaimId(claim.namespace, claim.name, claim.uid))
    return todo


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise ClaimsError("; ".join(dict.fromkeys(problems)))
