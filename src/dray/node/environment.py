"""Environment variables of a container from its spec, and the variable references in its command line.

Values come from the spec itself, from the pod (the downward API), and from config maps and secrets. Left out:
variables that devices add (the runtime merges them on top) and `fileKeyRef`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dray.api.errors import ApiError, NotFound
from dray.api.quantity import Quantity
from dray.api.types.core import (
    ConfigMap,
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    Pod,
    ResourceFieldSelector,
    Secret,
    SecretKeySelector,
)
from dray.client import Client
from dray.node.containers import AnyContainer, container_of

SourceKind = Literal["configmap", "secret"]
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class ConfigProblem(Exception):
    """A container's spec refers to something that is missing or not supported. The text names it."""


@dataclass
class Sources:
    """Cache of a pod's config maps and secrets, each read once, so a restarted container needs no API server."""

    client: Client
    namespace: str
    _known: dict[tuple[SourceKind, str], dict[str, bytes]] = field(default_factory=dict)

    async def data(self, kind: SourceKind, name: str) -> dict[str, bytes] | None:
        """Return the data of a config map or secret, or None if the object does not exist.

        Raises `ConfigProblem` if the object cannot be read.
        """
        if (kind, name) not in self._known:
            try:
                self._known[kind, name] = await self._read(kind, name)
            except NotFound:
                return None
            except ApiError as error:
                raise ConfigProblem(str(error)) from error
        return self._known[kind, name]

    async def _read(self, kind: SourceKind, name: str) -> dict[str, bytes]:
        if kind == "secret":
            return _decoded((await self.client.get(Secret, name, self.namespace)).data)
        found = await self.client.get(ConfigMap, name, self.namespace)
        return {key: value.encode() for key, value in found.data.items()} | _decoded(found.binaryData)


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in data.items()}


@dataclass(frozen=True)
class VariablePlace:
    """The node facts that the downward API shows to a pod: node name, addresses and capacity."""

    node: str
    host_address: str
    pod_address: str
    capacity: Mapping[str, str] = field(default_factory=dict)  # the node's capacity, for containers without limits


def pod_field(pod: Pod, path: str, place: VariablePlace) -> str:
    """Return a field of the pod by its downward API path, such as `metadata.name`; `ConfigProblem` for other paths.

    Returns "" for a label or annotation that the pod lacks.
    """
    meta = pod.metadata
    known: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: meta.name,
        "metadata.namespace": lambda: meta.namespace,
        "metadata.uid": lambda: meta.uid,
        "metadata.labels": lambda: _listed(meta.labels),
        "metadata.annotations": lambda: _listed(meta.annotations),
        "spec.nodeName": lambda: place.node,
        "spec.serviceAccountName": lambda: pod.spec.serviceAccountName,
        "status.hostIP": lambda: place.host_address,
        "status.hostIPs": lambda: place.host_address,
        "status.podIP": lambda: place.pod_address,
        "status.podIPs": lambda: place.pod_address,
    }
    if path in known:
        return known[path]()
    if match := _KEYED.fullmatch(path):
        table = meta.labels if match[1] == "labels" else meta.annotations
        return table.get(match[2], "")
    raise ConfigProblem(f"fieldPath {path!r} is not supported")


def container_resource(pod: Pod, reference: ResourceFieldSelector, place: VariablePlace, own: str = "") -> str:
    """Return a container's limit or request in units of the divisor, rounded up.

    A missing limit means the node's capacity. `own` is the container used if the reference names none. Raises
    ConfigProblem for an unknown container, and for anything but limits and requests. A missing request is 0.
    """
    name = reference.containerName or own
    try:
        container = container_of(pod, name)
    except KeyError:
        raise ConfigProblem(f"resourceFieldRef: container {name!r} is not in the pod") from None
    which, _, resource = reference.resource.partition(".")
    amounts = {"limits": container.resources.limits, "requests": container.resources.requests}.get(which)
    if amounts is None:
        raise ConfigProblem(f"resourceFieldRef: resource {reference.resource!r} is not supported")
    amount = amounts.get(resource) or (place.capacity.get(resource, "0") if which == "limits" else "0")
    divisor = Quantity.parse(reference.divisor).milli() or 1000
    return str(-(-Quantity.parse(amount).milli() // divisor))


def _listed(table: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted(table.items()))


async def environment(pod: Pod, container: AnyContainer, sources: Sources, place: VariablePlace) -> dict[str, str]:
    """Return all environment variables of a container, in order; a later variable may refer to an earlier one.

    Variables that refer to missing optional keys are left out. Raises ConfigProblem if a value cannot be determined.
    """
    env: dict[str, str] = {}
    for source in container.envFrom:
        env |= await _all_of(source, sources)
    for variable in container.env:
        value = await _value(pod, container, variable, sources, place)
        if value is not None:
            env[variable.name] = expand(value, env) if variable.valueFrom is None else value
    return env


async def _all_of(source: EnvFromSource, sources: Sources) -> dict[str, str]:
    """Return all variables of a config map or secret, with the prefix of the reference.

    Returns no variables for a missing object if the reference is optional. Raises ConfigProblem if it is required.
    """
    kind: SourceKind = "secret" if source.configMapRef is None else "configmap"
    reference = source.configMapRef or source.secretRef
    if reference is None:
        return {}
    data = await sources.data(kind, reference.name)
    if data is None and not reference.optional:
        raise ConfigProblem(f'{kind} "{reference.name}" not found')
    return {source.prefix + key: value.decode(errors="replace") for key, value in (data or {}).items()}


async def _value(
    pod: Pod, container: AnyContainer, variable: EnvVar, sources: Sources, place: VariablePlace
) -> str | None:
    """Return the value of a variable, or None if it refers to a missing optional key.

    Raises ConfigProblem if a required object or key is missing, or if the source is not supported.
    """
    source = variable.valueFrom
    if source is None:
        return variable.value
    if source.fieldRef is not None:
        return pod_field(pod, source.fieldRef.fieldPath, place)
    if source.resourceFieldRef is not None:
        return container_resource(pod, source.resourceFieldRef, place, container.name)
    if (chosen := source.configMapKeyRef) is not None:
        return _chosen(await sources.data("configmap", chosen.name), "configmap", chosen)
    if (secret := source.secretKeyRef) is not None:
        return _chosen(await sources.data("secret", secret.name), "secret", secret)
    raise ConfigProblem(
        f"env {variable.name}: only fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef are supported"
    )


def _chosen(
    data: dict[str, bytes] | None, kind: SourceKind, reference: ConfigMapKeySelector | SecretKeySelector
) -> str | None:
    name, key = reference.name, reference.key
    if data is not None and key in data:
        return data[key].decode(errors="replace")
    if reference.optional:
        return None
    raise ConfigProblem(f'{kind} "{name}" not found' if data is None else f"couldn't find key {key} in {kind} {name}")


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return the text with each `$(NAME)` replaced by the variable's value. `$$` becomes `$`; unknown names stay."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def command_line(
    container: AnyContainer, env: Mapping[str, str], entrypoint: Sequence[str] = (), default: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command and arguments of a container.

    The image's entrypoint and default arguments fill what is not set. References to variables are expanded in the
    container's own words, not in the image's.
    """
    own = (*container.command, *container.args)
    words = own if container.command else (*entrypoint, *(container.args or default))
    return tuple(expand(word, env) if word in own else word for word in words)
