"""Pods stay five minutes on a node that has gone quiet, unless they say for how long themselves."""

from __future__ import annotations

from typing import Any

from dray.api.types.core import Pod
from dray.apiserver.admission import Admission, AdmissionRequest

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SECONDS = 300


class DefaultTolerationSeconds(Admission):
    """Adds tolerations for nodes that are not ready or not reachable."""

    name = "DefaultTolerationSeconds"
    types = (Pod,)
    reads = ()

    def admit(self, request: AdmissionRequest) -> None:
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
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")
