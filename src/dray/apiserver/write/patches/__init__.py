"""How an object changes when a client sends less than the whole of it.

Four content types, one function each, all pure over JSON trees: inputs stay as they are, answers share what did not
change. Left out: what happens to the answer afterwards (defaults, validation, storage).
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
