"""Claims of simulated pods: generated from templates, allocated and reserved with the node, released at the end.

Applies at once what the claim controller and the scheduler's binding would write. Left out: which devices a claim
gets (`dray.scheduler`), and when these steps happen (`cluster`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import ClaimUse
from dray.api.claim_lifecycle import with_consumers
from dray.api.extended_resources import IN_MEMORY
from dray.api.podclaims import Sharing
from dray.api.types.core import Pod, PodExtendedResourceClaimStatus, PodResourceClaim, PodResourceClaimStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup, PodGroupResourceClaim, PodGroupResourceClaimStatus
from dray.controllers.generated import claim_for, claim_name
from dray.core.attempt import Promise
from dray.core.model import ClusterModel
from dray.core.reservations import reservation


class SimulatedClaims:
    """Updates the claims of pods in a cluster model. `named` assigns a uid to each created object."""

    def __init__(self, model: ClusterModel, sharing: Sharing, named: Callable[[Any], Any]) -> None:
        self._model = model
        self._sharing = sharing
        self._named = named

    def made_for(self, pod: Pod) -> Pod:
        """Generate the missing claims of a pod from templates. Returns the pod with their names in its status."""
        made = []
        group = self._group_with_claims(pod)
        for entry in pod.spec.resourceClaims:
            use = podclaims.use_of(pod, entry, group)
            if use.claim is not None:
                continue
            name = self._group_claim(entry, group) if use.by_group else self._made_claim(pod, entry)
            if name:
                made.append(PodResourceClaimStatus(name=use.entry, resourceClaimName=name))
        if not made:
            return pod
        return replace(
            pod, status=replace(pod.status, resourceClaimStatuses=(*pod.status.resourceClaimStatuses, *made))
        )

    def _group_with_claims(self, pod: Pod) -> PodGroup | None:
        """Generate the missing claims of a pod's PodGroup from templates.

        Returns the updated PodGroup, or None without a group.
        """
        group = self._model.objects.group_of(pod)
        if group is None:
            return None
        told = {status.name for status in group.status.resourceClaimStatuses}
        made = [
            PodGroupResourceClaimStatus(name=entry.name, resourceClaimName=name)
            for entry in group.spec.resourceClaims
            if entry.name not in told and (name := self._made_claim(group, entry))
        ]
        if not made:
            return group
        status = replace(group.status, resourceClaimStatuses=(*group.status.resourceClaimStatuses, *made))
        group = replace(group, status=status)
        self._model.put(group)
        return group

    def _made_claim(self, owner: Pod | PodGroup, entry: PodResourceClaim | PodGroupResourceClaim) -> str:
        """Generate the claim for an entry, if missing. Returns its name; empty if the template does not exist.

        An existing claim of this name is kept.
        """
        wanted = entry.resourceClaimTemplateName
        template = self._model.objects.get(ResourceClaimTemplate, wanted, owner.metadata.namespace) if wanted else None
        if template is None:
            return ""
        name = claim_name(owner, entry.name)
        if self._model.objects.get(ResourceClaim, name, owner.metadata.namespace) is None:
            self._model.put(self._named(claim_for(owner, entry.name, template, name)))
        return name

    @staticmethod
    def _group_claim(entry: PodResourceClaim, group: PodGroup | None) -> str:
        """Return the name of the PodGroup's generated claim that a pod's entry refers to; empty if there is none."""
        shared = podclaims.group_entry(entry, group)
        if shared is None or group is None:
            return ""
        statuses = group.status.resourceClaimStatuses
        return next((one.resourceClaimName or "" for one in statuses if one.name == shared.name), "")

    def bound(self, promise: Promise) -> Pod:
        """Write allocation and reservation of a promise into the claims. Returns the pod with its node."""
        for use in promise.claims.uses:
            claim = self._model.objects.get(ResourceClaim, use.claim.metadata.name, use.claim.metadata.namespace)
            assert claim is not None  # found in the same state
            status, _ = reservation(promise, use, claim, self._sharing)
            allocation = status.allocation or claim.status.allocation
            self._model.put(replace(claim, status=replace(status, allocation=allocation)))
        return self._on_node(promise)

    def with_extended_resource_claim(self, promise: Promise) -> Pod:
        """Create the claim for the pod's extended resources, if promised.

        Returns the pod with the claim in its status.
        """
        pod, extended = promise.claims.pod, promise.extended_resource_claim
        if extended is None:
            return pod
        self._model.state.devices.ledger.forget(extended.metadata.uid)
        name = f"{pod.metadata.name}-extended-resources"
        made = self._named(replace(extended, metadata=replace(extended.metadata, name=name, generateName="", uid="")))
        status, _ = reservation(
            promise.with_extended_resource_claim(made), ClaimUse(made, by_group=False), made, self._sharing
        )
        self._model.put(replace(made, status=status))
        told = PodExtendedResourceClaimStatus(requestMappings=promise.mappings, resourceClaimName=name)
        return replace(pod, status=replace(pod.status, extendedResourceClaimStatus=told))

    def _on_node(self, promise: Promise) -> Pod:
        """Return the pod with its node, and with what its claims take from the node in its status."""
        pod = self.with_extended_resource_claim(promise)
        extended = pod.status.extendedResourceClaimStatus
        told = tuple(
            replace(one, resourceClaimName=extended.resourceClaimName)
            if extended is not None and one.resourceClaimName == IN_MEMORY
            else one
            for one in promise.node_claims
        )
        status = replace(pod.status, nodeAllocatableResourceClaimStatuses=told)
        return replace(pod, spec=replace(pod.spec, nodeName=promise.node), status=status)

    def let_go(self, pod: Pod) -> None:
        """Release the claims of an ended pod: delete those it controls, and remove its reservations from others."""
        for _, claim in self._model.objects.claims_of(pod):
            self._let_go(claim, pod.metadata.uid)

    def free(self, claim: ResourceClaim, owner: str) -> None:
        """Deallocate a claim, or delete the claim if the pod with uid `owner` controls it.

        With an empty `owner`, the claim is deallocated.
        """
        if podclaims.is_controlled_by(claim, owner):
            self._model.drop(claim)
        else:
            self._model.put(replace(claim, status=ResourceClaimStatus()))

    def _let_go(self, claim: ResourceClaim, uid: str) -> None:
        if podclaims.is_controlled_by(claim, uid):
            self._model.drop(claim)
            return
        left = with_consumers(claim, [one for one in claim.status.reservedFor if one.uid != uid])
        if left is not claim:
            self._model.put(left)
