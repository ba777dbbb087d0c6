"""What the deletion of a CustomResourceDefinition begins with: it stays until its objects are gone, and says so."""

from __future__ import annotations

from msgspec.structs import replace

from dray.api.types.apiextensions import CustomResourceDefinition, CustomResourceDefinitionCondition

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # the finalizer that waits for the objects


def ending(definition: CustomResourceDefinition, time: str) -> CustomResourceDefinition:
    """A definition that is marked for deletion."""
    condition = CustomResourceDefinitionCondition(
        type="Terminating",
        status="True",
        lastTransitionTime=time,
        reason="InstanceDeletionPending",
        message="CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    )
    others = [c for c in definition.status.conditions or () if c.type != "Terminating"]
    return replace(definition, status=replace(definition.status, conditions=(*others, condition)))
