"""Why a workload does not run: its pods cannot be created, or one of its pods waits.

The first problem found is the cause: a quota or missing service account that prevents pods, another rejection by the
server, then the first waiting pod. No I/O. Left out: other deviations from the desired state, such as rollout
progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dray.api import podclaims
from dray.api.objects import Object
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.not_created import AccountMissing, JobSuspended, PodsNotMade, PodsRefused, QuotaExceeded
from dray.api.reasons.causes.settled import AllRun, IsFinished, PodWaits
from dray.api.reasons.suggestions import Suggestion
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import Job
from dray.api.types.core import Event, Pod, PodTemplateSpec, ServiceAccount
from dray.api.types.meta import ObjectMeta
from dray.inspect.changes import applied
from dray.inspect.placement import Allowance
from dray.inspect.pods import CauseFinding, PodCase
from dray.inspect.quotas import quota_cause
from dray.inspect.snapshot import Snapshot
from dray.inspect.suggesting import names
from dray.inspect.suggesting.offers import suggestions
from dray.inspect.suggesting.subject import WaitingPod

Workload = Deployment | ReplicaSet | StatefulSet | DaemonSet | Job
_REFUSED = "FailedCreate"
_ENDED = ("Complete", "Failed")
_DEFAULT_ACCOUNT = "default"


class WorkloadCase:
    """Examines one workload step by step."""

    def __init__(self, snapshot: Snapshot, workload: Workload, allowance: Allowance) -> None:
        self._snapshot = snapshot
        self._workload = workload
        self._allowance = allowance
        self._namespace = workload.metadata.namespace
        self._makers = self._owned(ReplicaSet, [workload]) if isinstance(workload, Deployment) else [workload]

    def finding(self) -> tuple[CauseFinding, tuple[Suggestion, ...]]:
        """Return the first cause for which the workload does not run, or that its pods run, and suggestions.

        The suggestions are empty if nothing is known to help.
        """
        settled = self._settled()
        if settled is not None:
            return settled, ()
        refused = self._refused()
        if refused is not None:
            return CauseFinding(refused), tuple(self._helping(refused))
        pods = [pod for pod in self._owned(Pod, self._makers) if not podclaims.is_finished(pod)]
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            found = PodCase(self._snapshot, pod, self._allowance).finding()
            if found.waits:
                help_ = suggestions(self._snapshot, pod, found.cause, found.nodes, self._allowance)
                cause = PodWaits(pod.metadata.name, found.cause)
                return found._replace(cause=cause), help_
        missing = self._missing()
        if missing:
            return CauseFinding(PodsNotMade(len(pods), len(pods) + missing)), ()
        return CauseFinding(AllRun(len(pods)), waits=False), ()

    def _settled(self) -> CauseFinding | None:
        """Return the finding for a job that has ended or is suspended, or None.

        None for other workloads and for jobs that are running.
        """
        if not isinstance(self._workload, Job):
            return None
        for condition in self._workload.status.conditions:
            if condition.status == "True" and condition.type in _ENDED:
                return CauseFinding(IsFinished(condition.type, condition.message), waits=False)
        return CauseFinding(JobSuspended()) if self._workload.spec.suspend else None

    def _owned(self, type_: Any, owners: Iterable[Object]) -> list[Any]:
        """Return the objects of this type controlled by one of the owners."""
        uids = {owner.metadata.uid for owner in owners}
        return [
            one
            for one in self._snapshot.all(type_)
            if any(owner.controller and owner.uid in uids for owner in one.metadata.ownerReferences)
        ]

    # Pods that cannot be created

    def _refused(self) -> Cause | None:
        """Return why the server rejects the workload's pods, or None.

        None if no relevant event reports a rejected pod. Without a quota or missing service account, the cause has
        the event's message.
        """
        event = self._event()
        if event is None:
            return None
        pod = self._pod()
        quota = quota_cause(self._snapshot, self._namespace, pod)
        if quota is not None:
            return quota
        account = pod.spec.serviceAccountName or _DEFAULT_ACCOUNT
        is_known = self._snapshot.get(ServiceAccount, account, self._namespace) is not None
        if ServiceAccount not in self._snapshot.unreadable and not is_known:
            return AccountMissing(account)
        return PodsRefused(event.message)

    def _event(self) -> Event | None:
        """Return the latest event about a rejected pod that is still relevant, or None."""
        told = [event for maker in self._makers if (event := self._event_of(maker)) is not None]
        return max(told, key=lambda event: event.lastTimestamp or "", default=None)

    def _event_of(self, maker: Object) -> Event | None:
        """Return the latest event about a rejected pod of an owner, or None.

        Returns None if the owner has created pods since, or has enough.
        """
        uid = maker.metadata.uid
        found = [e for e in self._snapshot.all(Event) if e.reason == _REFUSED and e.involvedObject.uid == uid]
        last = max(found, key=lambda event: event.lastTimestamp or "", default=None)
        newest = max((pod.metadata.creationTimestamp or "" for pod in self._owned(Pod, [maker])), default="")
        return last if last is not None and (last.lastTimestamp or "") >= newest and self._lacks(maker) != 0 else None

    def _missing(self) -> int:
        """Return how many pods are still to be created, as far as the workload states a number.

        0 if nothing states a number.
        """
        if not self._makers:
            return self._lacks(self._workload) or 0
        return sum(self._lacks(maker) or 0 for maker in self._makers)

    def _lacks(self, maker: Object) -> int | None:
        """Return how many pods this controller has yet to create, or None if it has no replica count."""
        if not isinstance(maker, Deployment | ReplicaSet | StatefulSet):
            return None
        pods = [pod for pod in self._owned(Pod, [maker]) if pod.metadata.deletionTimestamp is None]
        return max(0, (1 if maker.spec.replicas is None else maker.spec.replicas) - len(pods))

    def _pod(self) -> Pod:
        """Return a pod as the workload would create it."""
        template: PodTemplateSpec = self._workload.spec.template
        meta = ObjectMeta(
            name=f"{self._workload.metadata.name}-trial",
            namespace=self._namespace,
            uid="trial",
            labels=template.metadata.labels if template.metadata is not None else {},
        )
        return Pod(metadata=meta, spec=template.spec)

    def _helping(self, cause: Cause) -> Iterator[Suggestion]:
        """Yield a larger quota or a new service account, if a pod can then be created and placed."""
        pod = self._pod()
        subject = WaitingPod(self._snapshot, pod, (), self._allowance.cluster)
        offers: list[Suggestion] = []
        if isinstance(cause, QuotaExceeded):
            offers += names.pod_quota(subject, cause, max(1, self._missing()))
        if isinstance(cause, AccountMissing):
            offers.append(names.account(self._namespace, cause.account))
        for offer in offers:
            after = applied(with_pod(self._snapshot, pod), offer.changes)
            made = after.get(Pod, pod.metadata.name, self._namespace)
            admitted = quota_cause(after, self._namespace, pod) is None
            if admitted and made is not None and PodCase(after, made, self._allowance).places():
                yield offer


def with_pod(snapshot: Snapshot, pod: Pod) -> Snapshot:
    """Return a copy of the snapshot with one more pod."""
    objects: dict[type[Any], tuple[Any, ...]] = {**snapshot.objects, Pod: (*snapshot.all(Pod), pod)}
    return Snapshot(objects, snapshot.unreadable, snapshot.unserved, snapshot.partial)
