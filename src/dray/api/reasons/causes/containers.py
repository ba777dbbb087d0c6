"""Containers of a pod that do not run, or are not ready."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause


class PodInitializing(Cause, frozen=True, tag="Initializing"):
    """An init container runs.

    node: where
    container: the init container
    """

    TEXT = "init container {container} runs on {node}, and what comes after it waits for its end"

    node: str
    container: str


class ImageNotPulled(Cause, frozen=True, tag="ImageNotPulled"):
    """The image of a container cannot be pulled.

    container: the container
    image: its image
    message: why
    """

    TEXT = "container {container}: image {image} cannot be pulled: {message}"

    container: str
    image: str
    message: str


class ContainerFails(Cause, frozen=True, tag="ContainerFails"):
    """A container ends again and again.

    pod: the pod
    container: the container
    ending: how it ended last
    restarts: how often it was started again
    """

    TEXT = (
        "container {container} ends with {ending} again and again (restarts: {restarts}); "
        "its log may say why: kubectl logs {pod} -c {container}"
    )

    pod: str
    container: str
    ending: str
    restarts: int


class ContainerWaiting(Cause, frozen=True, tag="ContainerWaits"):
    """A container waits for another reason.

    container: the container
    message: what its status says
    """

    TEXT = "container {container} waits: {message}"

    container: str
    message: str


class PodNotReady(Cause, frozen=True, tag="NotReady"):
    """The pod runs and is not ready.

    node: where
    message: which probe or condition says so
    """

    TEXT = "it runs on {node}, but is not ready: {message}"

    node: str
    message: str
