"""Shadow mode: decides about every pod that another scheduler decides about, and compares. Writes nothing.

A bound pod is decided again on the same state of the cluster: in a trial without its node and its claims' devices.
Each comparison thus includes the other scheduler's earlier decisions, and differences do not accumulate. A pod that
the other scheduler could not place is decided as it waits. Left out: preemption and gangs, which take several
decisions, and the report (`dray.replay.shadow_report`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.reasons import wording
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client import Client, Deltas, SharedInformers
from dray.client.metrics import OBJECT_FIGURES
from dray.client.readiness import Readiness
from dray.core.attempt import Promise, Refused
from dray.core.choices import NodeComparison, ScoreOfBoth, compare_nodes
from dray.core.configuration import Configuration, SchedulerProfile
from dray.core.core import SchedulerCore
from dray.scheduler.informed import InformedObjects
from dray.scheduler.metrics import SHADOW_OUR_SECONDS, SHADOW_PODS, SHADOW_THEIR_SECONDS
from dray.scheduler.object_metrics import ObjectMetrics

log = logging.getLogger(__name__)

# seconds, counted in steps; short, because a decision blocks the event loop and the shadow must keep up
FILTER_TIMEOUT = 0.1
MOST_KEPT = 10_000  # maximum number of pods kept for the report; all pods are counted
PROVISIONAL = frozenset({PodGroup})  # kinds without which most pods can still be compared


class ShadowResult(StrEnum):
    """Result of comparing the decisions about one pod."""

    SAME = "same"  # same node
    TIE = "tie"  # another node that is equally good
    DIFFERENT = "different"  # dray prefers another node
    REFUSED = "refused"  # a rule of dray refuses the other scheduler's node
    ONLY_THEIRS = "only_theirs"  # dray finds no same node
    UNDECIDED = "undecided"  # dray's search for devices exceeds the shadow's time limit
    ONLY_OURS = "only_ours"  # the other scheduler found no node, and dray finds one


class ShadowedPod(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of both schedulers about one pod."""

    pod: str  # NAMESPACE/NAME
    result: ShadowResult
    ours: str = ""  # dray's same node
    theirs: str = ""
    our_seconds: float = 0.0  # duration of dray's decision
    their_seconds: float | None = None  # time from first seeing the pod until it was bound or refused; None if unknown
    scores: tuple[ScoreOfBoth, ...] = ()
    decisive: str = ""  # the score that favours dray's node most
    why: str = ""  # the refusing rule, or why the other scheduler found no node


class ShadowReport(msgspec.Struct, frozen=True):
    """Results of a shadow scheduler so far."""

    server: str
    seconds: float
    results: dict[str, int]
    pods: tuple[ShadowedPod, ...]  # pods with different decisions, oldest first
    our_seconds: tuple[float, ...]  # of all compared decisions
    their_seconds: tuple[float, ...]


