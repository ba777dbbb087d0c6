"""Patches: how a partial body changes an object.

One function for each of the four content types, all pure functions of JSON trees: inputs are not changed, and results
share unchanged parts. Defaults, validation and storage follow elsewhere.
"""

from dray.apiserver.write.patches.apply import Applied, server_side_apply
from dray.apiserver.write.patches.effort import Effort, TakesLong
from dray.apiserver.write.patches.json_patch import json_patch
from dray.apiserver.write.patches.managed_fields import track_update
from dray.apiserver.write.patches.merge_patch import merge_patch
from dray.apiserver.write.patches.rejection import BadPatch, PatchRejected
from dray.apiserver.write.patches.strategic_merge import strategic_merge

__all__ = [
    "Applied",
    "BadPatch",
    "Effort",
    "PatchRejected",
    "TakesLong",
    "json_patch",
    "merge_patch",
    "server_side_apply",
    "strategic_merge",
    "track_update",
]
