"""What it costs to read and validate an object: microseconds of processor time for a pod, a claim, a slice and a status.

Each figure is the least of many rounds, so that a busy machine disturbs little. Two versions are compared by running them
in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api import decode, defaults, strategy, validation
from dray.api.gates import FeatureGates
from dray.api.resources import BY_KIND, Resource
from dray.api.types.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaimStatus,
)
from dray.api.types.resource import ResourceClaimConsumerReference as Reservation
from dray.api.wire import Tree, Wire

ROUNDS = 25
OBJECTS = 200  # of each round
GATES = FeatureGates()
DRA = "resource.k8s.io"

POD: Tree = {
    "metadata": {"name": "p", "namespace": "default", "labels": {"app": "a"}},
    "spec": {
        "containers": [
            {
                "name": name,
                "image": "registry.example.com/image:1",
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpu"}]},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            }
            for name in ("a", "b")
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
CLAIM: Tree = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}],
            "constraints": [{"matchAttribute": "example.com/root"}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}],
        }
    },
}


def main() -> None:
    for kind, tree in ((("", "Pod"), POD), ((DRA, "ResourceClaim"), CLAIM), ((DRA, "ResourceSlice"), _slice())):
        resource = BY_KIND[kind]
        data = msgspec.json.encode(tree)
        object_, context = _read(resource, data), validation.Context(GATES)
        assert not validation.validate_create(resource, object_, context)
        print(f"{resource.kind + ': read':<32} {_least(partial(_read, resource, data)):7.1f} µs")
        judged = _least(partial(validation.validate_create, resource, object_, context))
        print(f"{resource.kind + ': validate':<32} {judged:7.1f} µs")
    print(f"{'ResourceClaim: validate status':<32} {_status():7.1f} µs")


def _slice() -> Tree:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": "a"}, "index": {"int": number}, "ecc": {"bool": True}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(64)
    ]
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "node", "devices": devices},
    }


def _read(resource: Resource, data: bytes) -> Wire:
    tree = msgspec.json.decode(data)
    decode.check(resource, resource.stored, tree)
    defaults.apply_defaults(resource, tree, GATES)
    strategy.prepare_create(resource, tree, GATES)
    return decode.to_object(resource, tree)


def _status() -> float:
    claims = BY_KIND[DRA, "ResourceClaim"]
    old: Any = _read(claims, msgspec.json.encode(CLAIM))
    results = tuple(
        DeviceRequestAllocationResult(request="gpu", driver="gpu.example.com", pool="node", device=f"gpu-{i}")
        for i in range(2)
    )
    status = ResourceClaimStatus(
        allocation=AllocationResult(devices=DeviceAllocationResult(results=results)),
        reservedFor=(Reservation(resource="pods", name="p", uid="u"),),
    )
    new, context = replace(old, status=status), validation.Context(GATES)
    assert not validation.validate_update(claims, new, old, "status", context)
    return _least(lambda: validation.validate_update(claims, new, old, "status", context))


def _least(step: Callable[[], Any]) -> float:
    """The least time of a round, for each call of a step."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(OBJECTS):
            step()
        times.append(time.process_time() - started)
    return min(times) / OBJECTS * 1e6
