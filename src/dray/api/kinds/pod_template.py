"""PodTemplate: a template of pods, stored for others to use."""

from __future__ import annotations

from dray.api.cells import images, labels, names
from dray.api.columns import NAME, text
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    "",
    "podtemplates",
    "PodTemplate",
    core.PodTemplate,
    columns=(
        NAME,
        text("Containers", lambda obj: names(obj.template.spec.containers)),
        text("Images", lambda obj: images(obj.template.spec.containers)),
        text("Pod Labels", lambda obj: labels(obj.template.metadata.labels)),
    ),
)
