"""Explain and the scheduler agree: node by node, on random clusters.

The scheduler sees a cluster through its informers, with its kept sets and its ledger, and sees it turn into another one;
explain sees what the API serves. For each node, the scheduler's reasons are the first of explain's, and a node that one of
them takes fits for the other. That the comparison misses nothing is shown by leaving out one rule, or one check of claims,
on one side at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.allocator import AllocationOutcome, Features, Fits, Index, Turn
from dray.allocator.identity import GATE_OF
from dray.api import claim_access
from dray.api.allocations import Share
from dray.api.claim_access import PodClaims, Purpose
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.groups import GroupProblem
from dray.api.reasons.nodes import NodeReason, SchedulingRule
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, DeviceRequest, ResourceClaim, ResourceSlice
from dray.client import SharedInformers
from dray.client.informer import key_of
from dray.client.interface import Page, WatchEvent
from dray.core import core
from dray.core.attempt import Attempt, Promise, Refused, Unfinished
from dray.core.configuration import SchedulerProfile
from dray.core.state import ClusterState
from dray.inspect import placement
from dray.inspect.explain import explain_pod
from dray.inspect.explanation import WaitExplanation
from dray.inspect.snapshot import Snapshot
from dray.scheduler import Scheduler
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Judgement, Rules
from tests.inspect.clusters import GATES, Objects, cluster, device_cluster

Made = Callable[[int, str], Objects]

SEEDS = st.integers(0, 2**32)
CAUSES = {
    ClaimCode.GROUP_MISSING: "GroupMissing",
    ClaimCode.GROUP_LACKS_CLAIM: "GroupClaimMissing",
    ClaimCode.NOT_CREATED: "TemplateMissing",
    ClaimCode.NOT_FOUND: "ClaimMissing",
    ClaimCode.NOT_FOR_POD: "ForeignClaim",
    ClaimCode.NOT_FOR_GROUP: "ForeignClaim",
    ClaimCode.DELETING: "ClaimDeleting",
    ClaimCode.CLASS_MISSING: "ClassMissing",
    ClaimCode.FULL: "ClaimFull",
}


@pytest.fixture(autouse=True, scope="module")
def patient() -> Iterator[None]:
    """The scheduler finishes every attempt in one part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dray.core.devices.Turn", lambda: Turn(1 << 40))
        patch.setattr("dray.allocator.index.QUICK_SEARCH", 1 << 40)
        yield


class Served:
    """A client that serves a cluster, which turns into another one when it is told to."""

    def __init__(self, objects: Objects, later: Objects) -> None:
        self._objects = objects
        self._later = later
        self._turned = asyncio.Event()

    async def turn(self) -> None:
        self._turned.set()
        for _ in range(5):  # the informers take what is new and tell it
            await asyncio.sleep(0)

    async def list(self, type_: type[Any], **scope: Any) -> Page[Any]:
        return Page(tuple(one for one in self._objects if type(one) is type_), "1")

    async def watch(self, type_: type[Any], **scope: Any) -> AsyncIterator[Any]:
        await self._turned.wait()
        before, after = (
            {key_of(one): one for one in all_ if type(one) is type_} for all_ in (self._objects, self._later)
        )
        gone = [WatchEvent("DELETED", before[key], "2") for key in before.keys() - after.keys()]
        batch = [*gone, *(WatchEvent("MODIFIED", one, "2") for one in after.values())]
        if batch:
            yield batch
        await asyncio.Event().wait()


class Said(NamedTuple):
    """What the scheduler did with a pod: its reasons for each node that it looked at, and its decision."""

    reasons: dict[str, list[NodeReason]]
    decision: Promise | Refused
    waits: GroupProblem | None = None  # why the pod's group keeps it from being tried


async def scheduled(objects: Objects, later: Objects) -> list[tuple[Objects, dict[str, Said]]]:
    """What the scheduler does with each pod that has no node, in a cluster and in what it turns into."""
    client: Any = Served(objects, later)
    informers = SharedInformers(client)
    scheduler = Scheduler(client, GATES, informers=informers)
    await informers.start()
    await informers.synced()
    try:
        first = {pod.metadata.name: judged(scheduler, pod) for pod in _waiting(objects)}
        await client.turn()
        return [(objects, first), (later, {pod.metadata.name: judged(scheduler, pod) for pod in _waiting(later)})]
    finally:
        await informers.stop()


def _waiting(objects: Objects) -> list[Pod]:
    return [one for one in objects if isinstance(one, Pod) and not one.spec.nodeName]


