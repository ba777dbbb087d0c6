"""PodTemplate: a stored pod template for use by other programs."""

from __future__ import annotations

from dray.api.cells import container_names, images, labels
from dray.api.columns import NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import pod_guards, template_warnings
from dray.api.types import core

KIND = Resource(
    core.PodTemplate,
    columns=(
        NAME,
        text("Containers", lambda obj: container_names(obj.template.spec.containers)),
        text("Images", lambda obj: images(obj.template.spec.containers)),
        text("Pod Labels", lambda obj: labels(obj.template.metadata.labels)),
    ),
    generation=("template",),
    rules=KindRules("pods.check_pod_template"),
    more_defaults=template_defaults,
    warnings=template_warnings("template"),
    guards=pod_guards("template.spec"),
    is_returned_when_deleted=True,
)
