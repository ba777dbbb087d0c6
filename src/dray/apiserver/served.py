"""Which versions of which resources are served: feature gates and `--runtime-config` decide, once, at start.

Stable versions are served, beta and alpha versions only if they are enabled, as in Kubernetes. `dray up` makes one
exception: a kind without a stable version is served, in all of its versions, while its feature gate is on. What is
served says nothing about what is stored: objects are stored in one version and converted for every client, and parts of
the same process reach a resource in any case.
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
    """A choice of versions that makes no sense, with the reason."""


def parse_runtime_config(text: str) -> dict[str, bool]:
    """Read `resource.k8s.io/v1beta1=true,api/alpha=false`; without a value, true. The core group is `api/v1` or `v1`."""
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
    """Resources whose gate is on, with the versions that are served of each.

    With `gates_enable_apis`, a kind without a stable version needs only its gate.
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
    """The most specific choice counts: the version itself, then its stage, then all, then the default."""
    stage, chosen = _stage(version), config.get(resource.api_version(version))
    if chosen is not None:
        return chosen
    if resource.group == METRICS:
        return True  # in Kubernetes another server's, which stages of the API server's versions do not concern
    return config.get(f"api/{stage}", config.get(ALL, by_default or stage == "ga"))


def _stage(version: str) -> VersionStage:
    return "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"
