"""Creates claims from templates: one for each entry of a pod or a group.

The name follows from the owner (`generated`), so nothing must be remembered, and a second controller finds the claim
already created. Left out: when to create a claim, and where its name is recorded (`claims`).
"""

from __future__ import annotations

import logging

from dray.api import podclaims
from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.client import Client, EventRecorder, Informer
from dray.controllers import generated
from dray.controllers.metrics import claim_created

log = logging.getLogger(__name__)

BY_OWNER = "claims by owner"


class ClaimMaker:
    """Creates claims from ResourceClaimTemplates."""

    def __init__(
        self,
        client: Client,
        claims: Informer[ResourceClaim],
        templates: Informer[ResourceClaimTemplate],
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._claims = claims
        self._templates = templates
        self._recorder = recorder
        claims.add_index(BY_OWNER, _owners)

    def made(self, owner: Pod | PodGroup, entry: str) -> str:
        """Return the name of the claim that exists for an entry according to the informers' copies, or ""."""
        annotation = generated.annotation_for(owner)
        for claim in self._claims.by_index(BY_OWNER, owner.metadata.uid):
            if claim.metadata.annotations.get(annotation) == entry:
                return claim.metadata.name
        return ""

    async def ensure(self, owner: Pod | PodGroup, entry: str, template: str) -> str:
        """Return the name of the claim for an entry, creating the claim if necessary.

        On failure a warning event is recorded for the owner and the error is raised. `template` is the name of the
        ResourceClaimTemplate.
        """
        if made := self.made(owner, entry):
            return made
        name = generated.claim_name(owner, entry)
        try:
            await self._create(owner, entry, await self._template(owner.metadata.namespace, template), name)
        except ApiError as error:
            kind = "PodGroupResourceClaim" if isinstance(owner, PodGroup) else "PodResourceClaim"
            text = f"{kind} {entry}: {_problem(template, error)}"
            self._recorder.warning(owner, "FailedResourceClaimCreation", text)
            raise
        return name

    async def _create(self, owner: Pod | PodGroup, entry: str, template: ResourceClaimTemplate, name: str) -> None:
        claim = generated.claim_for(owner, entry, template, name)
        try:
            await self._create_once(owner, claim)
        except ApiError:
            claim_created(owner, claim, succeeded=False)
            raise
        claim_created(owner, claim, succeeded=True)

    async def _create_once(self, owner: Pod | PodGroup, claim: ResourceClaim) -> None:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        try:
            await self._client.create(ResourceClaim, claim)
        except AlreadyExists:
            there = await self._client.get(ResourceClaim, name, namespace)
            if not podclaims.is_controlled_by(there, owner.metadata.uid):
                # Another name would work, but two controllers might choose different names and make two claims.
                raise Conflict(f'the name "{name}" is used by another claim') from None
        else:
            log.debug("created claim %s/%s for %s", namespace, name, owner.metadata.name)

    async def _template(self, namespace: str, name: str) -> ResourceClaimTemplate:
        template = self._templates.get(namespace, name)
        return template or await self._client.get(ResourceClaimTemplate, name, namespace)


def _owners(claim: ResourceClaim) -> list[str]:
    return [ref.uid for ref in claim.metadata.ownerReferences if ref.controller]


def _problem(template: str, error: ApiError) -> str:
    if isinstance(error, NotFound) and error.details.get("name") == template:
        # Kubernetes names the kind this way, because it asks its own copy and not the server.
        return f'resource claim template "{template}": resourceclaimtemplate.resource.k8s.io "{template}" not found'
    return f"create resource claim: {error.message}"
