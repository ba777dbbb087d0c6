"""Causes: containers of a pod do not run or are not ready."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause


class PodInitializing(Cause, frozen=True, tag="Initializing"):
    """An init container is running.

    node: the node of the pod
    container: the init container
    """

    TEXT = "init container {container} runs on {node}, and what comes after it waits for its end"

    node: str
    container: str


class ImageNotPulled(Cause, frozen=True, tag="ImageNotPulled"):
    """The image of a container cannot be pulled.

    container: the container
    image: the image of the container
    message: the reason
    """

    TEXT = "container {container}: image {image} cannot be pulled: {message}"

    container: str
    image: str
    message: str


class ContainerFails(Cause, frozen=True, tag="ContainerFails"):
    """A container terminates repeatedly.

    pod: the pod
    container: the container
    ending: how the container terminated last
    restarts: number of restarts
    """

    TEXT = (
        "container {container} keeps ending with {ending} (restarts: {restarts}); "
        "its log may say why: kubectl logs {pod} -c {container}"
    )

    pod: str
    container: str
    ending: str
    restarts: int


class ContainerWaiting(Cause, frozen=True, tag="ContainerWaits"):
    """A container waits for another reason.

    container: the container
    message: the reason in the container's status
    """

    TEXT = "container {container} waits: {message}"

    container: str
    message: str


class PodNotReady(Cause, frozen=True, tag="NotReady"):
    """The pod is running but not ready.

    node: the node of the pod
    message: the failing probe or condition
    """

    TEXT = "it runs on {node}, but is not ready: {message}"

    node: str
    message: str
