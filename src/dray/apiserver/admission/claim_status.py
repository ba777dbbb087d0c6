"""Who may write which part of a claim's status: allocation, reservations, and the status of devices.

In addition to the right to `resourceclaims/status`, changing an allocation requires the request's verb on
`resourceclaims/binding` for the whole cluster, because devices belong to the cluster. Changing only reservations, as
the owner of a workload does at its end, requires it in the claim's namespace. Changing the status of devices requires
`arbitrary-node:VERB` on `resourceclaims/driver`, with the driver's name, in the claim's namespace; for a service
account on the node that the claim is allocated for, `associated-node:VERB` suffices. The status of a device that is
no longer allocated may be removed with the allocation. Both subresources exist only as names in RBAC rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from dray.api.allocations import node_of
from dray.api.errors import FieldError, Invalid, forbidden
from dray.api.resources import DRA
from dray.api.types.resource import AllocatedDeviceStatus, ResourceClaim, ResourceClaimStatus
from dray.api.users import MASTERS, NODE_NAME, User
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.authorization import forbidden as refusal

ASSOCIATED, ARBITRARY = "associated-node:", "arbitrary-node:"
_CLAIMS = "resourceclaims"

DeviceStatusKey = tuple[str, str, str, str]  # driver, pool, device, share


class ClaimStatusRights(Admission):
    """Denies changes of a claim's status for which the user lacks the right."""

    name = "DRAClaimStatus"
    types = (ResourceClaim,)

    def __init__(self, authorizer: Union) -> None:
        self._authorizer = authorizer

    def validate(self, request: AdmissionRequest) -> None:
        """Raise Invalid if the user lacks a right that the changes of a claim's status require.

        Checks only updates of the status, and nothing for members of system:masters.
        """
        if request.operation != "UPDATE" or request.subresource != "status" or MASTERS in request.user.groups:
            return
        new, old = cast(ResourceClaim, request.object).status, cast(ResourceClaim, request.old).status
        if errors := [*self._binding(request, new, old), *self._devices(request, new, old)]:
            raise Invalid(request.resource, request.name, errors)

    def _binding(
        self, request: AdmissionRequest, new: ResourceClaimStatus, old: ResourceClaimStatus
    ) -> Iterator[FieldError]:
        """Yield an error if allocation or reservations changed without the right to `resourceclaims/binding`.

        If the allocation changed, the right must be cluster-wide; otherwise a right in the claim's namespace
        suffices.
        """
        if new.allocation == old.allocation and new.reservedFor == old.reservedFor:
            return
        is_allocation = new.allocation != old.allocation
        namespace = "" if is_allocation else request.namespace
        refused = self._refused(request.user, Attributes(request.verb, DRA, _CLAIMS, "binding", namespace))
        if refused:
            changed = "status.allocation or status.reservedFor" if is_allocation else "status.reservedFor"
            what = f'resource="resourceclaims/binding", verb="{request.verb}" permission'
            text = f"changing {changed} requires {what}: {refused}"
            yield forbidden("status", text)

    def _devices(
        self, request: AdmissionRequest, new: ResourceClaimStatus, old: ResourceClaimStatus
    ) -> Iterator[FieldError]:
        """Yield an error for each driver whose device status changed without the right to `resourceclaims/driver`.

        One right suffices: to the verb `arbitrary-node:VERB` or, if the user's pod runs on the claim's node,
        `associated-node:VERB`.
        """
        if new.devices == old.devices:
            return
        prefixes = (ASSOCIATED, ARBITRARY) if _is_on(request.user, node_of(new.allocation)) else (ARBITRARY,)
        verbs = [prefix + request.verb for prefix in prefixes]
        for driver in sorted(_changed_drivers(new, old)):
            questions = (Attributes(verb, DRA, _CLAIMS, "driver", request.namespace, driver) for verb in verbs)
            refused = [self._refused(request.user, question) for question in questions]
            if all(refused):
                what = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
                yield forbidden("status.devices", f"changing status.devices requires {what}: {refused[0]}")

    def _refused(self, user: User, question: Attributes) -> str:
        """Return why the user lacks a right, or "" if the user has it."""
        decision = self._authorizer.authorize(user, question)
        return "" if decision.allowed else refusal(user, question, decision.reason).message


def _changed_drivers(new: ResourceClaimStatus, old: ResourceClaimStatus) -> set[str]:
    """Return the drivers whose device status changed.

    Removed status of devices that are no longer allocated does not count.
    """
    before, after = ({_key(one): one for one in status.devices} for status in (old, new))
    changed = {key[0] for key, one in after.items() if before.get(key) != one}
    gone = before.keys() - after.keys()
    results = new.allocation.devices.results if gone and new.allocation else ()
    allocated = {(result.driver, result.pool, result.device, result.shareID or "") for result in results}
    return changed | {key[0] for key in gone & allocated}


def _key(one: AllocatedDeviceStatus) -> DeviceStatusKey:
    return one.driver, one.pool, one.device, one.shareID or ""


def _is_on(user: User, node: str) -> bool:
    """Return whether the user is a service account of a pod on this node."""
    return bool(node) and user.service_account is not None and user.extra.get(NODE_NAME) == (node,)
