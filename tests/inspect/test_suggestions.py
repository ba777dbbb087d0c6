"""Suggestions on random clusters: once one is made, the scheduler's own code places the pod."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.reasons.suggestions import Suggestion
from dray.api.types.core import Pod
from dray.inspect.changes import applied
from dray.inspect.explain import explain_pod
from dray.inspect.snapshot import Snapshot
from dray.sim.cluster import Cluster
from tests.inspect.clusters import GATES, cluster


def is_placed(snapshot: Snapshot, pod: Pod, made: Suggestion) -> bool:
    """Whether the pod, of all that wait, gets a node in a simulated cluster in which a suggestion was followed."""
    after = applied(snapshot, made.changes)
    everything = [one for found in after.objects.values() for one in found]
    simulated = Cluster([one for one in everything if not isinstance(one, Pod) or one.spec.nodeName], gates=GATES)
    changed = after.get(Pod, pod.metadata.name, pod.metadata.namespace)
    assert changed is not None
    simulated.submit(changed)
    simulated.settle()
    found = simulated.get(Pod, pod.metadata.name, pod.metadata.namespace)
    return found is not None and bool(found.spec.nodeName)


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_what_is_suggested_lets_the_scheduler_place_the_pod(seed: int) -> None:
    snapshot = Snapshot.of(*cluster(seed))
    for pod in snapshot.all(Pod):
        if not pod.spec.nodeName:
            for made in explain_pod(snapshot, pod.metadata.namespace, pod.metadata.name).help:
                assert is_placed(snapshot, pod, made), (pod.metadata.name, made.code)
