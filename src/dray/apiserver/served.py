"""Which versions of which resources are served: feature gates and `--runtime-config` decide, once, at start."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.gates import FeatureGates
from dray.api.resources import RESOURCES, Resource

_STAGES = {"api/all": "", "api/ga": "ga", "api/beta": "beta", "api/alpha": "alpha"}


class RuntimeConfigError(ValueError):
    """A choice of versions that makes no sense, with the reason."""


def parse_runtime_config(text: str) -> dict[str, bool]:
    """Read `resource.k8s.io/v1beta1=false,api/alpha=false`; without a value, true."""
    chosen: dict[str, bool] = {}
    known = {resource.api_version(version) for resource in RESOURCES for version in resource.versions}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if name not in known and name not in _STAGES:
            raise RuntimeConfigError(f'runtime config: unknown API version "{name}", expected GROUP/VERSION')
        if equals and value.lower() not in ("true", "false"):
            raise RuntimeConfigError(f'runtime config {name}: invalid value "{value}", expected true or false')
        chosen[name] = not equals or value.lower() == "true"
    return chosen


def served_versions(gates: FeatureGates, config: Mapping[str, bool]) -> dict[Resource, tuple[str, ...]]:
    """What is served; everything that a gate does not hide and the configuration does not turn off."""
    served = {}
    for resource in RESOURCES:
        if gates.served(resource.gate):
            versions = tuple(v for v in resource.versions if _enabled(resource.api_version(v), v, config))
            if versions:
                served[resource] = versions
    return served


def _enabled(api_version: str, version: str, config: Mapping[str, bool]) -> bool:
    stage = "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"
    for name in (api_version, f"api/{stage}", "api/all"):
        if name in config:
            return config[name]
    return True
