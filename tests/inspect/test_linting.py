"""What manifests get wrong, with and without devices to look at."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dray.api.gates import FeatureGates
from dray.inspect.findings import Finding
from dray.inspect.linting import lint
from dray.inspect.snapshot import Snapshot
from tests import objects
from tests.inspect.objects import DRIVER, MODEL, class_, device, gpus, node, template

CLUSTER = Snapshot.of(node(), class_(), gpus("n1", [device("a"), device("b"), {**device("c"), "attributes": {}}]))
API = "resource.k8s.io/v1"


def found(text: str, cluster: Snapshot | None = None) -> list[Finding]:
    trees = [(f"file, document {i}", tree) for i, tree in enumerate(yaml.safe_load_all(text), 1)]
    return lint(trees, FeatureGates(), cluster)


def claim_text(request: dict[str, Any], *, constraints: list[dict[str, Any]] | None = None) -> str:
    return yaml.safe_dump(objects.claim("c", {"name": "r", **request}, constraints=constraints or []))


def exactly(selector: str = "", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"exactly": {"deviceClassName": "gpu", "selectors": selectors, **more}}


GOOD = claim_text(exactly(f'device.attributes["{DRIVER}"].?model.orValue("") == "a100"'))


def test_a_good_manifest_has_no_findings() -> None:
    assert found(GOOD) == []
    assert found(GOOD, CLUSTER) == []


# What the API server would refuse


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        (f"apiVersion: {API}\nkind: Nope\n", "apiVersion", "has no kind Nope"),
        ("kind: Pod\n", "", "apiVersion and kind must be given"),
        ("apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: c}\n", "apiVersion", "not served any more"),
        (claim_text(exactly(count=-1)), "spec.devices.requests[0].exactly.count", "greater than zero"),
        (claim_text({"exactly": {}}), "spec.devices.requests[0].exactly.deviceClassName", "Required"),
        (claim_text(exactly("device.attributes[")), "spec.devices.requests[0].exactly.selectors[0].cel.expression", "yntax error"),
        (claim_text({"exactly": {"deviceClassName": "gpu", "coutn": 2}}), "", 'unknown field "spec.devices.requests[0].exactly.coutn"'),
        (claim_text({"exactly": {"deviceClassName": "gpu", "count": "two"}}), "", "count"),
    ],
)  # fmt: skip
def test_what_the_api_server_would_refuse(text: str, field: str, says: str) -> None:
    findings = found(text)
    assert findings
    assert findings[0].level == "error"
    assert findings[0].field == field
    assert says in findings[0].text


def test_kinds_of_others_are_let_alone() -> None:
    assert found("apiVersion: example.com/v1\nkind: Thing\n") == []


def test_an_old_version_is_rewritten() -> None:
    old = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, deviceClassName: gpu, count: 2}]}}
"""
    [finding] = found(old)
    assert finding.level == "warning"
    assert finding.rewritten == {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
    }
    assert found(yaml.safe_dump(finding.rewritten)) == []


# Selectors


def test_an_unguarded_access_is_a_hint_offline_and_a_warning_where_a_device_lacks_it() -> None:
    text = claim_text(exactly(MODEL % ("model", "a100")))
    [hint] = found(text)
    assert hint.level == "hint"
    assert "fails on devices that lack attribute model" in hint.text
    [warning] = found(text, CLUSTER)
    assert warning.level == "warning"
    assert "as do 1 of 3" in warning.text
    assert found(text, Snapshot.of(class_(), gpus("n1", 2))) == []


@pytest.mark.wording
def test_an_attribute_that_no_device_has() -> None:
    [finding] = found(claim_text(exactly(MODEL % ("modle", "a100"))), CLUSTER)
    assert finding.level == "error"
    assert "attribute modle exists on 0 of 3 devices, did you mean model?" in finding.text


def test_a_value_that_no_device_has() -> None:
    [finding] = found(claim_text(exactly(f'device.attributes["{DRIVER}"].?model.orValue("") == "h100"')), CLUSTER)
    assert finding.level == "warning"