def judged(scheduler: Scheduler, pod: Pod) -> Said:
    attempt = Attempt(Candidate(pod), PodClaims(pod), SchedulerProfile())
    decision = decided(scheduler, attempt)
    if isinstance(decision, Refused) and decision.why.problem is not None:
        return Said({}, decision)
    reasons = scheduler.core.state.placement.judge(attempt).by_node(scheduler.core.state.table)
    if isinstance(decision, Promise) or decision.why.wrong is None:
        for info in scheduler.core.state.table:
            if not reasons[info.name]:
                alone = replace(attempt, among=1 << info.position, lacking={})
                reasons[info.name] = [*_why(decided(scheduler, alone))]
    return Said(reasons, decision, scheduler.core.state.gangs.waits(pod))


def decided(scheduler: Scheduler, attempt: Attempt) -> Promise | Refused:
    """What the scheduler decides, without consequences."""
    decision = scheduler.core.decide(scheduler.core.prepare(attempt))
    assert not isinstance(decision, Unfinished)
    if isinstance(decision, Promise):
        for claim in decision.pending:
            scheduler.core.state.devices.ledger.forget(claim.metadata.uid)
    return decision


def _why(decision: Promise | Refused) -> Iterable[NodeReason]:
    return decision.why.reasons if isinstance(decision, Refused) else ()


def disagreement(seed: int, other: int, made: Made = cluster) -> str:
    """Where explain says something else than the scheduler did; empty where they agree."""
    for objects, said in asyncio.run(scheduled(made(seed, "1"), made(other, "2"))):
        for name, one in said.items():
            told = explain_pod(Snapshot.of(*objects), "default", name)
            problem = _differing(one, told)
            if problem:
                return f"{name}: {problem}: the scheduler {one}, explain {told}, of\n{objects!r}"
    return ""


def _differing(said: Said, told: WaitExplanation) -> str:
    decision, verdicts = said.decision, {verdict.node: verdict for verdict in told.nodes}
    if isinstance(decision, Refused) and decision.why.problem is not None:
        return "" if told.cause.code == CAUSES[decision.why.problem.code] else "another problem of a claim"
    if set(verdicts) != set(said.reasons):
        return "other nodes"
    if said.waits is not None and isinstance(decision, Promise):
        return "" if told.cause.code == "GroupMissing" else "a pod without its group"
    wrong = decision.why.wrong if isinstance(decision, Refused) else None
    for node, reasons in said.reasons.items():
        verdict = verdicts[node]
        if verdict.reasons[: len(reasons)] != tuple(reasons):
            return f"other reasons for {node}"
        if not reasons and not verdict.fits and wrong is None:
            return f"{node} fits for the scheduler alone"
    if wrong is not None:
        stops = any(verdict.problem == wrong and verdict.may_run for verdict in told.nodes)
        return "" if stops and told.cause.code not in ("WillBeTried", "NoScheduler") else "wrong input"
    if isinstance(decision, Promise):
        waits = told.cause.code in ("NoScheduler", "DevicesNotReady")  # for the scheduler to act, or to have devices
        return "" if verdicts[decision.node].fits and waits else "a node for the pod"
    return "a pod without a node" if any(verdict.fits for verdict in told.nodes) else ""


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(SEEDS, SEEDS, st.sampled_from([cluster, device_cluster]))
def test_explain_says_node_by_node_what_the_scheduler_did(seed: int, other: int, made: Made) -> None:
    assert disagreement(seed, other, made) == ""


# Leaving something out


@contextmanager
def without_rule(rule: SchedulingRule, *, explaining: bool) -> Iterator[None]:
    """Leave a rule out, where nodes are judged thoroughly (explain) or where they are not (the scheduler)."""

    class Forgetful(Rules):
        def judge(self, *args: Any, **more: Any) -> Judgement:
            return super().judge(*args, **{**more, "disabled": {*more.get("disabled", ()), rule}})

    class ForgetfulState(ClusterState):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.placement.rules.__class__ = Forgetful

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement if explaining else core, "ClusterState", ForgetfulState)
        yield


@contextmanager
def without_check(purpose: Purpose, check: Callable[..., Any], *, explaining: bool) -> Iterator[None]:
    """Leave a check of claims out while explain, or the scheduler, looks at the claims of a pod."""
    everything: Mapping[Purpose, tuple[Any, ...]] = claim_access.SEQUENCES
    rest = {**everything, purpose: tuple(one for one in everything[purpose] if one is not check)}
    target = "dray.inspect.pods.claims_of" if explaining else "dray.core.devices.claims_of"
    original = claim_access.claims_of

    def forgetful(*args: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(claim_access, "SEQUENCES", rest)
            return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, forgetful)
        yield


