"""What people do with kubectl, with the real one."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.kubectl.conftest import Kubectl
from tests.waiting import SECONDS, wait_until

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests:
    - name: r0
      exactly: {deviceClassName: example.com}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  containers:
  - name: c
    image: app
    resources: {claims: [{name: gpu}]}
  resourceClaims:
  - name: gpu
    resourceClaimName: gpu
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: one}]}
"""


def test_create_and_get(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=CLAIM) == "resourceclaim.resource.k8s.io/gpu created\n"
    assert kubectl("create", "-f", "-", stdin=POD) == "pod/p created\n"
    assert re.fullmatch(r"NAME +STATE +AGE\ngpu +pending +\d+s\n", kubectl("get", "resourceclaims"))
    wide = kubectl("get", "pods", "-o", "wide").splitlines()
    assert wide[0].split() == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
        "NOMINATED",
        "NODE",
        "READINESS",
        "GATES",
    ]
    assert wide[1].split()[:4] == ["p", "0/1", "Pending", "0"]
    found = yaml.safe_load(kubectl("get", "pod", "p", "-o", "yaml"))
    assert found["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "gpu"}]
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}") == "app"
    again = kubectl("create", "-f", "-", stdin=CLAIM, fails=True)
    assert 'resourceclaims.resource.k8s.io "gpu" already exists' in again


def test_apply_twice_and_with_a_change(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/c created\n"
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/c unchanged\n"
    changed = CONFIG.replace('{a: "1"}', '{b: "2"}')
    assert kubectl("apply", "-f", "-", stdin=changed) == "configmap/c configured\n"
    assert json.loads(kubectl("get", "configmap", "c", "-o", "json"))["data"] == {"b": "2"}


def test_apply_merges_lists_by_their_key(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl(
        "patch",
        "deployment",
        "d",
        "--type=strategic",
        "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"car"}]}}}}',
    )
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("image: one", "image: two"))
    images = kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    assert sorted(images.split()) == ["car", "two"]


def test_apply_on_the_server_side_tells_of_conflicts(kubectl: Kubectl) -> None:
    kubectl.needs(21, "show managed fields")
    assert kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG) == "configmap/c serverside-applied\n"
    assert kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG) == "configmap/c serverside-applied\n"
    other = CONFIG.replace('"1"', '"2"')
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, fails=True)
    assert "conflict" in refused
    assert 'with "kubectl"' in refused
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=other)
    found = json.loads(kubectl("get", "configmap", "c", "-o", "json", "--show-managed-fields"))
    assert found["data"] == {"a": "2"}
    assert {entry["manager"] for entry in found["metadata"]["managedFields"]} >= {"other"}


def test_a_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    assert "created (server dry run)" in kubectl("create", "-f", "-", "--dry-run=server", stdin=CONFIG)
    assert 'configmaps "c" not found' in kubectl("get", "configmap", "c", fails=True)


def test_describe(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CLAIM)
    kubectl("create", "-f", "-", stdin=POD)
    described = kubectl("describe", "pod", "p")
    assert re.search(r"^Status: +Pending$", described, re.MULTILINE)
    assert re.search(r"^Events: +<none>$", described, re.MULTILINE)
    claim = kubectl("describe", "resourceclaim", "gpu")
    assert re.search(r"Device Class Name: +example.com", claim)


