"""The containers of a pod, of all three kinds, found by their name. Pure."""

from __future__ import annotations

from dray.api.types.core import Container, EphemeralContainer, Pod

AnyContainer = Container | EphemeralContainer


def container_of(pod: Pod, name: str) -> AnyContainer:
    """The container of that name; KeyError when the pod has none."""
    spec = pod.spec
    everyone: list[AnyContainer] = [*spec.containers, *spec.initContainers, *spec.ephemeralContainers]
    for container in everyone:
        if container.name == name:
            return container
    raise KeyError(name)


def kind_of(pod: Pod, name: str) -> str:
    """What metrics call a container of this kind."""
    if any(container.name == name for container in pod.spec.initContainers):
        return "init_container"
    return "ephemeral_container" if any(c.name == name for c in pod.spec.ephemeralContainers) else "container"
