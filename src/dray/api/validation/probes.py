"""Rules for probes and lifecycle hooks of containers that cannot be expressed as steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dray.api.errors import forbidden, invalid, required
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import core

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def one_handler(value: core.Probe | core.LifecycleHandler, path: Path) -> Errors:
    """Yield errors unless exactly one handler is set."""
    chosen = [name for name in _HANDLERS if getattr(value, name, None) is not None]
    if not chosen:
        yield required(path, "must specify a handler type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 handler type")


def headers(items: Sequence[core.HTTPHeader], path: Path) -> Errors:
    """Yield an error for each invalid name of an HTTP header."""
    for header in items:
        if not _HEADER.fullmatch(header.name):
            yield invalid(path, header.name, _HEADER_TEXT)


def lasting(probe: core.Probe, path: Path) -> Errors:
    """Yield errors in a liveness or startup probe, whose failure restarts the container."""
    if probe.successThreshold != 1:
        yield invalid(path / "successThreshold", probe.successThreshold, "must be 1")
    grace = probe.terminationGracePeriodSeconds
    if grace is not None and grace <= 0:
        yield invalid(path / "terminationGracePeriodSeconds", grace, "must be greater than 0")


def readiness(probe: core.Probe, path: Path) -> Errors:
    """Yield an error if a readiness probe has a termination grace period."""
    grace = probe.terminationGracePeriodSeconds
    if grace is not None:
        yield invalid(path / "terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