class ForgetfulIndex(Index):
    """An index of devices without a feature, or that leaves out a part of what it is told or asked."""

    forgotten = ""

    def __init__(self, features: Features, *, defers: bool = False) -> None:
        off = {self.forgotten: False} if self.forgotten in GATE_OF else {}
        super().__init__(msgspec.structs.replace(features, **off), defers=defers)

    def take(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        super().take(() if self.forgotten == "taken" else devices, () if self.forgotten == "shares" else shares)

    def upsert_class(self, class_: DeviceClass) -> None:
        super().upsert_class(_changed(class_, selectors=()) if self.forgotten == "class selectors" else class_)

    def upsert_slice(self, slice_: ResourceSlice) -> None:
        pool = msgspec.structs.replace(slice_.spec.pool, resourceSliceCount=1)
        super().upsert_slice(_changed(slice_, pool=pool) if self.forgotten == "completeness" else slice_)

    def allocate(self, node: str, claims: Sequence[ResourceClaim], *limits: Any) -> AllocationOutcome:
        return super().allocate(node, [self._asked(claim) for claim in claims], *limits)

    def fits(self, claims: Sequence[ResourceClaim], *limits: Any) -> Fits:
        return super().fits([self._asked(claim) for claim in claims], *limits)

    def _asked(self, claim: ResourceClaim) -> ResourceClaim:
        asked = claim.spec.devices
        if self.forgotten == "constraints":
            return _changed(claim, devices=msgspec.structs.replace(asked, constraints=()))
        if self.forgotten == "selectors":
            plain = [_plain(request) for request in asked.requests or ()]
            return _changed(claim, devices=msgspec.structs.replace(asked, requests=tuple(plain)))
        return claim


def _changed(one: Any, **spec: Any) -> Any:
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, **spec))


def _plain(request: DeviceRequest) -> DeviceRequest:
    exactly = request.exactly and msgspec.structs.replace(request.exactly, selectors=())
    return msgspec.structs.replace(request, exactly=exactly)


@contextmanager
def without_step(step: str, *, explaining: bool) -> Iterator[None]:
    """Leave a step of the allocator out while explain, or the scheduler, looks for devices."""

    class ForgetfulState(ClusterState):
        index_type = ForgetfulIndex

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForgetfulIndex, "forgotten", step)
        patch.setattr(placement if explaining else core, "ClusterState", ForgetfulState)
        yield


def assert_noticed(made: Made = cluster) -> None:
    assert any(is_noticed(seed, made) for seed in range(0, 6000, 2))


def is_noticed(seed: int, made: Made) -> bool:
    try:
        return bool(disagreement(seed, seed + 1, made))
    except (AssertionError, KeyError, StopIteration):  # what was not looked for is missing later
        return True


RULES = [
    rule for rule in SchedulingRule if rule is not SchedulingRule.NODE_NAME
]  # a pod with a node name is not scheduled
CHECKS = [
    (purpose, check)
    for purpose in (Purpose.WAIT, Purpose.PLACE)
    for check in claim_access.SEQUENCES[purpose]
    if check is not claim_access._is_not_promised  # what is promised is in nobody's memory but the scheduler's
]
STEPS = [
    *GATE_OF,
    *("taken", "shares", "class selectors", "selectors", "constraints", "completeness"),
]


@pytest.mark.parametrize("explaining", [True, False], ids=["explain", "scheduler"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_one_side_leaves_out_is_noticed(rule: SchedulingRule, explaining: bool) -> None:
    with without_rule(rule, explaining=explaining):
        assert_noticed()


@pytest.mark.parametrize("explaining", [True, False], ids=["explain", "scheduler"])
@pytest.mark.parametrize(("purpose", "check"), CHECKS, ids=[check.__name__ for _, check in CHECKS])
def test_a_check_that_one_side_leaves_out_is_noticed(
    purpose: Purpose, check: Callable[..., Any], explaining: bool
) -> None:
    with without_check(purpose, check, explaining=explaining):
        assert_noticed()


@pytest.mark.parametrize("explaining", [True, False], ids=["explain", "scheduler"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_allocator_that_one_side_leaves_out_is_noticed(step: str, explaining: bool) -> None:
    with without_step(step, explaining=explaining):
        assert_noticed(device_cluster)
