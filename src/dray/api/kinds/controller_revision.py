"""ControllerRevision: a state that a DaemonSet or StatefulSet had."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import apps

KIND = Resource("apps", "controllerrevisions", "ControllerRevision", apps.ControllerRevision)
