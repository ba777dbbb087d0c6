"""The subresource `scale`: convert objects with replicas to and from a Scale."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.errors import BadRequest, InternalError, Invalid, invalid
from dray.api.resources import Resource
from dray.api.selectors import spelled_out
from dray.api.types.autoscaling import Scale, ScaleSpec, ScaleStatus
from dray.api.types.meta import LabelSelector, ObjectMeta

_SCALES = Resource(Scale)  # names the resource in errors; never stored
_WORDS = {"In": "in", "NotIn": "notin"}


def scale_of(resource: Resource, version: str, obj: Any) -> Scale:
    """Return the Scale of an object: wanted and actual replicas, and the pod selector."""
    metadata = obj.metadata
    if resource.custom is not None:
        wanted, there, selector = resource.custom.scale(version or resource.stored, obj)
    else:
        wanted, there = 1 if obj.spec.replicas is None else obj.spec.replicas, obj.status.replicas
        chosen = spelled_out(obj.spec.selector)
        selector = _selector_text(chosen) if chosen is not None else ""
    return Scale(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resourceVersion=metadata.resourceVersion,
            creationTimestamp=metadata.creationTimestamp,
        ),
        spec=ScaleSpec(replicas=wanted),
        status=ScaleStatus(replicas=there, selector=selector),
    )


def check_replicas(resource: Resource, version: str, obj: Any) -> None:
    """Raise InternalError if a custom object lacks the field of its spec replicas path."""
    if resource.custom is not None and (path := resource.custom.unscaled(version or resource.stored, obj)):
        raise InternalError(f'Internal error occurred: the spec replicas field "{path}" does not exist')


def scale_patch(resource: Resource, version: str, replicas: int) -> dict[str, Any]:
    """Return the merge patch that sets the replicas of an object."""
    if resource.custom is None:
        return {"spec": {"replicas": replicas}}
    patch: dict[str, Any] = {}
    resource.custom.rescale(version or resource.stored, patch, replicas)
    return patch


def read_scale(body: Any, name: str) -> Scale:
    """Return the Scale in a body.

    Raises BadRequest or Invalid if it is malformed, negative or for another object than `name`.
    """
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise BadRequest("the object provided is unrecognized (must be of type Scale)")
    try:
        scale = msgspec.convert(body, Scale)
    except msgspec.ValidationError as error:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    named, replicas = scale.metadata.name or name, scale.spec.replicas
    if named != name:
        raise BadRequest(f"the name of the object ({named}) does not match the name on the URL ({name})")
    if replicas < 0:
        raise Invalid(_SCALES, name, [invalid("spec.replicas", replicas, "must be greater than or equal to 0")])
    return scale


def _selector_text(selector: LabelSelector) -> str:
    """Return a label selector in string form, such as `app=web,tier in (a,b)`."""
    parts = [f"{key}={value}" for key, value in sorted(selector.matchLabels.items())]
    for e in selector.matchExpressions:
        if e.operator in _WORDS:
            parts.append(f"{e.key} {_WORDS[e.operator]} ({','.join(sorted(e.values))})")
        else:
            parts.append(e.key if e.operator == "Exists" else f"!{e.key}")
    return ",".join(parts)
