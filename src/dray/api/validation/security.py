"""Validation of security contexts: identities, privileges and contradictory combinations."""

from __future__ import annotations

from dray.api.errors import forbidden, invalid, unsupported
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import core

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def escalation(context: core.SecurityContext, path: Path) -> Errors:
    """Yield errors if privilege escalation is disabled for a privileged container or with CAP_SYS_ADMIN."""
    if context.allowPrivilegeEscalation is False:
        if context.privileged:
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, text)
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, text)


def propagation(value: str, context: core.SecurityContext | None, path: Path) -> Errors:
    """Yield an error if the mount propagation mode is unknown or not permitted for the container."""
    if value not in PROPAGATIONS:
        yield unsupported(path, value, PROPAGATIONS)
    elif value == "Bidirectional" and not (context is not None and context.privileged):
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")