class ShadowScheduler:
    """Follows a cluster and compares decisions. `follows` selects the pods to compare."""

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        configuration: Configuration | None = None,
        *,
        follows: Callable[[Pod], bool] = lambda pod: True,
        readiness: Readiness | None = None,
    ) -> None:
        self._informers = informers = SharedInformers(client)
        self._follows = follows
        self._readiness = readiness or Readiness()
        self._readiness.check("shadow", self.problems)
        sharing, has_groups = Sharing.of(gates), gates.served("GenericWorkload")
        objects = InformedObjects(informers, groups=sharing.groups, workloads=has_groups, budgets=False)
        # the claim belongs to the other scheduler
        objects.extended_resource_claim = lambda pod: None  # type: ignore[method-assign]
        self._core = SchedulerCore(objects, gates, _hurried(configuration), time.time, fallback=True)
        self._core.preempts = False
        self._seen: dict[str, float] = {}  # time when each pod without a node was first seen, by uid
        self._gave_up: dict[str, str] = {}  # latest compared refusal by the other scheduler, by pod uid
        self._results: Tally[str] = Tally()
        self._kept: dict[str, ShadowedPod] = {}  # comparisons with different decisions, by pod uid
        self._our_seconds: list[float] = []
        self._their_seconds: list[float] = []
        self._began: float | None = None
        self._listen(gates, sharing, has_groups)

    def problems(self) -> list[str]:
        """Return the read permissions denied by the server without which nothing can be compared. Empty if there are
        none.
        """
        return [refusal for type_, refusal in self._informers.denied.items() if type_ not in PROVISIONAL]

    async def run(self, seconds: float | None = None) -> None:
        """Compare until cancelled, or for this many seconds (None: no limit) after the cluster's state is known."""
        try:
            await self._informers.start()
            await self._informers.settled()
            await self._informers.synced(without=PROVISIONAL & self._informers.denied.keys())
            self._began = time.monotonic()
            self._readiness.start()
            with suppress(TimeoutError), OBJECT_FIGURES.shown(lambda: ObjectMetrics.of(self._informers)):
                async with asyncio.timeout(seconds):
                    await asyncio.Event().wait()
        finally:
            await self._informers.stop()

    def report(self, server: str = "") -> ShadowReport:
        """Return the results so far."""
        seconds = time.monotonic() - self._began if self._began is not None else 0.0
        results = {result.value: self._results[result] for result in ShadowResult}
        times = tuple(self._our_seconds), tuple(self._their_seconds)
        return ShadowReport(server, seconds, results, tuple(self._kept.values()), *times)

    # -- events

    def _listen(self, gates: FeatureGates, sharing: Sharing, has_groups: bool) -> None:
        kinds: list[type[Any]] = [Namespace, Node]
        if gates.enabled("DynamicResourceAllocation"):
            kinds += [ResourceClaim, DeviceClass, ResourceSlice]
        if sharing.groups or has_groups:
            kinds.append(PodGroup)
        if gates.enabled("DRADeviceTaints"):
            kinds.append(DeviceTaintRule)
        for kind in kinds:
            self._informers.informer(kind).add_handler(self._on_changes)
        self._informers.informer(Pod).add_handler(self._on_pods)

    def _on_changes(self, deltas: Sequence[tuple[Any, Any]]) -> None:
        self._core.now = time.monotonic()
        for old, new in deltas:
            self._core.apply(old, new)

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        self._core.now = now = time.monotonic()
        for old, new in deltas:
            self._core.apply(old, new)
            if new is None:
                self._forget(old)
            elif self._follows(new):
                self._look(new, now)

    def _forget(self, pod: Pod | None) -> None:
        if pod is not None:
            self._seen.pop(pod.metadata.uid, None)
            self._gave_up.pop(pod.metadata.uid, None)

    def _look(self, pod: Pod, now: float) -> None:
        """Compare a pod that was just bound or that the other scheduler could not place."""
        uid = pod.metadata.uid
        if pod.spec.nodeName:
            if (seen := self._seen.pop(uid, None)) is not None:
                self._compare(pod, now - seen if self._began is not None and seen >= self._began else None)
            self._gave_up.pop(uid, None)
            return
        seen = self._seen.setdefault(uid, now)
        why = next((one.message for one in pod.status.conditions if _is_refusal(one.type, one.status, one.reason)), "")
        if why and self._gave_up.get(uid) != why:
            self._gave_up[uid] = why
            self._consider(pod, why, now - seen)

    # -- decisions

    def _compare(self, pod: Pod, their_seconds: float | None) -> None:
        """Decide about a pod that was just bound, on the cluster's state without this pod, and record the comparison.

        `their_seconds` is the time that the other scheduler took, None if unknown. Does nothing if the pod has ended
        meanwhile.
        """
        free = replace(pod, spec=replace(pod.spec, nodeName=""))
        ours, comparison, why, is_late = "", NodeComparison(), "", False
        with self._core.state.trial() as trial:
            try:
                trial.take_off(pod)
            except ValueError:
                return  # the pod has ended meanwhile
            mark, began = trial.mark(), time.perf_counter()
            decision = self._core.decide(self._core.trial_attempt(free))
            seconds = time.perf_counter() - began
            if isinstance(decision, Promise):
                ours = decision.node
                trial.rewind(mark)
                if ours != pod.spec.nodeName:
                    comparison = self._scores(free, ours, pod.spec.nodeName)
            elif isinstance(decision, Refused):
                why, is_late = wording.unschedulable(decision.why), decision.is_late
        theirs = pod.spec.nodeName
        result = ShadowResult.UNDECIDED if is_late else _result(ours, theirs, comparison)
        if comparison.refused is not None:
            why = wording.node_reason(comparison.refused)
        decisive = comparison.decisive.score if comparison.decisive is not None else ""
        times: dict[str, Any] = {"our_seconds": seconds, "their_seconds": their_seconds}
        self._count(pod, _made(pod, result, ours, theirs, comparison.scores, decisive, why, times))

    def _scores(self, pod: Pod, ours: str, theirs: str) -> NodeComparison:
        """Compare both nodes for a pod by the scores."""
        state = self._core.state
        return compare_nodes(state.placement, state.table, self._core.trial_attempt(pod), ours, theirs)

    def _consider(self, pod: Pod, why: str, their_seconds: float) -> None:
        """Decide about a pod that the other scheduler could not place, and record it if dray finds a node."""
        with self._core.state.trial():
            began = time.perf_counter()
            decision = self._core.decide(self._core.trial_attempt(pod))
            seconds = time.perf_counter() - began
        if isinstance(decision, Promise):
            times: dict[str, Any] = {"our_seconds": seconds, "their_seconds": their_seconds}
            found = _made(pod, ShadowResult.ONLY_OURS, decision.node, "", (), "", why, times)
            if pod.metadata.uid not in self._kept:
                self._count(pod, found)

    def _count(self, pod: Pod, found: ShadowedPod) -> None:
        """Count a comparison, and keep it for the report if the decisions differ."""
        self._results[found.result] += 1
        SHADOW_PODS.of(found.result.value).add()
        SHADOW_OUR_SECONDS.observe(found.our_seconds)
        self._our_seconds.append(found.our_seconds)
        if found.their_seconds is not None:
            SHADOW_THEIR_SECONDS.observe(found.their_seconds)
            self._their_seconds.append(found.their_seconds)
        del self._our_seconds[:-MOST_KEPT], self._their_seconds[:-MOST_KEPT]
        if found.result is ShadowResult.SAME:
            return
        log.info("pod %s: %s, dray %s, there %s", found.pod, found.result, found.ours or "-", found.theirs or "-")
        if len(self._kept) < MOST_KEPT and pod.metadata.uid not in self._kept:
            self._kept[pod.metadata.uid] = found


