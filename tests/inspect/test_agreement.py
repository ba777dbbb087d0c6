"""Explain and the scheduler agree: node by node, on random clusters.

The scheduler sees a cluster through its informers, with its kept sets and its ledger, and sees it turn into another one;
explain sees what the API serves. For each node, the scheduler's reasons are the first of explain's, and a node that one of
them takes fits for the other. That the comparison misses nothing is shown by leaving out one rule, or one check of claims,
on one side at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import claim_access
from dray.api.claim_access import PodClaims, Purpose
from dray.api.gates import FeatureGates
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.nodes import NodeReason, SchedulingRule
from dray.api.types.core import Pod
from dray.client import SharedInformers
from dray.client.informer import key_of
from dray.client.interface import Page, WatchEvent
from dray.inspect import placement
from dray.inspect.explain import explain_pod
from dray.inspect.explanation import Explanation
from dray.inspect.snapshot import Snapshot
from dray.scheduler import Scheduler
from dray.scheduler import attempt as scheduling
from dray.scheduler.attempt import Attempt, Decision, Promise, Refused
from dray.scheduler.configuration import Profile
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Judgement, Rules
from tests.inspect.clusters import Objects, cluster

GATES = FeatureGates.parse(
    "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true,DRAReservedForWorkloads=true"
)
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
    """The scheduler finishes every attempt in one part, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dray.scheduler.devices.THINKING", 60.0)
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
    decision: Decision


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
    attempt = Attempt(Candidate(pod), PodClaims(pod), Profile())
    decision = scheduler.loop.decide(attempt)
    if isinstance(decision, Promise):
        for claim in decision.pending:
            scheduler.devices.ledger.forget(claim.metadata.uid)
    if isinstance(decision, Refused) and decision.why.problem is not None:
        return Said({}, decision)
    return Said(scheduler.loop.placement.judge(attempt).by_node(scheduler.table), decision)


def disagreement(seed: int, other: int) -> str:
    """Where explain says something else than the scheduler did; empty where they agree."""
    for objects, said in asyncio.run(scheduled(cluster(seed), cluster(other, "2"))):
        for name, one in said.items():
            told = explain_pod(Snapshot.of(*objects), "default", name)
            problem = _differing(one, told)
            if problem:
                return f"{name}: {problem}: the scheduler {one}, explain {told}, of\n{objects!r}"
    return ""


def _differing(said: Said, told: Explanation) -> str:
    decision, verdicts = said.decision, {verdict.node: verdict for verdict in told.nodes}
    if isinstance(decision, Refused) and decision.why.problem is not None:
        return "" if told.cause.code == CAUSES[decision.why.problem.code] else "another problem of a claim"
    if set(verdicts) != set(said.reasons):
        return "other nodes"
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
        return "" if verdicts[decision.node].fits and told.cause.code == "NoScheduler" else "a node for the pod"
    return "a pod without a node" if any(verdict.fits for verdict in told.nodes) else ""


@pytest.mark.slow
@settings(deadline=None, max_examples=1200)
@given(SEEDS, SEEDS)
def test_explain_says_node_by_node_what_the_scheduler_did(seed: int, other: int) -> None:
    assert disagreement(seed, other) == ""


# Leaving something out


@contextmanager
def without_rule(rule: SchedulingRule, *, explaining: bool) -> Iterator[None]:
    """Leave a rule out, where nodes are judged thoroughly (explain) or where they are not (the scheduler)."""

    class Forgetful(Rules):
        def judge(self, *args: Any, **more: Any) -> Judgement:
            return super().judge(*args, **{**more, "disabled": {*more.get("disabled", ()), rule}})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement if explaining else scheduling, "Rules", Forgetful)
        yield


@contextmanager
def without_check(purpose: Purpose, check: Callable[..., Any], *, explaining: bool) -> Iterator[None]:
    """Leave a check of claims out while explain, or the scheduler, looks at the claims of a pod."""
    everything: Mapping[Purpose, tuple[Any, ...]] = claim_access.SEQUENCES
    rest = {**everything, purpose: tuple(one for one in everything[purpose] if one is not check)}
    target = "dray.inspect.pods.claims_of" if explaining else "dray.scheduler.devices.claims_of"
    original = claim_access.claims_of

    def forgetful(*args: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(claim_access, "SEQUENCES", rest)
            return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, forgetful)
        yield


def assert_noticed() -> None:
    assert any(is_noticed(seed) for seed in range(0, 6000, 2))


def is_noticed(seed: int) -> bool:
    try:
        return bool(disagreement(seed, seed + 1))
    except (AssertionError, KeyError):  # a claim that was not looked for is missing later
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
