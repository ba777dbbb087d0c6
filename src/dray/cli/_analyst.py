"""Who answers the questions of a dashboard: CEL, explain, what fits and what-if, on objects that the dashboard has read.

Everything here runs in a thread of the dashboard and changes nothing. Left out: the answers themselves, which are those of
`inspect` and `sim`.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError, object_of
from dray.api.reasons import cause_wording, wording
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Change, Suggestion
from dray.api.types.core import Pod
from dray.api.wire import Tree, Wire
from dray.cel import DeviceView, Interrupted
from dray.cli.what_if import asked, outcome_tree
from dray.inspect.changes import applied
from dray.inspect.explain import NotThere, explain_pod
from dray.inspect.explanation import Explanation
from dray.inspect.layout import notes_of
from dray.inspect.matching import Failure, select
from dray.inspect.placement import Deadlines
from dray.inspect.room import room_of
from dray.inspect.snapshot import Snapshot
from dray.inspect.steps import RequestSteps, Step, pending_claims, steps_of
from dray.sim.changes import ChangeError
from dray.sim.cluster import Cluster
from dray.sim.demands import DemandError, demand_of
from dray.sim.what_if import outcomes
from dray.verdicts.devices import progress
from dray.web.access import Candidate, Cause, Facts, Refused

_NAMED = 50  # devices of a holder and holders that are listed
_STEP_WORDS = {
    "published": "in a pool that can be used",
    "class": "of class {subject}",
    "selector": "with {text}",
    "tolerated": "without a taint that keeps it away",
    "free": "free",
    "counters": "with enough left of its counters",
    "constraint": "with enough others of the same {subject}",
}


class ClusterAnalyst:
    """Answers questions with dray's own code."""

    def __init__(self, gates: FeatureGates | None = None) -> None:
        self._gates = gates or FeatureGates()

    def match(self, candidates: Sequence[Candidate], expression: str, of_class: Sequence[str], deadline: float) -> Tree:
        devices = ((one.number, _seen(one)) for one in candidates)
        found = select(devices, expression, of_class, deadline)
        if found.problem:
            return {"problem": found.problem}
        return {
            "problem": "",
            "matched": found.matched,
            "count": len(found.matched),
            "of": len(candidates),
            "failed": [_failure(one) for one in found.failures if not one.error],
            "errors": [_failure(one) | {"text": one.error} for one in found.failures if one.error],
            "maxCost": found.max_cost,
            "complete": found.is_complete,
        }

    def why(self, facts: Facts, namespace: str, name: str, deadline: float) -> Tree:
        snapshot = _snapshot(facts)
        found = self._explained(snapshot, namespace, name, deadline)
        pod = snapshot.get(Pod, name, namespace)
        assert pod is not None  # it was explained
        claims = pending_claims(snapshot, pod) if found.waits else []
        try:
            steps = steps_of(snapshot, claims, deadline)
        except Interrupted:
            steps = []
        return {
            "waits": found.waits,
            "cause": {
                "code": found.cause.code,
                "text": cause_wording.cause(found.cause),
                "help": _suggested(found),
            },
            "requests": [_request(one) for one in steps],
            "nodes": _nodes(found),
            "holders": found.holders[:_NAMED],
            "change": _change(found.help[0]) if found.help else None,
            "notes": notes_of(found),
        }

    def causes(self, facts: Facts, pods: Sequence[tuple[str, str]], deadline: float) -> Sequence[Cause | None]:
        snapshot = _snapshot(facts)
        return [self._cause(snapshot, namespace, name, deadline) for namespace, name in pods]

    def _cause(self, snapshot: Snapshot, namespace: str, name: str, deadline: float) -> Cause | None:
        if time.monotonic() > deadline:
            return None
        try:
            found = self._explained(snapshot, namespace, name, deadline)
        except Refused:
            return None
        return Cause(found.cause.code, cause_wording.cause(found.cause), _suggested(found)) if found.waits else None

    def attempt(self, facts: Facts, question: Tree, deadline: float) -> Tree:
        if question["pod"] is not None:
            return self._after_change(facts, question["pod"], question["change"])
        more = question.get("addNodes") or {}
        args = argparse.Namespace(
            taint=[],
            add_nodes=more.get("count", 0),
            like=more.get("like", ""),
            drain=question["drain"],
            how_many=question["howMany"],
            at_most=question["atMost"],
        )
        try:
            objects = self._objects(question["manifest"])
            demand = demand_of(objects, question["namespace"]) if objects else None
            cluster = self._cluster(facts)
            with cluster.fork() as trial:
                return asked(args, trial, demand, lambda: time.monotonic() > deadline)
        except (ManifestError, DemandError) as error:
            raise Refused(str(error), "manifest") from error
        except ChangeError as error:
            raise Refused(str(error), "addNodes" if more else "drain") from error

    def _after_change(self, facts: Facts, pod: Tree, change: Tree) -> Tree:
        """What becomes of a pod after a change that was suggested for it."""
        try:
            changes = msgspec.convert(change.get("changes", ()), tuple[Change, ...])
            after = applied(_snapshot(facts), changes)
        except (msgspec.ValidationError, ManifestError, LookupError) as error:
            raise Refused(str(error), "change") from error
        cluster = self._cluster(Facts(after.objects))
        found = cluster.get(Pod, pod["name"], pod["namespace"])
        if found is None:
            raise Refused(f"there is no pod {pod['namespace']}/{pod['name']}", "pod", code="NotFound", status=404)
        with cluster.fork() as trial:
            told = [outcome_tree(one) for one in outcomes(trial, [found])]
        return {"fits": all(one["node"] for one in told), "pods": told, "moved": [], "quotas": []}

    def fits(self, facts: Facts, deadline: float) -> Tree:
        try:
            rooms = room_of(_snapshot(facts), deadline)
        except Interrupted as error:
            raise Refused("there was not enough time to look at all classes", code="TimedOut", status=504) from error
        return {
            "classes": [
                {
                    "class": room.name,
                    "total": room.total,
                    "free": room.free,
                    "node": {"name": room.node, "count": room.best},
                    "cluster": room.free,
                    "spread": room.spread,
                    "exact": room.exact,
                }
                for room in rooms
            ]
        }

    # Parts of answers

    def _explained(self, snapshot: Snapshot, namespace: str, name: str, deadline: float) -> Explanation:
        try:
            return explain_pod(snapshot, namespace, name, Deadlines.within(deadline - time.monotonic()))
        except NotThere as error:
            raise Refused(str(error), "name", code="NotFound", status=404) from error

    def _cluster(self, facts: Facts) -> Cluster:
        cluster = Cluster([one for found in facts.objects.values() for one in found], gates=self._gates)
        cluster.settle()
        return cluster

    def _objects(self, manifest: str) -> list[Wire]:
        try:
            documents = [one for one in yaml.safe_load_all(manifest) if one is not None]
        except (yaml.YAMLError, RecursionError) as error:
            raise ManifestError(f"no YAML: {error}") from error
        trees = [one for document in documents for one in _listed(document)]
        return [object_of(tree, self._gates) for tree in trees]


