"""Why an object of any supported kind waits, and what would help."""

from __future__ import annotations

from typing import Any

from dray.inspect.explain import NotThere as NotThere  # raised here
from dray.inspect.explain import explain_claim, explain_group, explain_pod, explain_request, explain_workload
from dray.inspect.explanation import WaitExplanation
from dray.inspect.placement import Allowance
from dray.inspect.snapshot import WORKLOADS, Snapshot

WORKLOAD_KINDS: dict[str, type[Any]] = {one.__name__.lower(): one for one in WORKLOADS}


def explain(
    snapshot: Snapshot, kind: str, name: str, namespace: str = "default", allowance: Allowance | None = None
) -> WaitExplanation:
    """Explain why an object waits, or that it does not. Raises NotThere if the object does not exist.

    `kind` is pod, claim, podgroup, request (for pool status), or a workload kind (deployment, job, …), in lower case.
    """
    match kind:
        case "request":
            return explain_request(snapshot, name)
        case "pod":
            return explain_pod(snapshot, namespace, name, allowance)
        case "claim":
            return explain_claim(snapshot, namespace, name, allowance)
        case "podgroup":
            return explain_group(snapshot, namespace, name, allowance)
        case _:
            return explain_workload(snapshot, WORKLOAD_KINDS[kind], namespace, name, allowance)
