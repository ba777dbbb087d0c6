"""Deployment: keeps a number of equal pods and replaces them step by step when their template changes."""

from __future__ import annotations

from dray.api.kind import ALL, SCALED, Resource
from dray.api.types import apps

KIND = Resource(
    "apps", "deployments", "Deployment", apps.Deployment, short_names=("deploy",), categories=ALL, subresources=SCALED
)