def _listed(document: Any) -> list[Tree]:
    if not isinstance(document, dict):
        raise ManifestError("expected objects with apiVersion and kind")
    items = document.get("items")
    return items if isinstance(items, list) else [document]


def _snapshot(facts: Facts) -> Snapshot:
    return Snapshot(dict(facts.objects), facts.unreadable, facts.unserved)


def _seen(one: Candidate) -> DeviceView:
    if one.seen is None:
        device = one.device
        one.seen = DeviceView(
            one.id.driver, device.attributes, device.capacity, device.allowMultipleAllocations or False
        )
    view: DeviceView = one.seen
    return view


def _failure(one: Failure) -> Tree:
    part = one.part
    return {"part": part.text, "from": part.start, "to": part.end, "count": len(one.devices), "devices": one.devices}


def _suggested(found: Explanation) -> str:
    return cause_wording.suggestion(found.help[0]) if found.help else ""


def _change(one: Suggestion) -> Tree:
    """A change that was tried and helps, in words and as it would be written to the API."""
    tree: Tree = msgspec.to_builtins(one)
    return {"subject": "", "node": "", "changes": []} | tree | {"text": cause_wording.suggestion(one)}


def _request(one: RequestSteps) -> Tree:
    return {
        "claim": one.claim,
        "request": one.request,
        "alternative": one.alternative,
        "needed": one.needed,
        "all": one.every,
        "steps": [_step(step) for step in one.steps],
    }


def _step(step: Step) -> Tree:
    text = _STEP_WORDS[step.code].format(subject=step.subject or "attribute", text=step.text)
    tree: Tree = {"code": step.code, "text": text, "left": step.left, "dropped": step.dropped}
    if step.subject:
        tree["subject"] = step.subject
    return tree if step.number is None else tree | {"number": step.number}


def _nodes(found: Explanation) -> Tree:
    counted: Counter[NodeReason] = Counter()
    for verdict in found.nodes:
        counted.update(_plain(reason) for reason in verdict.reasons)
    reasons = [
        {
            "code": reason.code,
            "rule": reason.rule,
            "subject": reason.subject,
            "nodes": count,
            "text": wording.node_reason(reason),
        }
        for reason, count in counted.most_common()
    ]
    short = [verdict for verdict in found.nodes if verdict.devices is not None]
    closest = max(short, key=lambda verdict: progress(verdict.devices), default=None)  # type: ignore[arg-type]
    nearest = None
    if closest is not None and closest.devices is not None:
        nearest = {"node": closest.node, "text": wording.line(closest.devices)}
    return {"total": len(found.nodes), "reasons": reasons, "nearest": nearest}


def _plain(reason: NodeReason) -> NodeReason:
    """The reason without what differs from node to node, so that it can be counted."""
    return NodeReason(reason.code, reason.subject, reason.value, problem=reason.problem)
