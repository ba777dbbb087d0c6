"""Secret: passwords, tokens and keys that pods read."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource("", "secrets", "Secret", core.Secret)