def test_selectors_of_classes_and_templates_are_looked_at_too() -> None:
    class_text = f"""
apiVersion: {API}
kind: DeviceClass
metadata: {{name: x}}
spec: {{selectors: [{{cel: {{expression: 'device.attributes["{DRIVER}"].modle == "a"'}}}}]}}
"""
    [finding] = found(class_text, CLUSTER)
    assert finding.field == "spec.selectors[0].cel.expression"
    template_text = f"""
apiVersion: {API}
kind: ResourceClaimTemplate
metadata: {{name: x}}
spec: {{spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gup}}}}]}}}}}}
"""
    [finding] = found(template_text, CLUSTER)
    assert finding.field == "spec.spec.devices.requests[0].exactly.deviceClassName"
    assert "there is no DeviceClass gup, did you mean gpu?" in finding.text


# Alternatives


def alternatives(*subs: dict[str, Any], constraints: list[dict[str, Any]] | None = None) -> str:
    listed = [{"name": f"a{i}", "deviceClassName": "gpu", **sub} for i, sub in enumerate(subs)]
    return claim_text({"firstAvailable": listed}, constraints=constraints)


GUARDED = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].?model.orValue("") == "a100"'}}]}


@pytest.mark.parametrize(
    ("text", "unreachable"),
    [
        (alternatives({"count": 1}, {"count": 2}), ["a1"]),
        (alternatives({"count": 2}, {"count": 1}), []),
        (alternatives({}, GUARDED), ["a1"]),
        (alternatives(GUARDED, {}), []),
        (alternatives({}, {"deviceClassName": "other"}, {}), ["a2"]),
        (alternatives({}, {"tolerations": [{"key": "a", "operator": "Exists"}]}), []),
        (
            alternatives({}, {"count": 2}, constraints=[{"matchAttribute": "example.com/root", "requests": ["r/a0"]}]),
            [],
        ),
        (alternatives({"allocationMode": "All"}, {"allocationMode": "All"}), []),
    ],
)
def test_alternatives_that_are_never_reached(text: str, unreachable: list[str]) -> None:
    named = [f.text.split()[1] for f in found(text) if "is never reached" in f.text]
    assert named == unreachable


# Constraints


def test_constraints_that_nothing_satisfies() -> None:
    contradiction = [{"matchAttribute": "example.com/root"}, {"distinctAttribute": "example.com/root"}]
    assert (
        "must share example.com/root and differ"
        in found(claim_text(exactly(count=2), constraints=contradiction))[0].text
    )
    assert found(claim_text(exactly(count=1), constraints=contradiction)) == []
    unknown = claim_text(exactly(count=2), constraints=[{"matchAttribute": "example.com/rot"}])
    [finding] = found(unknown, CLUSTER)
    assert "example.com/rot exists on 0 of 3 devices, did you mean example.com/root?" in finding.text
    many = claim_text(exactly(count=5), constraints=[{"matchAttribute": "example.com/root"}])
    [finding] = found(many, CLUSTER)
    assert "5 devices must share example.com/root, and at most 2 of one node do" in finding.text


# Pods

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: app, resources: {claims: [{name: d, request: REQUEST}]}}]
  resourceClaims: [{name: d, resourceClaimTemplateName: t}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: app}]
      resourceClaims: [{name: d, resourceClaimTemplateName: t}]
"""


def test_a_container_that_names_a_request_that_is_not_there() -> None:
    cluster = Snapshot.of(class_(), template("t"))
    [finding] = found(POD.replace("REQUEST", "rr"), cluster)
    assert finding.field == "spec.containers[0].resources.claims[0].request"
    assert "claim d has no request rr" in finding.text
    assert found(POD.replace("REQUEST", "r"), cluster) == []
    assert found(POD.replace("REQUEST", "unknown")) == []  # the template is not at hand


def test_a_claim_that_no_container_uses_and_a_template_that_is_missing() -> None:
    unused, missing = found(JOB, Snapshot.of(class_()))
    assert unused.field == "spec.template.spec.resourceClaims[0]"
    assert "Job j: no container uses claim d" in unused.text
    assert "there is no ResourceClaimTemplate default/t" in missing.text


def test_manifests_know_each_other() -> None:
    text = POD.replace("REQUEST", "nope") + "---\n" + GOOD.replace("kind: ResourceClaim", "kind: ResourceClaim")
    text = text.replace("resourceClaimTemplateName: t", "resourceClaimName: c")
    [finding] = found(text)
    assert "claim d has no request nope" in finding.text
