"""Which versions of which resources are served. Feature gates and `--runtime-config` decide once, at start.

Stable versions are served by default; beta and alpha versions only if enabled, as in Kubernetes. `dray up` makes one
exception: all versions of a kind without a stable version are served while its feature gate is on. The served
versions do not affect storage: each object is stored in one version and converted for clients. Components in the same
process can use a resource even if no version is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dray.api.gates import FeatureGates
from dray.api.resources import METRICS, RESOURCES, Resource

VersionStage = Literal["ga", "beta", "alpha"]

ALL = "api/all"
_STAGES = (ALL, "api/ga", "api/beta", "api/alpha")
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")


class RuntimeConfigError(ValueError):
    """Error for an invalid `--runtime-config`. The message has the reason."""


def parse_runtime_config(text: str) -> dict[str, bool]:
    """Parse text such as `resource.k8s.io/v1beta1=true,api/alpha=false`. Returns whether each name is enabled.

    A name without a value is enabled. The core group is `api/v1` or `v1`. Raises RuntimeConfigError if a name is
    unknown, a value is not a boolean, or `api/all=false` is the only setting.
    """
    chosen: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = "v1" if name == "api/v1" else name
        if name not in _STAGES:
            _check_known(name)
        if equals and value and value.lower() not in _TRUE + _FALSE:
            raise RuntimeConfigError(f'runtime config {name}: invalid value "{value}", expected true or false')
        chosen[name] = value.lower() not in _FALSE
    if chosen == {ALL: False}:
        raise RuntimeConfigError(
            f"runtime config {ALL}=false: no API would be served; enable some, as with api/ga=true"
        )
    return chosen


def _check_known(name: str) -> None:
    """Raise RuntimeConfigError unless `name` is a GROUP/VERSION of a built-in resource, or `v1`."""
    group, _, version = name.rpartition("/")
    known = {v for resource in RESOURCES if resource.group == group for v in resource.versions}
    if not known or (not group and name != "v1"):
        unknown = f'unknown API group "{group}"' if group else f'unknown key "{name}"'
        raise RuntimeConfigError(f"runtime config: {unknown}, expected GROUP/VERSION or one of {', '.join(_STAGES)}")
    if version not in known:
        raise RuntimeConfigError(
            f'runtime config: unknown API version "{name}"; {group} has {", ".join(sorted(known))}'
        )


def served_versions(
    gates: FeatureGates, config: Mapping[str, bool], *, gates_enable_apis: bool = True
) -> dict[Resource, tuple[str, ...]]:
    """Return the served versions of each resource whose feature gate is on.

    Resources without a served version are left out. With `gates_enable_apis`, all versions of a kind without a stable
    version are served by default.
    """
    served = {}
    for resource in RESOURCES:
        if gates.served(resource.gate):
            only_unstable = all(_stage(version) != "ga" for version in resource.versions)
            by_default = gates_enable_apis and only_unstable
            versions = tuple(v for v in resource.versions if _is_enabled(resource, v, config, by_default))
            if versions:
                served[resource] = versions
    return served


def _is_enabled(resource: Resource, version: str, config: Mapping[str, bool], by_default: bool) -> bool:
    """Return whether a version is served.

    The most specific setting wins: the version, its stage, `api/all`, the default.
    """
    stage, chosen = _stage(version), config.get(resource.api_version(version))
    if chosen is not None:
        return chosen
    if resource.group == METRICS:
        # metrics.k8s.io is aggregated in Kubernetes, so stages of the API server's own versions do not affect it
        return True
    return config.get(f"api/{stage}", config.get(ALL, by_default or stage == "ga"))


def _stage(version: str) -> VersionStage:
    return "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"
