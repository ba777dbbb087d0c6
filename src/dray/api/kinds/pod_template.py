"""PodTemplate: a template of pods, stored for others to use."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource("", "podtemplates", "PodTemplate", core.PodTemplate)
