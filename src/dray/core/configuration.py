"""Scheduler configuration: profiles by scheduler name, weights of scores, and timeouts for device allocation and
binding.

Reads the supported parts of a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) and warns about each field
that has no effect, so that users do not rely on settings that are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api.reasons.nodes import SchedulingRule

DEFAULT_SCHEDULER = "default-scheduler"
FILTER_TIMEOUT = 10.0  # seconds, as KEP-4381 sets it
BINDING_TIMEOUT = 600.0  # seconds for drivers to make devices ready, as KEP-5007 sets it
SHORTEST_BINDING_TIMEOUT = 1.0
CANDIDATE_PERCENTAGE = 10  # default arguments of DefaultPreemption, as in Kubernetes
CANDIDATES = 100
DEVICE_PACKING = "DevicePacking"  # a score that Kubernetes does not have
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "NodeResourcesFit": 1,
    "NodeAffinity": 2,
    "TaintToleration": 3,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    DEVICE_PACKING: 0,  # disabled unless a profile gives it a weight
}
FILTERS: frozenset[str] = frozenset(SchedulingRule)
DEFAULT_PREEMPTION = "DefaultPreemption"
PLUGINS: frozenset[str] = FILTERS | frozenset(DEFAULT_WEIGHTS) | {DEFAULT_PREEMPTION}
_PERCENTAGE = "percentageOfNodesToScore"
LEASE_DURATIONS = ("leaseDuration", "renewDeadline", "retryPeriod")
_API_VERSION = "kubescheduler.config.k8s.io/v1"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


ScalarType = TypeVar("ScalarType", bool, str, float, int)


class ConfigurationError(ValueError):
    """The configuration has an invalid value. The message names the field."""


@dataclass(frozen=True)
class SchedulerProfile:
    """Settings for the pods of one scheduler name."""

    name: str = DEFAULT_SCHEDULER
    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    disabled_filters: frozenset[str] = frozenset()
    filter_timeout: float = FILTER_TIMEOUT
    binding_timeout: float = BINDING_TIMEOUT
    percentage_to_score: int = 0  # percentage of all nodes to score; 0 selects the scheduler's default
    timeout_per_node: bool = False  # whether the filter timeout applies to each node instead of to the whole attempt
    preempts: bool = True  # whether pods that fit nowhere may preempt pods of lower priority
    # percentage of the nodes where preemption may help that are compared
    candidate_percentage: int = CANDIDATE_PERCENTAGE
    candidates: int = CANDIDATES  # minimum number of nodes to compare for preemption


@dataclass(frozen=True)
class ElectionSettings:
    """The leaderElection section of a configuration. Fields that the file does not set are None."""

    enabled: bool | None = None
    name: str | None = None
    namespace: str | None = None
    durations: Mapping[str, float] = field(default_factory=dict)  # in seconds, by field name in the file


@dataclass(frozen=True)
class ConnectionSettings:
    """The clientConnection section of a configuration. Fields that the file does not set are None."""

    kubeconfig: str | None = None
    qps: float | None = None
    burst: int | None = None


@dataclass(frozen=True)
class Configuration:
    """Profiles by scheduler name, warnings about ignored fields, and settings for leader election and connection."""

    profiles: Mapping[str, SchedulerProfile] = field(default_factory=lambda: {DEFAULT_SCHEDULER: SchedulerProfile()})
    warnings: tuple[str, ...] = ()
    election: ElectionSettings = ElectionSettings()
    connection: ConnectionSettings = ConnectionSettings()


def read(tree: Any) -> Configuration:
    """Parse a decoded KubeSchedulerConfiguration. Raises ConfigurationError if a field is invalid.

    Without `profiles`, the configuration has the default profile. Fields without effect become warnings.
    """
    if (
        not isinstance(tree, dict)
        or tree.get("kind") != "KubeSchedulerConfiguration"
        or tree.get("apiVersion") != _API_VERSION
    ):
        raise ConfigurationError(f"expected apiVersion {_API_VERSION}, kind KubeSchedulerConfiguration")
    warnings = [
        f"{name}: has no effect here"
        for name in tree
        if name not in ("apiVersion", "kind", "profiles", "leaderElection", "clientConnection", _PERCENTAGE)
    ]
    percentage = _percentage(tree, 0, "")
    profiles: dict[str, SchedulerProfile] = {}
    for i, entry in enumerate(_list(tree.get("profiles"), "profiles") or [{}]):
        profile = _profile(_map(entry, f"profiles[{i}]"), f"profiles[{i}]", percentage, warnings)
        if profile.name in profiles:
            raise ConfigurationError(f"profiles[{i}].schedulerName: {profile.name!r} is there twice")
        profiles[profile.name] = profile
    election = _election(_map(tree.get("leaderElection"), "leaderElection"), warnings)
    connection = _connection(_map(tree.get("clientConnection"), "clientConnection"), warnings)
    return Configuration(profiles, tuple(warnings), election, connection)


def _election(entry: dict[str, Any], warnings: list[str]) -> ElectionSettings:
    path = "leaderElection"
    durations = {
        name: _duration(entry[name], f"{path}.{name}") for name in LEASE_DURATIONS if entry.get(name) is not None
    }
    known = ("leaderElect", "resourceLock", "resourceName", "resourceNamespace", *LEASE_DURATIONS)
    warnings += [f"{path}.{name}: has no effect here" for name in entry if name not in known]
    if (lock := entry.get("resourceLock", "leases")) != "leases":
        raise ConfigurationError(f"{path}.resourceLock: expected leases, got {lock!r}")
    return ElectionSettings(
        _typed(entry, "leaderElect", bool, path),
        _typed(entry, "resourceName", str, path),
        _typed(entry, "resourceNamespace", str, path),
        durations,
    )


def _connection(entry: dict[str, Any], warnings: list[str]) -> ConnectionSettings:
    path = "clientConnection"
    for name, value in entry.items():
        if name in ("acceptContentTypes", "contentType") and value not in ("", "application/json"):
            warnings.append(f"{path}.{name}: {value!r} has no effect here, JSON is used")
        elif name not in ("kubeconfig", "qps", "burst", "acceptContentTypes", "contentType"):
            warnings.append(f"{path}.{name}: has no effect here")
    qps = _typed(entry, "qps", float, path)
    return ConnectionSettings(_typed(entry, "kubeconfig", str, path), qps, _typed(entry, "burst", int, path))


_WORDS = {bool: "true or false", str: "a text", float: "a number", int: "a whole number"}


def _typed(entry: dict[str, Any], name: str, type_: type[ScalarType], path: str) -> ScalarType | None:
    """Return a field's value, or None if the field is not set. Raises ConfigurationError if its type is wrong.

    `path` is the path of `entry` for messages. An int is converted if a float is expected; a bool is no number.
    """
    value = entry.get(name)
    if type_ is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if value is not None and (not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool)):
        raise ConfigurationError(f"{path}.{name}: expected {_WORDS[type_]}, got {value!r}")
    return value


def _percentage(entry: dict[str, Any], default: int, path: str) -> int:
    """Return percentageOfNodesToScore of this section, or `default` if the section does not set the field.

    Raises ConfigurationError for anything but a whole number from 0 to 100. `path` is the prefix of the field's path.
    """
    value = default if (given := entry.get(_PERCENTAGE)) is None else given
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise ConfigurationError(f"{path}{_PERCENTAGE}: expected a whole number from 0 to 100, got {value!r}")
    return value


def _profile(entry: dict[str, Any], path: str, percentage: int, warnings: list[str]) -> SchedulerProfile:
    """Read one entry of `profiles`. Appends to `warnings` a message for each setting that has no effect.

    `percentage` applies if the entry does not set percentageOfNodesToScore. Raises ConfigurationError if a field is
    invalid.
    """
    weights = dict(DEFAULT_WEIGHTS)
    disabled: set[str] = set()
    plugins = _map(entry.get("plugins"), f"{path}.plugins")
    for point, chosen in plugins.items():
        where = f"{path}.plugins.{point}"
        if point not in ("score", "filter", "postFilter", "multiPoint"):
            warnings.append(f"{where}: has no effect here")
            continue
        _choose(_map(chosen, where), where, point, weights, disabled)
    timeouts, per_node, candidates = (FILTER_TIMEOUT, BINDING_TIMEOUT), False, (CANDIDATE_PERCENTAGE, CANDIDATES)
    for i, given in enumerate(_list(entry.get("pluginConfig"), f"{path}.pluginConfig")):
        where = f"{path}.pluginConfig[{i}]"
        config = _map(given, where)
        args = _map(config.get("args"), f"{where}.args")
        if config.get("name") == "DynamicResources":
            timeouts, per_node = _timeouts(args, f"{where}.args"), _is_per_node(args, f"{where}.args")
        elif config.get("name") == DEFAULT_PREEMPTION:
            candidates = _candidates(args, f"{where}.args")
        else:
            warnings.append(f"{where}: arguments of {config.get('name')} have no effect here")
    name, percentage = entry.get("schedulerName") or DEFAULT_SCHEDULER, _percentage(entry, percentage, f"{path}.")
    preempts, filters = DEFAULT_PREEMPTION not in disabled, frozenset(disabled & FILTERS)
    return SchedulerProfile(name, weights, filters, *timeouts, percentage, per_node, preempts, *candidates)


def _candidates(args: dict[str, Any], path: str) -> tuple[int, int]:
    """Read the arguments of DefaultPreemption. Raises ConfigurationError if one is invalid or both are 0.

    Returns the percentage of nodes to compare and the minimum number of nodes.
    """
    found = []
    for name, default, most in (
        ("minCandidateNodesPercentage", CANDIDATE_PERCENTAGE, 100),
        ("minCandidateNodesAbsolute", CANDIDATES, 2**31 - 1),
    ):
        value = default if args.get(name) is None else args[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ConfigurationError(f"{path}.{name}: expected a whole number from 0 to {most}, got {value!r}")
        found.append(value)
    if not any(found):
        raise ConfigurationError(f"{path}: minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be 0")
    return found[0], found[1]


def _timeouts(args: dict[str, Any], path: str) -> tuple[float, float]:
    """Read the arguments of DynamicResources. Returns the filter timeout and the binding timeout, in seconds.

    Raises ConfigurationError for an unknown argument, a text that is no duration, or a binding timeout that is too
    short.
    """
    for name in args:
        if name not in ("apiVersion", "kind", "filterTimeout", "filterTimeoutScope", "bindingTimeout"):
            expected = "filterTimeout, filterTimeoutScope or bindingTimeout"
            raise ConfigurationError(f"{path}.{name}: DynamicResources has no such argument, expected {expected}")
    filtering = _duration(args.get("filterTimeout", f"{FILTER_TIMEOUT}s"), f"{path}.filterTimeout")
    binding = _duration(args.get("bindingTimeout", f"{BINDING_TIMEOUT}s"), f"{path}.bindingTimeout")
    if binding < SHORTEST_BINDING_TIMEOUT:
        raise ConfigurationError(
            f"{path}.bindingTimeout: expected {SHORTEST_BINDING_TIMEOUT:g}s or more, got {binding:g}s"
        )
    return filtering, binding


def _is_per_node(args: dict[str, Any], path: str) -> bool:
    """Whether the filter timeout applies to each node instead of to the whole attempt.

    Reads filterTimeoutScope, an argument that Kubernetes lacks: its timeout always applies to each node. Raises
    ConfigurationError for anything but Attempt (the default) and Node.
    """
    scope = args.get("filterTimeoutScope", "Attempt")
    if scope not in ("Attempt", "Node"):
        raise ConfigurationError(f"{path}.filterTimeoutScope: expected Attempt or Node, got {scope!r}")
    return bool(scope == "Node")


def _choose(chosen: dict[str, Any], where: str, point: str, weights: dict[str, float], disabled: set[str]) -> None:
    """Apply the enabled and disabled plugins of one extension point to `weights` and `disabled`, in place.

    `chosen` is the section of the extension point, `where` its path for messages and `point` its name. Raises
    ConfigurationError for an unknown plugin.
    """
    for i, plugin in enumerate(_list(chosen.get("disabled"), f"{where}.disabled")):
        name = _map(plugin, f"{where}.disabled[{i}]").get("name", "")
        names = PLUGINS if name == "*" else {name}
        if not names <= PLUGINS:
            raise ConfigurationError(f"{where}.disabled: no plugin is called {name!r}")
        if point in ("score", "multiPoint"):
            weights.update(dict.fromkeys(names & set(weights), 0))
        if point in ("filter", "multiPoint"):
            disabled.update(names & FILTERS)
        if point in ("postFilter", "multiPoint"):
            disabled.update(names & {DEFAULT_PREEMPTION})
    for i, plugin in enumerate(_list(chosen.get("enabled"), f"{where}.enabled")):
        name = _map(plugin, f"{where}.enabled[{i}]").get("name", "")
        if name not in PLUGINS:
            raise ConfigurationError(f"{where}.enabled: no plugin is called {name!r}")
        if point != "score":
            disabled.discard(name)
        if point in ("score", "multiPoint") and name in DEFAULT_WEIGHTS:
            weights[name] = plugin.get("weight") or DEFAULT_WEIGHTS[name] or 1


def _map(value: Any, path: str) -> dict[str, Any]:
    """Return the value, or an empty mapping for None. Raises ConfigurationError if the value is not a mapping."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: expected a mapping, got {type(value).__name__}")
    return value


def _list(value: Any, path: str) -> list[Any]:
    """Return the value, or an empty list for None. Raises ConfigurationError if the value is not a list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{path}: expected a list, got {type(value).__name__}")
    return value


def _duration(text: Any, path: str) -> float:
    """Convert a Go duration such as 1m30s to seconds. Raises ConfigurationError if the text is not a duration.

    The text "0" means 0 seconds.
    """
    if not isinstance(text, str) or not (text == "0" or _DURATION.sub("", text) == ""):
        raise ConfigurationError(f"{path}: expected a duration such as 10s, got {text!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
