"""CustomResourceDefinition: adds a kind to the API."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, TableColumn
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
    columns=(
        NAME,
        TableColumn(
            "Created At", lambda definition, now: definition.metadata.creationTimestamp or UNKNOWN, type="date"
        ),
    ),
)
