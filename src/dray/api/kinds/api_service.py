"""APIService: which server answers for a group and version. It is only stored."""

from __future__ import annotations

from dray.api.kind import API_EXTENSIONS, REGISTRATION, STATUS, Resource
from dray.api.types import apiregistration

KIND = Resource(
    REGISTRATION,
    "apiservices",
    "APIService",
    apiregistration.APIService,
    namespaced=False,
    categories=API_EXTENSIONS,
    subresources=STATUS,
    inert=True,
)