def _made(
    pod: Pod,
    result: ShadowResult,
    ours: str,
    theirs: str,
    scores: tuple[ScoreOfBoth, ...],
    decisive: str,
    why: str,
    times: dict[str, Any],
) -> ShadowedPod:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    return ShadowedPod(
        pod=name, result=result, ours=ours, theirs=theirs, scores=scores, decisive=decisive, why=why, **times
    )


def _hurried(configuration: Configuration | None) -> dict[str, SchedulerProfile]:
    """Return the profiles by scheduler name, with the filter timeout capped at FILTER_TIMEOUT for the whole attempt."""
    return {
        name: dataclasses.replace(
            profile, filter_timeout=min(profile.filter_timeout, FILTER_TIMEOUT), timeout_per_node=False
        )
        for name, profile in (configuration or Configuration()).profiles.items()
    }


def _result(ours: str, theirs: str, comparison: NodeComparison) -> ShadowResult:
    """Return the result of comparing both nodes of a pod. `ours` is "" if this scheduler found no node."""
    if not ours:
        return ShadowResult.ONLY_THEIRS
    if ours == theirs:
        return ShadowResult.SAME
    if comparison.refused is not None:
        return ShadowResult.REFUSED
    return ShadowResult.TIE if comparison.is_tie else ShadowResult.DIFFERENT


def _is_refusal(type_: str, status: str, reason: str) -> bool:
    """Whether a condition reports that a scheduler could not place the pod."""
    return type_ == "PodScheduled" and status == "False" and reason == "Unschedulable"
