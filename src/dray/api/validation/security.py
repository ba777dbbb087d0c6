"""Security contexts of pods and containers: identities, privileges, and combinations that contradict themselves."""

from __future__ import annotations

from dray.api.errors import forbidden, invalid, unsupported
from dray.api.paths import Path
from dray.api.types import core
from dray.api.validation.lists import Errors, one_of

_LARGEST_ID = 2**31 - 1
_ID = f"must be between 0 and {_LARGEST_ID}, inclusive"
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_CHOICES = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
)


def container_security(context: core.SecurityContext, path: Path) -> Errors:
    yield from _identity(context.runAsUser, path / "runAsUser")
    yield from _identity(context.runAsGroup, path / "runAsGroup")
    yield from one_of(context.procMount, ("Default", "Unmasked"), path / "procMount")
    if context.allowPrivilegeEscalation is False:
        if context.privileged:
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, text)
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, text)


def pod_security(context: core.PodSecurityContext, path: Path) -> Errors:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _identity(getattr(context, field), path / field)
    for index, group in enumerate(context.supplementalGroups):
        yield from _identity(group, path / "supplementalGroups" / index)
    for field, options in _CHOICES:
        yield from one_of(getattr(context, field), options, path / field)


def propagation(value: str, context: core.SecurityContext | None, path: Path) -> Errors:
    """How mounts made later reach a container, and those that it makes the node."""
    if value not in PROPAGATIONS:
        yield unsupported(path, value, PROPAGATIONS)
    elif value == "Bidirectional" and not (context is not None and context.privileged):
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _identity(value: int | None, path: Path) -> Errors:
    if value is not None and not 0 <= value <= _LARGEST_ID:
        yield invalid(path, value, _ID)
