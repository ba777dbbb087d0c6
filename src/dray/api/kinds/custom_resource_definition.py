"""CustomResourceDefinition: adds a kind to the API."""

from __future__ import annotations

from dray.api.kind import API_EXTENSIONS, EXTENSIONS, STATUS, Resource
from dray.api.types import apiextensions

KIND = Resource(
    EXTENSIONS,
    "customresourcedefinitions",
    "CustomResourceDefinition",
    apiextensions.CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    categories=API_EXTENSIONS,
    subresources=STATUS,
)
