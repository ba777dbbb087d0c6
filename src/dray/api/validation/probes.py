"""Probes and lifecycle hooks of a container: what they ask, how often, and for how long."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.errors import forbidden, invalid, required
from dray.api.paths import Path
from dray.api.types import core
from dray.api.validation.lists import Errors, at_least, named, one_of

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
SCHEMES = ("HTTP", "HTTPS")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def probe(value: core.Probe, path: Path, name: str) -> Errors:
    yield from handler(value, path)
    for field in _NUMBERS:
        yield from at_least(getattr(value, field), 0, path / field)
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
    if value.exec is not None and not value.exec.command:
        yield required(path / "exec" / "command")
    if value.httpGet is not None:
        yield from _http_get(value.httpGet, path / "httpGet")
    if value.tcpSocket is not None:
        yield from target_port(value.tcpSocket.port, path / "tcpSocket" / "port")
    grpc: core.GRPCAction | None = getattr(value, "grpc", None)
    if grpc is not None:
        yield from target_port(grpc.port, path / "grpc" / "port")


def _http_get(action: core.HTTPGetAction, path: Path) -> Errors:
    if not action.path:
        yield required(path / "path")
    yield from target_port(action.port, path / "port")
    yield from one_of(action.scheme, SCHEMES, path / "scheme")
    for header in action.httpHeaders:
        if not _HEADER.fullmatch(header.name):
            yield invalid(path / "httpHeaders", header.name, _HEADER_TEXT)


def target_port(port: int | str, path: Path) -> Errors:
    """A port of a container, by its number or by its name."""
    if isinstance(port, int):
        yield from named(port, path, names.port_number)
    else:
        yield from named(port, path, names.port_name)
