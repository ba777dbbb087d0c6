"""Lookups of cluster objects for the core, answered from the scheduler's informers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.api.claim_users import pod_of_extended_resource_claim
from dray.api.types.core import Namespace, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim
from dray.client import SharedInformers
from dray.client.consumers import ClaimConsumers

BUDGETS_BY_NAMESPACE = "disruption budgets by namespace"
EXTENDED_CLAIMS_BY_POD = "extended resource claims by pod"


class InformedObjects:
    """Implementation of `dray.core.objects.ObjectLookup` with informers."""

    def __init__(
        self, informers: SharedInformers, *, groups: bool, workloads: bool = False, budgets: bool = True
    ) -> None:
        """`groups`: PodGroups may have claims; `workloads`: PodGroups exist; `budgets`: pods may be preempted."""
        self._consumers = consumers = ClaimConsumers(informers, groups=groups)
        known = consumers if groups or not workloads else ClaimConsumers(informers, groups=True)
        self._namespaces = informers.informer(Namespace)
        self._claims = informers.informer(ResourceClaim)
        self._claims.add_index(EXTENDED_CLAIMS_BY_POD, pod_of_extended_resource_claim)
        self._budgets = informers.informer(PodDisruptionBudget) if budgets else None
        if self._budgets is not None:
            self._budgets.add_index(BUDGETS_BY_NAMESPACE, lambda budget: [budget.metadata.namespace])
        # Called for every pod, so bound directly without a wrapper method.
        self.claim = self._claims.get
        self.uses, self.consumers, self.is_in_use = consumers.uses, consumers.consumers, consumers.is_in_use
        self.group_of, self.members = known.group_of, known.members

    def extended_resource_claim(self, pod: Pod) -> ResourceClaim | None:
        return next(iter(self._claims.by_index(EXTENDED_CLAIMS_BY_POD, pod.metadata.uid)), None)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get("", name)
        return namespace.metadata.labels if namespace is not None else {}

    def disruption_budgets(self, namespace: str) -> Iterable[PodDisruptionBudget]:
        return self._budgets.by_index(BUDGETS_BY_NAMESPACE, namespace) if self._budgets is not None else ()
