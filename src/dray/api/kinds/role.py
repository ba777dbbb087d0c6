"""Role: permissions in one namespace."""

from __future__ import annotations

from dray.api.kind import RBAC, Resource
from dray.api.types import rbac

KIND = Resource(RBAC, "roles", "Role", rbac.Role)
