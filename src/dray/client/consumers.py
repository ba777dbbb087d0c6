"""Finds the pods that use a claim in the informers' copies (see `dray.api.claim_users`)."""

from __future__ import annotations

from dray.api.claim_users import ClaimUsers, claims_of_group, claims_of_pod, group_of_pod
from dray.api.podclaims import group_name
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.client.informer import Informer
from dray.client.shared import SharedInformers

# Index names are shared by the whole process, so they must be distinctive.
_PODS_BY_CLAIM = "pods by claim"
_PODS_BY_GROUP = "pods by group"
_GROUPS_BY_CLAIM = "groups by claim"


class ClaimConsumers(ClaimUsers):
    """Index of pods, PodGroups and the claims they use; reads the informers' copies and never awaits.

    Without `groups`, PodGroups are ignored: entries that refer to a group's claims resolve only through the pod's
    status.
    """

    def __init__(self, informers: SharedInformers, *, groups: bool) -> None:
        self._pods = informers.informer(Pod)
        self._pods.add_index(_PODS_BY_CLAIM, claims_of_pod)
        self._groups: Informer[PodGroup] | None = None
        if groups:
            self._pods.add_index(_PODS_BY_GROUP, group_of_pod)
            self._groups = informers.informer(PodGroup)
            self._groups.add_index(_GROUPS_BY_CLAIM, claims_of_group)

    def group_of(self, pod: Pod) -> PodGroup | None:
        spec = pod.spec
        if self._groups is None or (spec.workloadRef is None and spec.schedulingGroup is None):  # most pods
            return None
        name = group_name(pod)
        return self._groups.get(pod.metadata.namespace, name) if name else None

    def members(self, namespace: str, group: str) -> list[Pod]:
        return self._pods.by_index(_PODS_BY_GROUP, f"{namespace}/{group}") if self._groups is not None else []

    def _pods_naming(self, claim: str) -> list[Pod]:
        return self._pods.by_index(_PODS_BY_CLAIM, claim)

    def _groups_naming(self, claim: str) -> list[PodGroup]:
        return self._groups.by_index(_GROUPS_BY_CLAIM, claim) if self._groups is not None else []
