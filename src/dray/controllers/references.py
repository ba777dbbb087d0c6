"""Checks whether the object behind a reservation (other than a pod) is gone or was replaced by one with the same
name.

These objects are not watched: Jobs, PodGroups, or whatever a claim's author named. Each is requested at most every 30
seconds, and only the server's answer about this very object counts. A custom kind is found by its definition. If a
kind cannot be read (not served, not allowed), the reservation is kept until its owner removes it.
"""

from __future__ import annotations

from dray.api.custom import custom_resource
from dray.api.errors import ApiError, NotFound
from dray.api.podclaims import is_group
from dray.api.resources import BY_NAME, Resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.client import Client, Clock, type_of

CHECK_SECONDS = 30.0
REMEMBERED = 10_000
BY_CONSUMER = "claims by consumer"


def consumers_named(claim: ResourceClaim) -> list[str]:
    """Return the uids in a claim's reservations, and NAMESPACE/NAME of groups; function of the index `BY_CONSUMER`."""
    references, namespace = claim.status.reservedFor, claim.metadata.namespace
    return [r.uid for r in references] + [f"{namespace}/{r.name}" for r in references if is_group(r)]


class References:
    """Checks whether referenced objects exist, with a cache of objects that existed recently."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._seen: dict[str, float] = {}

    async def is_gone(
        self, namespace: str, reference: ResourceClaimConsumerReference, *, suspicious: bool = False
    ) -> bool:
        """Whether the referenced object no longer exists. With `suspicious`, the cache is not used.

        Returns False for a kind that cannot be looked up, and for an object that was found less than `CHECK_SECONDS`
        ago.
        """
        now = self._clock.monotonic()
        if not suspicious and now - self._seen.get(reference.uid, -CHECK_SECONDS) < CHECK_SECONDS:
            return False
        resource = await self._resource(reference)
        if resource is not None and await self._is_missing(resource, namespace, reference):
            self._seen.pop(reference.uid, None)
            return True
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen[reference.uid] = now
        return False

    async def _resource(self, reference: ResourceClaimConsumerReference) -> Resource | None:
        """Return the resource that a reference means, or None if it is unknown, cluster-scoped or cannot be read."""
        resource = BY_NAME.get((reference.apiGroup, reference.resource)) or await self._custom(reference)
        return resource if resource is not None and resource.namespaced and "get" in resource.verbs else None

    async def _custom(self, reference: ResourceClaimConsumerReference) -> Resource | None:
        try:
            name = f"{reference.resource}.{reference.apiGroup}"
            return custom_resource(await self._client.get(CustomResourceDefinition, name))
        except ApiError:
            return None

    async def _is_missing(self, resource: Resource, namespace: str, reference: ResourceClaimConsumerReference) -> bool:
        try:
            found = await self._client.get(type_of(resource), reference.name, namespace)
        except NotFound as error:
            # If the answer has no name, the whole resource is missing, which says nothing about the object.
            return bool(error.details.get("name"))
        except ApiError:
            return False
        return found.metadata.uid != reference.uid
