"""Probes and lifecycle hooks of a container: what they ask, how often, and for how long."""

from __future__ import annotations

import re

from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required
from dray.api.paths import Path
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation.lists import Errors

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_ACTIONS = {
    "exec": f"{CORE}ExecAction",
    "httpGet": f"{CORE}HTTPGetAction",
    "tcpSocket": f"{CORE}TCPSocketAction",
    "grpc": f"{CORE}GRPCAction",
}
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def probe(value: core.Probe, path: Path, name: str) -> Errors:
    yield from handler(value, path)
    yield from checked(f"{CORE}Probe", value, path)
    if value.successThreshold != 1 and name != "readinessProbe":
        yield invalid(path / "successThreshold", value.successThreshold, "must be 1")
    grace = value.terminationGracePeriodSeconds
    if grace is not None and name == "readinessProbe":
        yield invalid(path / "terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif grace is not None and grace <= 0:
        yield invalid(path / "terminationGracePeriodSeconds", grace, "must be greater than 0")


def handler(value: core.Probe | core.LifecycleHandler, path: Path) -> Errors:
    chosen = [name for name in _HANDLERS if getattr(value, name, None) is not None]
    if not chosen:
        yield required(path, "must specify a handler type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 handler type")
    for name, message in _ACTIONS.items():
        action = getattr(value, name, None)
        if action is not None:
            yield from checked(message, action, path / name)
            for header in getattr(action, "httpHeaders", ()):
                if not _HEADER.fullmatch(header.name):
                    yield invalid(path / name / "httpHeaders", header.name, _HEADER_TEXT)
