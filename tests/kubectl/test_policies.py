"""The policy that confines drivers to their nodes, applied and tried with the real kubectl."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests import objects
from tests.kubectl.conftest import Kubectl

MANIFEST = Path(__file__).parents[2] / "src/dray/examples/policies/driver-node-policy.yaml"
DRIVER = "system:serviceaccount:gpu-driver:gpu-driver"
ACCESS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gpu-driver}
rules:
  - apiGroups: [resource.k8s.io]
    resources: [resourceslices]
    verbs: [get, create, patch, delete, publish-for-any-node]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gpu-driver}
subjects: [{kind: ServiceAccount, name: gpu-driver, namespace: gpu-driver}]
roleRef: {kind: ClusterRole, name: gpu-driver, apiGroup: rbac.authorization.k8s.io}
"""

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")


def slice_text(name: str, node: str) -> str:
    return json.dumps(objects.resource_slice(name, node=node))


def acting(kubectl: Kubectl, directory: Path, node: str) -> tuple[str, str]:
    """The option that makes kubectl act as the driver, on a node or, without one, nowhere."""
    config = yaml.safe_load(kubectl("config", "view", "--raw"))
    user = config["users"][0]["user"]
    user["as"] = DRIVER
    if node:
        user["as-user-extra"] = {"authentication.kubernetes.io/node-name": [node]}
    path = directory / f"driver-{node}"
    path.write_text(yaml.safe_dump(config))
    return "--kubeconfig", str(path)


def test_a_driver_writes_the_slices_of_its_node_only(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=ACCESS)
    kubectl("apply", "-f", str(MANIFEST))
    driver, nowhere = acting(kubectl, tmp_path, "node-1"), acting(kubectl, tmp_path, "")
    kubectl("create", "-f", "-", stdin=slice_text("theirs", "node-2"))

    kubectl("create", *driver, "-f", "-", stdin=slice_text("own", "node-1"))
    kubectl("label", *driver, "resourceslice", "own", "a=b")
    why = "the driver on node node-1 may write only the slices of that node"
    for attempt in (
        kubectl("create", *driver, "-f", "-", stdin=slice_text("new", "node-2"), fails=True),
        kubectl("label", *driver, "resourceslice", "theirs", "a=b", fails=True),
        kubectl("delete", *driver, "resourceslice", "theirs", fails=True),
    ):
        assert f"'gpu-driver-node' with binding 'gpu-driver-node' denied request: {why}" in attempt
        assert "Error from server (Forbidden)" in attempt
    homeless = kubectl("delete", *nowhere, "resourceslice", "own", fails=True)
    assert "denied request: the token of this driver names no node" in homeless

    kubectl("delete", *driver, "resourceslice", "own")
    kubectl("delete", "resourceslice", "theirs")
    kubectl("delete", "-f", str(MANIFEST))
    kubectl("delete", "-f", "-", stdin=ACCESS)
