"""Questions about a cluster with typed answers: why an object waits, whether pods fit, how full a cluster is, what
if.

Each question is a function of a `Snapshot`, or of the simulated `Cluster` that `cluster_of` creates from objects.
Questions need no server and no event loop, and change nothing. Names are imported on first use, since a command needs
only a few of them. See `docs/questions.md` for examples.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.inspect.explanation import WaitExplanation
    from dray.inspect.placement import Allowance
    from dray.inspect.snapshot import Snapshot
    from dray.questions.allocating import ClaimsAnswer, allocations
    from dray.questions.defragmenting import Defragmentation, defragment, largest_claims
    from dray.questions.explaining import NotThere, explain
    from dray.questions.manifests import objects_in, recorded
    from dray.questions.occupancy import ClaimRow, DeviceRow, NodeRow, PoolRow, usage
    from dray.questions.planning import NodePlan, plan
    from dray.questions.pod_groups import GroupRow
    from dray.questions.room import ClassRoom, room_of
    from dray.questions.selecting import MatchingDevices, matching
    from dray.questions.supposing import (
        AddNodes,
        AddTaint,
        DrainNode,
        WhatIfAnswer,
        cluster_of,
        fits,
        how_many,
        what_if,
    )
    from dray.sim.demands import demand_of

_HOMES = {
    "dray.inspect.explanation": ("WaitExplanation",),
    "dray.inspect.placement": ("Allowance",),
    "dray.inspect.snapshot": ("Snapshot",),
    "dray.questions.allocating": ("ClaimsAnswer", "allocations"),
    "dray.questions.defragmenting": ("Defragmentation", "defragment", "largest_claims"),
    "dray.questions.explaining": ("NotThere", "explain"),
    "dray.questions.manifests": ("objects_in", "recorded"),
    "dray.questions.occupancy": ("ClaimRow", "DeviceRow", "NodeRow", "PoolRow", "usage"),
    "dray.questions.planning": ("NodePlan", "plan"),
    "dray.questions.pod_groups": ("GroupRow",),
    "dray.questions.room": ("ClassRoom", "room_of"),
    "dray.questions.selecting": ("MatchingDevices", "matching"),
    "dray.questions.supposing": (
        "AddNodes",
        "AddTaint",
        "DrainNode",
        "WhatIfAnswer",
        "cluster_of",
        "fits",
        "how_many",
        "what_if",
    ),
    "dray.sim.demands": ("demand_of",),
}

__all__ = [
    "AddNodes",
    "AddTaint",
    "Allowance",
    "ClaimRow",
    "ClaimsAnswer",
    "ClassRoom",
    "Defragmentation",
    "DeviceRow",
    "DrainNode",
    "GroupRow",
    "MatchingDevices",
    "NodePlan",
    "NodeRow",
    "NotThere",
    "PoolRow",
    "Snapshot",
    "WaitExplanation",
    "WhatIfAnswer",
    "allocations",
    "cluster_of",
    "defragment",
    "demand_of",
    "explain",
    "fits",
    "how_many",
    "largest_claims",
    "matching",
    "objects_in",
    "plan",
    "recorded",
    "room_of",
    "usage",
    "what_if",
]

__getattr__ = lazily(__name__, _HOMES)
