"""Lookup of a pod's containers of all three kinds by name. Pure."""

from __future__ import annotations

from dray.api.types.core import Container, EphemeralContainer, Pod

AnyContainer = Container | EphemeralContainer


def container_of(pod: Pod, name: str) -> AnyContainer:
    """Return the container with this name. Raises KeyError if the pod has none."""
    spec = pod.spec
    everyone: list[AnyContainer] = [*spec.containers, *spec.initContainers, *spec.ephemeralContainers]
    for container in everyone:
        if container.name == name:
            return container
    raise KeyError(name)


def kind_of(pod: Pod, name: str) -> str:
    """Return the kind of a container as metrics name it: init_container, ephemeral_container or container.

    An unknown name counts as container.
    """
    if any(container.name == name for container in pod.spec.initContainers):
        return "init_container"
    return "ephemeral_container" if any(c.name == name for c in pod.spec.ephemeralContainers) else "container"
