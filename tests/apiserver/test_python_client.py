"""The official Python client, unchanged."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Dray
from tests.objects import pod
from tests.waiting import SECONDS, wait_until

kubernetes = pytest.importorskip("kubernetes")

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "a"},
    "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}},
}


def test_it_lists_watches_creates_and_patches(tmp_path: Path) -> None:
    from kubernetes import client, config, watch

    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory"):
        config.load_kube_config(str(tmp_path / "kubeconfig"))
        core, devices = client.CoreV1Api(), client.ResourceV1Api()
        created = core.create_namespaced_pod("default", pod("p"))
        assert created.spec.restart_policy == "Always"
        events: list[Any] = []

        def follow() -> None:
            for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=60):
                events.append((event["type"], event["object"].metadata.name))
                if len(events) == 4:
                    return

        follower = threading.Thread(target=follow)
        follower.start()
        wait_until(lambda: events)
        core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
        core.create_namespaced_pod("default", pod("q"))
        core.delete_namespaced_pod("q", "default")
        follower.join(SECONDS)
        assert events == [("ADDED", "p"), ("MODIFIED", "p"), ("ADDED", "q"), ("DELETED", "q")]
        assert [found.metadata.name for found in core.list_namespaced_pod("default").items] == ["p"]
        assert core.read_namespaced_pod("p", "default").metadata.labels == {"a": "b"}

        claim = devices.create_namespaced_resource_claim("default", CLAIM)
        assert claim.spec.devices.requests[0].exactly.count == 1
        assert devices.list_resource_claim_for_all_namespaces().items[0].metadata.uid == claim.metadata.uid
        with pytest.raises(client.ApiException) as refused:
            devices.create_namespaced_resource_claim("default", CLAIM)
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        roles = client.RbacAuthorizationV1Api().list_cluster_role(limit=5)
        assert (len(roles.items), bool(roles.metadata._continue)) == (5, True)
