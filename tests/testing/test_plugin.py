"""The pytest plugin, used as a driver's or a workload's author would: tests inside a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dray.testing import Cluster

pytest_plugins = ("pytester",)

POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]
---
apiVersion: v1
kind: Pod
metadata: {name: training}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: main, image: x, resources: {claims: [{name: gpu}]}}]
"""


def test_each_test_gets_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    (pytester.path / "pod.yaml").write_text(POD)
    pytester.makeconftest("pytest_plugins = ['dray.testing.plugin']")
    pytester.makepyfile(
        """
        import pytest

        POD = open("pod.yaml").read()

        @pytest.mark.dray(nodes=1, devices=2)
        @pytest.mark.parametrize("number", [1, 2])
        def test_a_pod_gets_its_gpu(dray_cluster, number):
            assert not dray_cluster.list("pods")
            dray_cluster.apply(POD)
            pod = dray_cluster.wait("pods", "training", lambda pod: pod["status"].get("phase") == "Running")
            assert pod["spec"]["nodeName"] == "node-0"
            assert len(dray_cluster.list("resourceclaims", "default")) == 1

        def test_without_a_marker_there_are_no_nodes(dray_cluster):
            assert not dray_cluster.list("nodes")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3)


def test_kubectl_reaches_the_cluster() -> None:
    with Cluster(nodes=2) as cluster:
        command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", "get", "nodes", "-o", "name"]
        cluster.wait("nodes", "node-1", lambda node: True)
        assert (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout == "node/node-0\nnode/node-1\n"
        )


def test_only_what_the_cluster_serves_is_applied() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}},
    }
    request = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r"},
        "spec": {"driver": "gpu.example.com"},
    }
    with Cluster(feature_gates="DRAResourcePoolStatus=true") as cluster:
        with pytest.raises(ValueError, match=r"no matches for kind ResourceClaim in version resource\.k8s\.io/v1beta1"):
            cluster.apply(claim)
        cluster.apply(request)
        assert cluster.get("resourcepoolstatusrequests", "r")["spec"]["driver"] == "gpu.example.com"
    with Cluster(runtime_config="resource.k8s.io/v1beta1=true") as cluster:
        cluster.apply(claim)
        assert cluster.get("resourceclaims", "c")["spec"]["devices"]["requests"][0]["exactly"]
        with pytest.raises(ValueError, match="no matches for kind ResourcePoolStatusRequest"):
            cluster.apply(request)


def test_manifests_are_files_text_or_trees_and_replace_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: file}\n")
    with Cluster() as cluster:
        cluster.apply(file)
        assert cluster.get("configmaps", "c")["data"] == {"a": "file"}
        cluster.apply(str(file))
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "tree"}}
        cluster.apply({"apiVersion": "v1", "kind": "List", "items": [tree]})
        assert cluster.get("configmaps", "c")["data"] == {"a": "tree"}
        cluster.delete("configmaps", "c")
        with pytest.raises(TimeoutError, match="it does not exist"):
            cluster.wait("configmaps", "c", lambda _: True, seconds=0.1)


def test_what_cannot_start_says_why() -> None:
    with pytest.raises(Exception, match="unrecognized feature gate: Nope"), Cluster(feature_gates="Nope=true"):
        pass


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Cluster(nodes=1) as cluster:
        directory = cluster.directory
    assert not directory.exists()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_unknown_option_fails_its_own_test_only(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['dray.testing.plugin']")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.dray(nodez=1)
        def test_a_wrong_option(dray_cluster):
            pass

        @pytest.mark.dray(nodes=1)
        def test_a_good_option(dray_cluster):
            assert [node["metadata"]["name"] for node in dray_cluster.list("nodes")] == ["node-0"]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*nodez*")
