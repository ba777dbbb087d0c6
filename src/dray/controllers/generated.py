"""The claim generated from a template: its name, its owner, its content.

The name is computed from the owner's uid and the entry. A controller that restarts or races with another one
therefore tries to create the same object and learns that it exists, so one entry never gets two claims. Pure.
"""

from __future__ import annotations

from zlib import crc32

from dray.api import podclaims
from dray.api.names import GENERATED_ALPHABET
from dray.api.objects import control_by
from dray.api.types.core import Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup

SUFFIX = 5
NAME_LIMIT = 63  # limit of a label value, and of a name that the server generates


def claim_name(owner: Pod | PodGroup, entry: str) -> str:
    """Return `<owner>-<entry>-xxxxx`, always the same for the same owner and entry.

    `entry` is the name of an entry in the owner's resourceClaims. The last part is a hash of the owner's uid and the
    entry.
    """
    number, suffix = crc32(f"{owner.metadata.uid}/{entry}".encode()), ""
    for _ in range(SUFFIX):
        number, digit = divmod(number, len(GENERATED_ALPHABET))
        suffix += GENERATED_ALPHABET[digit]
    return prefix_of(owner.metadata.name, entry) + suffix


def prefix_of(owner: str, entry: str) -> str:
    """Return `<owner>-<entry>-`, the readable part of a claim's name.

    If the name would be too long, both parts are shortened proportionally.
    """
    room = NAME_LIMIT - SUFFIX - 2
    if (length := len(owner) + len(entry)) > room:
        kept = max(1, room * len(entry) // length)
        owner, entry = owner[: room - kept].rstrip("-."), entry[:kept].rstrip("-")
    return f"{owner}-{entry}-"


def annotation_for(owner: Pod | PodGroup) -> str:
    """Return the key of the annotation that holds the entry for which a claim was made."""
    return podclaims.GROUP_CLAIM_ANNOTATION if isinstance(owner, PodGroup) else podclaims.POD_CLAIM_ANNOTATION


def claim_for(owner: Pod | PodGroup, entry: str, template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    """Return the claim to create for an entry of a pod or group.

    `entry` is the name of the entry, `name` that of the claim.
    """
    wanted = template.spec.metadata
    metadata = ObjectMeta(
        name=name,
        generateName=prefix_of(owner.metadata.name, entry),
        namespace=owner.metadata.namespace,
        labels=wanted.labels,
        annotations={**wanted.annotations, annotation_for(owner): entry},
        # Otherwise the scheduler would add it at allocation, with an additional write.
        finalizers=(podclaims.CLAIM_FINALIZER,),
        ownerReferences=(control_by(owner),),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
