"""The life of an object of each small kind, over HTTP: create, list everywhere, watch, patch, update, delete as a set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.resources import BY_NAME
from dray.api.wire import Tree
from tests.apiserver.asking import HttpAsker, created
from tests.waiting import within

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
LABELS = {"test": "lifecycle"}
SELECTED = "labelSelector=test%3Dlifecycle"

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
WORKLOAD = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
WEBHOOK = {
    "name": "w.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["x"], "operations": ["CREATE"]}],
}
POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["x"], "operations": ["CREATE"]}
        ]
    },
    "validations": [{"expression": "true"}],
}
BODIES: dict[tuple[str, str], Tree] = {
    ("", "configmaps"): {"data": {"a": "b"}},
    ("", "secrets"): {"data": {"a": "Yg=="}},
    ("", "serviceaccounts"): {},
    ("", "podtemplates"): {"template": TEMPLATE},
    ("", "limitranges"): {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    ("", "resourcequotas"): {"spec": {"hard": {"pods": "5"}}},
    ("", "endpoints"): {"subsets": [{"addresses": [{"ip": "10.0.0.24"}], "ports": [{"port": 80}]}]},
    ("", "services"): {"spec": {"ports": [{"port": 80}]}},
    ("", "replicationcontrollers"): {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    ("", "persistentvolumes"): {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp"},
            "storageClassName": "slow",
        }
    },
    ("", "persistentvolumeclaims"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    ("apps", "controllerrevisions"): {"revision": 1, "data": {"a": "b"}},
    ("apps", "deployments"): WORKLOAD,
    ("apps", "replicasets"): WORKLOAD,
    ("apps", "daemonsets"): WORKLOAD,
    ("apps", "statefulsets"): {"spec": {**WORKLOAD["spec"], "serviceName": "s"}},
    ("batch", "jobs"): {"spec": JOB},
    ("batch", "cronjobs"): {"spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": JOB}}},
    ("coordination.k8s.io", "leases"): {"spec": {"holderIdentity": "h", "leaseDurationSeconds": 30}},
    ("discovery.k8s.io", "endpointslices"): {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"name": "p", "protocol": "TCP", "port": 80}],
    },
    ("policy", "poddisruptionbudgets"): {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    ("node.k8s.io", "runtimeclasses"): {"handler": "h"},
    ("scheduling.k8s.io", "priorityclasses"): {"value": 5},
    ("storage.k8s.io", "storageclasses"): {"provisioner": "p.example.com"},
    ("storage.k8s.io", "csidrivers"): {"spec": {"attachRequired": False}},
    ("storage.k8s.io", "csinodes"): {"spec": {"drivers": []}},
    ("storage.k8s.io", "csistoragecapacities"): {"storageClassName": "slow", "capacity": "1Gi"},
    ("storage.k8s.io", "volumeattachments"): {
        "spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    },
    ("networking.k8s.io", "networkpolicies"): {"spec": {"podSelector": {}}},
    ("networking.k8s.io", "ingresses"): {
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    },
    ("networking.k8s.io", "ingressclasses"): {"spec": {"controller": "example.com/c"}},
    ("rbac.authorization.k8s.io", "roles"): {"rules": []},
    ("rbac.authorization.k8s.io", "clusterroles"): {"rules": []},
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): {"webhooks": [WEBHOOK]},
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): {"webhooks": [WEBHOOK]},
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): {"spec": POLICY},
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): {
        "spec": {"policyName": "p", "validationActions": ["Deny"]}
    },
    ("autoscaling", "horizontalpodautoscalers"): {
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    },
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): {
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 9}
    },
}
STATUSES: dict[str, Tree] = {
    "deployments": {"readyReplicas": 0, "replicas": 1},
    "replicasets": {"replicas": 1},
    "daemonsets": {"numberReady": 1},
    "statefulsets": {"replicas": 1},
    "jobs": {"active": 1},
    "cronjobs": {"lastScheduleTime": "2024-01-01T00:00:00Z"},
    "poddisruptionbudgets": {"expectedPods": 3},
    "resourcequotas": {"hard": {"pods": "7"}},
    "replicationcontrollers": {"replicas": 1},
    "services": {"loadBalancer": {"ingress": [{"ip": "10.9.8.7"}]}},
    "persistentvolumes": {"message": "m"},
    "persistentvolumeclaims": {"phase": "Lost"},
    "volumeattachments": {"attached": True},
    "ingresses": {"loadBalancer": {"ingress": [{"ip": "10.9.8.7"}]}},
}


@asynccontextmanager
async def watching(http: HttpAsker, path: str) -> AsyncIterator[asyncio.Queue[tuple[str, Tree]]]:
    """The events of a watch."""
    events: asyncio.Queue[tuple[str, Tree]] = asyncio.Queue()
    async with http.send("GET", path) as response:
        assert response.status == 200

        async def read() -> None:
            async for line in response.content:
                event = json.loads(line)
                events.put_nowait((event["type"], event["object"]))

        task = asyncio.create_task(read())
        yield events
        task.cancel()


async def seen(events: asyncio.Queue[tuple[str, Tree]], type_: str) -> Tree:
    """The next event, which has this type."""
    found, obj = await within(events.get())
    assert found == type_, obj
    return obj


@pytest.mark.parametrize(("group", "plural"), BODIES)
async def test_the_life_of_an_object(http: HttpAsker, group: str, plural: str) -> None:
    resource = BY_NAME[group, plural]
    root = f"/apis/{group}/{resource.versions[0]}" if group else "/api/v1"
    path = f"{root}/namespaces/default/{plural}" if resource.namespaced else f"{root}/{plural}"
    everywhere = f"{root}/{plural}"
    body: dict[str, Any] = {**BODIES[group, plural], "metadata": {"name": "one", "labels": LABELS}}
    _, before = await http("GET", f"{everywhere}?{SELECTED}")
    version = before["metadata"]["resourceVersion"]
    async with watching(http, f"{everywhere}?{SELECTED}&watch=true&resourceVersion={version}") as events:
        made = await created(http, path, body)
        assert (await seen(events, "ADDED"))["metadata"]["uid"] == made["metadata"]["uid"]
        assert (await http("GET", f"{path}/one"))[1]["metadata"]["uid"] == made["metadata"]["uid"]
        _, listed = await http("GET", f"{everywhere}?{SELECTED}")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["one"]

        for media, key in ((MERGE, "merged"), (STRATEGIC, "strategic")):
            patch = {"metadata": {"annotations": {key: "true"}}}
            code, patched = await http("PATCH", f"{path}/one", patch, content_type=media)
            assert (code, patched["metadata"]["annotations"][key]) == (200, "true")
            await seen(events, "MODIFIED")
        patched["metadata"]["annotations"]["updated"] = "true"
        code, updated = await http("PUT", f"{path}/one", patched)
        assert (code, updated["metadata"]["annotations"]["updated"]) == (200, "true")
        assert (await seen(events, "MODIFIED"))["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"]
        assert (await http("PUT", f"{path}/one", patched))[0] == 409

        if plural in STATUSES:
            patch = {"status": STATUSES[plural]}
            code, patched = await http("PATCH", f"{path}/one/status", patch, content_type=MERGE)
            assert code == 200, patched
            for name, value in STATUSES[plural].items():
                assert patched["status"].get(name, 0) == value
            await seen(events, "MODIFIED")
            assert (await http("GET", f"{path}/one/status"))[1]["status"] == patched["status"]
            assert (await http("PUT", f"{path}/one/status", patched))[0] == 200

        code, _ = await http("DELETE", f"{path}?{SELECTED}", {"propagationPolicy": "Background"})
        assert code == 200
        while (event := await within(events.get()))[0] != "DELETED":
            assert event[1]["metadata"].get("deletionTimestamp")
            await http("PATCH", f"{path}/one", {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert (await http("GET", f"{everywhere}?{SELECTED}"))[1]["items"] == []
