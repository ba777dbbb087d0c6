"""Why a PodGroup is not placed: too few pods, a pod that fits nowhere, or no placement for all pods. No I/O."""

from __future__ import annotations

from dray.api import podclaims
from dray.api.reasons.causes.pod_groups import GangIncomplete, GangUnplaced
from dray.api.reasons.causes.settled import AllRun, PodWaits
from dray.api.reasons.suggestions import Suggestion
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.core.gangs import min_count
from dray.inspect.placement import Allowance
from dray.inspect.pods import CauseFinding, PodCase
from dray.inspect.snapshot import Snapshot
from dray.inspect.suggesting.offers import suggestions


def group_finding(
    snapshot: Snapshot, group: PodGroup, allowance: Allowance
) -> tuple[CauseFinding, tuple[Suggestion, ...]]:
    """Find why a PodGroup is not placed, or that its pods run. Returns the finding and suggestions that would help."""
    name, namespace, least = group.metadata.name, group.metadata.namespace, min_count(group)
    named = (pod for pod in snapshot.all(Pod) if podclaims.group_name(pod) == name)
    pods = [pod for pod in named if pod.metadata.namespace == namespace and not podclaims.is_finished(pod)]
    if len(pods) < least:
        return CauseFinding(GangIncomplete(name, len(pods), least)), ()
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        found = PodCase(snapshot, pod, allowance).finding()
        if not found.waits:
            continue
        if isinstance(found.cause, GangIncomplete | GangUnplaced):
            return found, ()
        help_ = suggestions(snapshot, pod, found.cause, found.nodes, allowance)
        return found._replace(cause=PodWaits(pod.metadata.name, found.cause)), help_
    return CauseFinding(AllRun(len(pods)), waits=False), ()
