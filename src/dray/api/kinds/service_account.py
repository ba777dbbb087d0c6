"""ServiceAccount: the identity of programs in pods."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    core.ServiceAccount,
    short_names=("sa",),
    subresources=("token",),
    columns=(NAME, number("Secrets", lambda account: len(account.secrets)), AGE),
    is_returned_when_deleted=True,
)
