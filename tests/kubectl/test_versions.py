"""What kubectl finds with the versions that are served by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Dray
from tests.kubectl.conftest import KUBECTL, Kubectl

GATES = ("--feature-gates", "DRAResourcePoolStatus=true,GenericWorkload=true")
CLAIM = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: old}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com}]}}
"""
TODAY = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: today}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""
REQUEST = """
apiVersion: resource.k8s.io/v1alpha1
kind: ResourcePoolStatusRequest
metadata: {name: r}
spec: {driver: gpu.example.com}
"""


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_kubectl_sees_v1_alone_where_there_is_one(tmp_path: Path, command: str) -> None:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    with Dray(command, "--dir", tmp_path, "--port", "0", "--store", "memory", *GATES):
        kubectl = Kubectl(tmp_path / "kubeconfig", tmp_path, "default")
        shown = set(kubectl("api-versions").split())
        assert "resource.k8s.io/v1" in shown
        assert not {"resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"} & shown
        assert 'no matches for kind "ResourceClaim" in version' in kubectl("apply", "-f", "-", stdin=CLAIM, fails=True)
        kubectl("apply", "-f", "-", stdin=TODAY)
        explained = kubectl("explain", "resourceclaim.spec.devices.requests")
        assert "exactly" in explained
        assert "v1beta1" not in explained
        optional = {"resource.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"}
        if command == "up":
            assert optional <= shown
            kubectl("create", "-f", "-", stdin=REQUEST)
            assert "ResourcePoolStatusRequest" in kubectl("explain", "rpsr")
        else:
            assert not optional & shown
            assert "no matches for kind" in kubectl("create", "-f", "-", stdin=REQUEST, fails=True)
        kubectl("delete", "resourceclaim", "today")
        assert "metrics.k8s.io/v1beta1" in shown  # what `kubectl top` asks
