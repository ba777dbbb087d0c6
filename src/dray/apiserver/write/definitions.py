"""The deletion of a CustomResourceDefinition starts with condition Terminating and waits for its custom objects."""

from __future__ import annotations

from msgspec.structs import replace

from dray.api.types.apiextensions import CustomResourceDefinition, CustomResourceDefinitionCondition

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # finalizer that waits for the deletion of the custom objects


def ending(definition: CustomResourceDefinition, time: str) -> CustomResourceDefinition:
    """Return the definition with condition Terminating."""
    condition = CustomResourceDefinitionCondition(
        type="Terminating",
        status="True",
        lastTransitionTime=time,
        reason="InstanceDeletionPending",
        message="CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    )
    others = [c for c in definition.status.conditions or () if c.type != "Terminating"]
    return replace(definition, status=replace(definition.status, conditions=(*others, condition)))
