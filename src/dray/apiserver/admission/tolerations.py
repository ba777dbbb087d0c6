"""DefaultTolerationSeconds: pods stay on a failed node for five minutes unless they say otherwise."""

from __future__ import annotations

from typing import Any

from dray.api.types.core import Pod
from dray.apiserver.admission import Admission, AdmissionRequest

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SECONDS = 300


class DefaultTolerationSeconds(Admission):
    """Adds tolerations for nodes that are not ready or unreachable."""

    name = "DefaultTolerationSeconds"
    types = (Pod,)
    reads = ()

    def admit(self, request: AdmissionRequest) -> None:
        """Add tolerations of 300 s for not-ready and unreachable nodes to a pod's spec, unless present."""
        if request.subresource or request.tree is None:
            return
        spec = request.tree.get("spec")
        if not isinstance(spec, dict):
            return
        given = spec.get("tolerations") or []
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
            for key in (NOT_READY, UNREACHABLE)
            if not any(_tolerates(toleration, key) for toleration in given)
        ]
        if missing:
            spec["tolerations"] = [*given, *missing]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    """Return whether a toleration covers a NoExecute taint with this key."""
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")