def test_label_annotate_and_edit_by_patch(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    assert kubectl("label", "pod", "p", "colour=red") == "pod/p labeled\n"
    assert kubectl("annotate", "pod", "p", "note=hello") == "pod/p annotated\n"
    assert kubectl("label", "pod", "p", "colour-") in ("pod/p unlabeled\n", "pod/p labeled\n")  # new and old kubectl
    assert (
        kubectl("patch", "pod", "p", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/n","value":"1"}]')
        == "pod/p patched\n"
    )
    assert kubectl("patch", "pod", "p", "--type=merge", "-p", '{"metadata":{"labels":{"m":"2"}}}') == "pod/p patched\n"
    found = json.loads(kubectl("get", "pod", "p", "-o", "json"))["metadata"]
    assert found["labels"] == {"app": "x", "n": "1", "m": "2"}
    assert found["annotations"] == {"note": "hello"}
    assert "p " in kubectl("get", "pods", "-l", "m=2")
    immutable = kubectl("patch", "pod", "p", "--type=merge", "-p", '{"spec":{"restartPolicy":"Never"}}', fails=True)
    assert "pod updates may not change fields other than" in immutable


def test_a_status_is_a_part_of_its_own(kubectl: Kubectl) -> None:
    kubectl.needs(24, "patch subresources")
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("patch", "pod", "p", "--subresource=status", "-p", '{"status":{"message":"hello"}}')
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.status.message}") == "hello"


def test_wait_for_a_value_and_for_the_end(kubectl: Kubectl) -> None:
    kubectl.needs(23, "wait for a jsonpath")
    kubectl("create", "-f", "-", stdin=POD)
    value = kubectl.begin("wait", "pod/p", "--for=jsonpath={.metadata.labels.done}=yes", "--timeout=60s")
    wait_until(lambda: watching(kubectl))
    kubectl("label", "pod", "p", "done=yes")
    assert value.communicate(timeout=SECONDS)[0] == "pod/p condition met\n"
    wait_until(lambda: not watching(kubectl))
    gone = kubectl.begin("wait", "pod/p", "--for=delete", "--timeout=60s")
    wait_until(lambda: watching(kubectl))
    kubectl("delete", "pod", "p")
    gone.communicate(timeout=SECONDS)
    assert gone.returncode == 0


def watching(kubectl: Kubectl) -> bool:
    return "apiserver_longrunning_requests 0.0" not in kubectl("get", "--raw", "/metrics").splitlines()


def test_delete_waits_until_it_is_done(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CLAIM)
    assert "deleted" in kubectl("delete", "resourceclaim", "gpu")
    assert kubectl("get", "resourceclaims", "-o", "name") == ""
    kubectl("create", "-f", "-", stdin=CLAIM)
    kubectl("create", "-f", "-", stdin=POD)
    assert "pod" in kubectl("delete", "pods", "--all")
    assert "not found" in kubectl("delete", "pod", "p", fails=True)


def test_get_watch_tells_of_changes(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CLAIM)
    with kubectl.begin("get", "resourceclaims", "-w", "-o", "name") as watch:
        assert watch.stdout is not None
        for change in ((), ("label", "resourceclaim", "gpu", "a=b"), ("delete", "resourceclaim", "gpu")):
            if change:
                kubectl(*change)
            assert watch.stdout.readline() == "resourceclaim.resource.k8s.io/gpu\n"
        watch.terminate()


def test_explain_knows_every_field(kubectl: Kubectl) -> None:
    text = kubectl("explain", "resourceclaim.spec.devices")
    assert "requests" in text
    assert "constraints" in text
    assert "deviceClassName" in kubectl("explain", "resourceclaim.spec", "--recursive")
    assert "does not exist" in kubectl("explain", "resourceclaim.spec.nope", fails=True)


def test_api_resources_lists_what_is_served(kubectl: Kubectl) -> None:
    lines = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
    assert ["resourceclaims", "resource.k8s.io/v1", "true", "ResourceClaim"] in lines
    assert ["pods", "po", "v1", "true", "Pod"] in lines
    assert [
        "resourcepoolstatusrequests",
        "rpsr",
        "resource.k8s.io/v1alpha3",
        "false",
        "ResourcePoolStatusRequest",
    ] in lines
    assert "resource.k8s.io/v1beta1" in kubectl("api-versions").split()


def test_auth_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("auth", "can-i", "create", "pods", "--as", "jane", fails=True).splitlines()[0] == "no"
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "b", "--role=reader", "--user=jane")
    assert kubectl("auth", "can-i", "list", "pods", "--as", "jane") == "yes\n"
    assert "forbidden" in kubectl("get", "secrets", "--as", "jane", fails=True)


def test_scale_and_rollout_history(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert "scaled" in kubectl("scale", "deployment", "d", "--replicas=5")
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "image updated" in kubectl("set", "image", "deployment/d", "c=three")
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.metadata.generation}") == "3"


def test_misspelled_fields_are_found(kubectl: Kubectl) -> None:
    wrong = CLAIM.replace("deviceClassName", "deviceClasName")
    text = kubectl("create", "-f", "-", stdin=wrong, fails=True)
    assert "deviceClasName" in text


def test_exec_says_why_not(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    text = kubectl("exec", "p", "--", "true", fails=True)
    assert "pod p does not have a host assigned" in text


@pytest.mark.parametrize(
    "kind", ["nodes", "events", "resourceslices", "deviceclasses", "resourceclaimtemplates", "rpsr", "all"]
)
def test_every_kind_can_be_listed(kubectl: Kubectl, kind: str) -> None:
    kubectl("get", kind)


def test_generated_names_and_old_versions(kubectl: Kubectl) -> None:
    created = kubectl("create", "-f", "-", "-o", "name", stdin=CLAIM.replace("name: gpu", "generateName: gpu-"))
    assert re.fullmatch(r"resourceclaim.resource.k8s.io/gpu-[a-z0-9]{5}\n", created)
    old = json.loads(kubectl("get", "resourceclaims.v1beta1.resource.k8s.io", "-o", "json"))
    assert old["items"][0]["spec"]["devices"]["requests"][0]["deviceClassName"] == "example.com"


def test_replace_and_diff_of_nothing(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CONFIG)
    assert kubectl("replace", "-f", "-", stdin=CONFIG.replace('"1"', '"9"')) == "configmap/c replaced\n"
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "9"


def test_what_was_applied_by_the_client_is_handed_over_to_the_server(kubectl: Kubectl) -> None:
    kubectl.needs(26, "hand over what it applied")
    tree = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: value%s}"
    kubectl("apply", "-f", "-", stdin=tree % ", legacy: unused")
    kubectl("apply", "--server-side", "-f", "-", stdin=tree % ", legacy: unused")
    kubectl("apply", "--server-side", "-f", "-", stdin=tree % "")
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data}") == '{"key":"value"}'
