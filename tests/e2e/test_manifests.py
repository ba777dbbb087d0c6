"""The manifests of KEP-4381 and KEP-4816, applied with the real kubectl to `dray up --nodes 3`.

Where a manifest of a proposal has a mistake, `*.seed.yaml` is as it stands there and the file beside it is corrected, with
the reason on top. What happens to the mistake is tested too: it is refused or explained, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubectl.conftest import KUBECTL, Kubectl
from tests.waiting import wait_until

MANIFESTS = Path(__file__).parent / "manifests"


@pytest.fixture(autouse=True, scope="module")
def hardware(kubeconfig: Path) -> Iterator[None]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    home = kubeconfig.parent / "home"
    home.mkdir(exist_ok=True)
    kubectl = Kubectl(kubeconfig, home, "default")
    files = ("-f", path("hardware"), "-f", path("kep-4381-class"))
    kubectl("apply", *files)
    yield
    kubectl("delete", *files)


def path(name: str) -> str:
    return str(MANIFESTS / f"{name}.yaml")


def found(kubectl: Kubectl, *arguments: str) -> Any:
    return json.loads(kubectl("get", *arguments, "-o", "json"))


def ready(kubectl: Kubectl, pod: str) -> Any:
    kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
    return found(kubectl, "pod", pod)


def waits(kubectl: Kubectl, pod: str, *texts: str) -> bool:
    """Whether a pod is told to be unschedulable with these words."""
    conditions = found(kubectl, "pod", pod)["status"].get("conditions", [])
    refusals = [one["message"] for one in conditions if (one["type"], one["status"]) == ("PodScheduled", "False")]
    return any(all(text in refusal for text in texts) for refusal in refusals)


# KEP-4381


def test_two_containers_share_the_device_of_a_template(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", path("kep-4381-template"))
    kubectl("apply", "-f", path("kep-4381-pod"))
    pod = ready(kubectl, "device-consumer")
    assert pod["spec"]["nodeName"] == "node-0"  # node 1 has a card with less memory, node 2 none
    assert [bool(one["state"].get("running")) for one in pod["status"]["containerStatuses"]] == [True, True]
    [status] = pod["status"]["resourceClaimStatuses"]
    claim = found(kubectl, "resourceclaim", status["resourceClaimName"])
    allocation = claim["status"]["allocation"]
    [result] = allocation["devices"]["results"]
    assert (result["request"], result["driver"], result["pool"]) == ("gpu-request", "gpu.acme.example.com", "node-0")
    [config] = allocation["devices"]["config"]
    assert config["source"] == "FromClass"
    assert config["opaque"]["parameters"]["initCommand"][0] == "/usr/local/bin/acme-gpu-init"
    assert [one["uid"] for one in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
    table = kubectl("get", "resourceclaims").splitlines()
    assert table[0].split() == ["NAME", "STATE", "AGE"]
    assert table[1].split()[1] == "allocated,reserved"
    wait_until(lambda: "Successfully assigned" in kubectl("describe", "pod", "device-consumer"))
    kubectl("delete", "pod", "device-consumer")
    wait_until(lambda: status["resourceClaimName"] not in kubectl("get", "resourceclaims"))


def test_a_quantity_among_the_attributes_is_explained(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", path("kep-4381-template.seed"))
    kubectl("apply", "-f", path("kep-4381-pod"))
    texts = (
        "0/3 nodes are available: claim ",
        "selector #0 on device gpu.acme.example.com/node-0/small-0: CEL runtime error: no such key: memory",
    )
    wait_until(lambda: waits(kubectl, "device-consumer", *texts))
    kubectl("delete", "pod", "device-consumer")


def test_a_capacity_is_an_object(kubectl: Kubectl) -> None:
    refused = kubectl("apply", "-f", path("kep-4381-slice.seed"), fails=True)
    assert "capacity" in refused
    kubectl("apply", "-f", path("kep-4381-slice"))
    slice_ = found(kubectl, "resourceslice", "worker-1-cards")
    assert slice_["spec"]["devices"][0]["capacity"]["memory"]["value"] == "16Gi"
    table = kubectl("get", "resourceslice", "worker-1-cards").splitlines()
    assert table[0].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    kubectl("delete", "resourceslice", "worker-1-cards")


def test_a_quota_counts_the_most_that_requests_may_get(kubectl: Kubectl) -> None:
    kubectl.needs(27, "leave validation to the server")
    refused = kubectl("apply", "-f", path("kep-4381-quota.seed"), fails=True)
    for text in ("exactCount", '"all"', "largeGPUs", "deviceClassName"):
        assert text in refused
    kubectl("apply", "-f", path("kep-4381-quota"))
    used = found(kubectl, "quota", "devices")["status"]["used"]
    assert used["acme-gpu.deviceclass.resource.k8s.io/devices"] == "37"
    text = (MANIFESTS / "kep-4381-quota.yaml").read_text().split("---")[1]
    again = kubectl("create", "-f", "-", stdin=text.replace("quota-example", "more"), fails=True)
    assert "exceeded quota: devices" in again


# KEP-4816


@pytest.mark.parametrize("form", ["kep-4816-list", "kep-4816-list-v1beta1"])
def test_the_first_alternative_that_keeps_the_constraint_is_taken_with_its_configuration(
    kubectl: Kubectl, form: str
) -> None:
    kubectl("apply", "-f", path(form))
    kubectl("apply", "-f", path("kep-4816-pod"))
    assert ready(kubectl, "device-consumer")["spec"]["nodeName"] == "node-0"
    allocation = found(kubectl, "resourceclaim", "device-consumer-claim")["status"]["allocation"]
    results = [(one["request"], one["device"]) for one in allocation["devices"]["results"]]
    assert results == [("nic", "nic-0"), ("gpu/small-gpu", "small-0"), ("gpu/small-gpu", "small-1")]
    [config] = allocation["devices"]["config"]
    assert (config["source"], config["requests"]) == ("FromClaim", ["gpu/small-gpu"])
    assert config["opaque"]["parameters"]["mode"] == "multipleGPUs"


def test_a_request_without_alternatives_is_named_alone(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", path("kep-4816-exactly"))
    kubectl("apply", "-f", path("kep-4816-pod"))
    ready(kubectl, "device-consumer")
    [result] = found(kubectl, "resourceclaim", "device-consumer-claim")["status"]["allocation"]["devices"]["results"]
    assert (result["request"], result["device"]) == ("gpu", "big-0")


def test_a_better_alternative_is_taken_where_the_constraint_allows_it(kubectl: Kubectl) -> None:
    text = (MANIFESTS / "kep-4816-list.yaml").read_text()
    without = text.replace('    - requests: ["nic", "gpu"]\n      matchAttribute: dra.k8s.io/pcieRoot\n', "")
    assert without != text
    kubectl("apply", "-f", "-", stdin=without.replace("    constraints:\n", ""))
    kubectl("apply", "-f", path("kep-4816-pod"))
    ready(kubectl, "device-consumer")
    allocation = found(kubectl, "resourceclaim", "device-consumer-claim")["status"]["allocation"]
    assert [one["request"] for one in allocation["devices"]["results"]] == ["nic", "gpu/big-gpu"]
    assert "config" not in allocation["devices"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kep-4816-list.seed", "constraints.matchAttribute of type v1beta2.FullyQualifiedName"),
        ("kep-4816-list-v1beta1.seed", "constraints.matchAttribute of type v1beta1.FullyQualifiedName"),
        ("kep-4816-list.half", 'spec.devices.constraints[0].requests[1]: Invalid value: "gpu\\""'),
    ],
)
def test_mistakes_in_the_list_are_refused(kubectl: Kubectl, name: str, text: str) -> None:
    kubectl.needs(27, "leave validation to the server")
    assert text in kubectl("apply", "-f", path(name), fails=True)
    assert found(kubectl, "resourceclaims")["items"] == []
