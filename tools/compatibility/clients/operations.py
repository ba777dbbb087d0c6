"""The operations that every client of the compatibility list is asked for, and how a client's script reports them.

A script defines some operations and calls `run`. Each operation is tried once, in this order; an exception is a failure.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import traceback
from collections.abc import Callable
from typing import Any

NAMESPACE = os.environ.get("COMPATIBILITY_NAMESPACE", "default")
ORDER = (
    "create and get a pod",
    "list by label, in pages",
    "watch from a list",
    "merge patch",
    "strategic merge patch",
    "JSON patch",
    "server-side apply",
    "replace with a stale version is a conflict",
    "a missing object is 404",
    "an invalid object is told by field",
    "define a custom resource and create one",
    "a claim is allocated and reserved",
    "update a status",
    "evict a pod",
    "exec in a container",
    "read a log",
    "delete a collection",
    "an informer follows a kind",
    "an operator is told of creation, change and deletion",
)
CLASS = "gpu.example.com"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that simulated nodes run until it is deleted."""
    container = {"name": "main", "image": "example.com/app"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "compatibility"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]} | spec}


def claim(name: str) -> dict[str, Any]:
    """A claim for one device of simulated nodes."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    metadata = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }


def definition(plural: str) -> dict[str, Any]:
    """A CustomResourceDefinition with a schema."""
    kind = plural.removesuffix("s").capitalize()
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.compatibility.example.com"},
        "spec": {
            "group": "compatibility.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.removesuffix("s"), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def run(operations: dict[str, Callable[[], Any]]) -> None:
    """Try the operations in order, and print one JSON line for each."""
    unknown = set(operations) - set(ORDER)
    assert not unknown, unknown
    asyncio.run(_run(operations))


async def _run(operations: dict[str, Callable[[], Any]]) -> None:
    for name in ORDER:
        if name not in operations:
            continue
        try:
            result = operations[name]()
            if inspect.isawaitable(result):
                await asyncio.wait_for(result, 60)
            outcome: dict[str, Any] = {"operation": name, "works": True}
        except Exception as error:
            trace = traceback.format_exc(limit=-3)
            outcome = {"operation": name, "works": False, "why": f"{type(error).__name__}: {error}", "trace": trace}
        print(json.dumps(outcome), flush=True)
