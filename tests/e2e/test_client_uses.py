"""What programs do with a cluster, over HTTP with the official Python client: the uses of Kubernetes' own DRA tests.

Every kind of the API with every verb and patch, service accounts and impersonation, quotas, admin access, drivers as pods
of a ReplicaSet; all against `dray up --nodes 3` in a process of its own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dray.api.podclaims import CLAIM_FINALIZER
from dray.sim.hardware import CLASS
from tests.e2e.objects import claim, device, device_class, on_node, pod, request, slice_of, template
from tests.waiting import SECONDS, wait_until

client: Any = pytest.importorskip("kubernetes.client")
config: Any = pytest.importorskip("kubernetes.config")
dynamic: Any = pytest.importorskip("kubernetes.dynamic")
MERGE, STRATEGIC, JSON = (f"application/{kind}+json" for kind in ("merge-patch", "strategic-merge-patch", "json-patch"))
RESOURCE = "resource.k8s.io/v1"


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Any:
    return config.new_client_from_config(str(kubeconfig))


@pytest.fixture(scope="module")
def kinds(api: Any) -> Any:
    return dynamic.DynamicClient(api)


@pytest.fixture
def namespace(api: Any) -> Iterator[str]:
    name = f"uses-{uuid.uuid4().hex[:8]}"
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


def refused(status: int, action: Callable[[], Any]) -> str:
    with pytest.raises(client.ApiException) as caught:
        action()
    assert caught.value.status == status, caught.value.body
    return str(caught.value.body)


# Every kind, every verb

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]}}
KINDS: dict[str, tuple[dict[str, Any], bool]] = {
    "DeviceClass": (device_class("x", 'device.driver == "d"'), False),
    "ResourceSlice": (slice_of("x", "no-such-node", device("d"), driver="d.example.com"), False),
    "ResourceClaim": (claim("x"), True),
    "ResourceClaimTemplate": (template("x"), True),
}


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_created_read_listed_watched_changed_and_deleted(
    kinds: Any, namespace: str, kind: str, version: str
) -> None:
    resource = kinds.resources.get(api_version=f"resource.k8s.io/{version}", kind=kind)
    tree, namespaced = KINDS[kind]
    mark = f"run-{uuid.uuid4().hex[:8]}"
    where = {"namespace": namespace} if namespaced else {}
    name = f"{mark}-a"
    metadata = {"name": name, "labels": {"run": mark, "n": "0"}, **where}
    body = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": tree["spec"]}
    seen: list[tuple[str, str]] = []
    watcher = threading.Thread(target=follow, args=(resource, where, mark, seen))
    watcher.start()
    made = resource.create(body=body, **where)
    assert made.metadata.uid
    wait_until(lambda: seen)
    assert refused(409, lambda: resource.create(body=body, **where))
    assert resource.get(name=name, **where).metadata.uid == made.metadata.uid
    assert [one.metadata.name for one in resource.get(label_selector=f"run={mark}", **where).items] == [name]

    changes = [
        (MERGE, {"metadata": {"labels": {"n": "1"}}}),
        (STRATEGIC, {"metadata": {"labels": {"n": "2"}}}),
        (JSON, [{"op": "replace", "path": "/metadata/labels/n", "value": "3"}]),
    ]
    for number, (content_type, patch) in enumerate(changes, start=1):
        changed = resource.patch(name=name, body=patch, content_type=content_type, **where)
        assert changed.metadata.labels.n == str(number)
    applied = {
        "apiVersion": body["apiVersion"],
        "kind": kind,
        "metadata": {"name": name, "labels": {"n": "4"}, **where},
    }
    resource.server_side_apply(body=applied, name=name, field_manager="tests", force_conflicts=True, **where)
    current = resource.get(name=name, **where).to_dict()
    assert current["metadata"]["labels"] == {"run": mark, "n": "4"}
    current["metadata"]["labels"]["n"] = "5"
    updated = resource.replace(body=current, **where)
    assert updated.metadata.labels.n == "5"
    assert "Conflict" in refused(409, lambda: resource.replace(body=current, **where))

    other = {**body, "metadata": {**metadata, "name": f"{mark}-b"}}
    resource.create(body=other, **where)
    resource.delete(name=name, **where)
    refused(404, lambda: resource.get(name=name, **where))
    resource.delete(label_selector=f"run={mark}", **where)
    assert resource.get(label_selector=f"run={mark}", **where).items == []
    watcher.join(SECONDS)
    assert seen == [
        ("ADDED", "0"),
        *(("MODIFIED", str(number)) for number in range(1, 6)),
        ("ADDED", "0"),
        ("DELETED", "5"),
        ("DELETED", "0"),
    ]


def follow(resource: Any, where: dict[str, str], mark: str, seen: list[tuple[str, str]]) -> None:
    for event in resource.watch(label_selector=f"run={mark}", timeout=60, **where):
        seen.append((event["type"], event["object"].metadata.labels.n))
        if len(seen) == 9:
            return


def test_the_status_of_a_claim_is_read_updated_patched_and_applied_apart(kinds: Any, namespace: str) -> None:
    resource = kinds.resources.get(api_version=RESOURCE, kind="ResourceClaim")
    where = {"namespace": namespace}
    tree = claim("x", namespace=namespace)
    tree["metadata"]["finalizers"] = [CLAIM_FINALIZER]
    resource.create(body={"apiVersion": RESOURCE, "kind": "ResourceClaim", **tree}, **where)
    current = resource.status.get(name="x", **where).to_dict()
    current["status"] = {"allocation": ALLOCATION}
    current["metadata"]["labels"] = {"ignored": "here"}
    updated = resource.status.replace(body=current, **where)
    assert updated.status.allocation.devices.results[0].device == "x"
    consumer = {"apiGroup": "example.com", "resource": "robots", "name": "r2", "uid": "1"}
    patched = resource.status.patch(name="x", body={"status": {"reservedFor": [consumer]}}, content_type=MERGE, **where)
    assert patched.status.reservedFor[0].name == "r2"
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    data = [{"driver": "d.example.com", "pool": "p", "device": "x", "conditions": [condition]}]
    applied = {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": "x", **where},
        "status": {"devices": data},
    }
    resource.status.server_side_apply(body=applied, name="x", field_manager="driver", **where)
    found = resource.get(name="x", **where).to_dict()["status"]
    assert (found["devices"][0]["conditions"][0]["type"], len(found["reservedFor"])) == ("Ready", 1)
    again = resource.status.patch(
        name="x",
        body={"status": {"reservedFor": None, "allocation": None, "devices": None}},
        content_type=MERGE,
        **where,
    )
    assert "status" not in again.to_dict() or not again.to_dict()["status"]
    spec = {"spec": {"devices": {"requests": [request("other")]}}}
    assert "immutable" in refused(422, lambda: resource.patch(name="x", body=spec, content_type=MERGE, **where))


# What the conformance tests of Kubernetes send

CONDITION = {
    "type": "Testing",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "E2E_test_running",
    "message": "",
}
STATUSES: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "ResourceClaim": ("namespaces/{}/resourceclaims", claim("x")["spec"], "allocation", {}),
    "DeviceTaintRule": ("devicetaintrules", {"taint": {"key": "testing", "effect": "None"}}, "conditions", [CONDITION]),
}


def ask(kinds: Any, method: str, path: str, body: Any = None, media: str = "application/json", **query: str) -> Any:
    parameters = {"content_type": media, "query_params": list(query.items())}
    return kinds.request(method, f"/apis/{RESOURCE}/{path}", body=body, **parameters).to_dict()


@pytest.mark.parametrize("media", [STRATEGIC, MERGE, JSON, "application/apply-patch+yaml"])
@pytest.mark.parametrize("kind", STATUSES)
def test_a_body_needs_no_kind_and_the_first_patch_of_a_status_finds_one(
    kinds: Any, namespace: str, kind: str, media: str
) -> None:
    path, spec, field, value = STATUSES[kind]
    path, name = path.format(namespace), namespace
    finalizers = [CLAIM_FINALIZER] if kind == "ResourceClaim" else []
    metadata = {"name": name, "creationTimestamp": None, "finalizers": finalizers}
    body = {"metadata": metadata, "spec": spec, "status": {}}
    made = ask(kinds, "POST", path, body, fieldValidation="Strict")
    assert (made["apiVersion"], made["kind"]) == (RESOURCE, kind)
    named = {key: made["metadata"][key] for key in ("name", "uid", "namespace") if key in made["metadata"]}
    patch: Any = {"apiVersion": RESOURCE, "kind": kind, "metadata": named, "status": {field: value}}
    if media == JSON:
        patch = [{"op": "add", "path": f"/status/{field}", "value": value}]
    query = {"fieldManager": "tests", "force": "true"} if "apply" in media else {}
    patched = ask(kinds, "PATCH", f"{path}/{name}/status", patch, media, fieldValidation="Strict", **query)
    assert field in patched["status"]
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    ask(kinds, "DELETE", f"{path}/{name}", {"kind": "DeleteOptions", "apiVersion": "v1"})
    wait_until(lambda: missing(lambda: ask(kinds, "GET", f"{path}/{name}")))


def test_the_largest_slices_are_kept_whole(api: Any, namespace: str) -> None:
    slices = client.ResourceV1Api(api)
    domain = "x" * (63 - len(".example.com")) + ".example.com"
    attributes = {f"{domain}/{number:0>32}".replace("/0", "/x"): {"string": "v" * 64} for number in range(32)}
    devices = [{"name": f"dev-{number:0>59}", "attributes": attributes} for number in range(128)]
    pool = {"name": "network-attached", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": namespace, "pool": pool, "allNodes": True, "devices": devices}
    slices.create_resource_slice({"metadata": {"generateName": "00-"}, "spec": spec})
    mine = f"spec.driver={namespace},spec.nodeName="
    (found,) = api.sanitize_for_serialization(slices.list_resource_slice(field_selector=mine).items)
    assert found["spec"] == spec
    slices.delete_collection_resource_slice(field_selector=f"spec.driver={namespace}")
    assert slices.list_resource_slice(field_selector=mine).items == []


# Drivers as pods


def test_a_set_of_privileged_pods_with_affinity_becomes_available_on_all_nodes(api: Any, namespace: str) -> None:
    labels = {"app": "driver"}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    names = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{i}" for i in range(3)]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = pod("x")["spec"] | {
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [names]}]}},
            "podAntiAffinity": {required: [apart]},
        },
        "containers": [
            {
                "name": "registrar",
                "image": "pause",
                "securityContext": {"privileged": True},
                "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
            }
        ],
        "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet", "type": "DirectoryOrCreate"}}],
    }
    apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
    body = {
        "metadata": {"name": "driver"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    apps.create_namespaced_replica_set(namespace, body)
    wait_until(lambda: apps.read_namespaced_replica_set_status("driver", namespace).status.available_replicas == 3)
    pods = core.list_namespaced_pod(namespace, label_selector="app=driver").items
    assert sorted(one.spec.node_name for one in pods) == ["node-0", "node-1", "node-2"]
    apps.patch_namespaced_replica_set_scale("driver", namespace, {"spec": {"replicas": 1}})
    wait_until(lambda: len(core.list_namespaced_pod(namespace).items) == 1)
    apps.delete_namespaced_replica_set("driver", namespace, propagation_policy="Background")
    wait_until(lambda: not core.list_namespaced_pod(namespace).items)


# Users


def impersonating(kubeconfig: Path, user: str, **extra: str) -> Any:
    other = config.new_client_from_config(str(kubeconfig))
    other.set_default_header("Impersonate-User", user)
    for name, value in extra.items():
        other.set_default_header(f"Impersonate-Extra-{name}", value)
    return other


def test_a_driver_publishes_slices_as_its_service_account_of_a_node(kubeconfig: Path, api: Any, namespace: str) -> None:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "driver"}})
    role = f"driver-{namespace}"
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]}]
    subject = {"kind": "ServiceAccount", "name": "driver", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    user = f"system:serviceaccount:{namespace}:driver"
    node = {"authentication.kubernetes.io%2Fnode-name": "node-1", "authentication.kubernetes.io%2Fnode-uid": "1"}
    driver = impersonating(kubeconfig, user, **node)
    slices = client.ResourceV1Api(driver)
    body = slice_of(f"{namespace}-1", "node-1", device("d"), driver="d.example.com", pool=namespace)
    assert "cannot create resource" in refused(403, lambda: slices.create_resource_slice(body))

    rbac.create_cluster_role({"metadata": {"name": role}, "rules": rules})
    rbac.create_cluster_role_binding({"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    made = slices.create_resource_slice(body)
    assert made.spec.node_name == "node-1"
    assert len(slices.list_resource_slice(field_selector="spec.driver=d.example.com").items) == 1
    refused(403, lambda: client.CoreV1Api(driver).list_namespaced_secret(namespace))
    review = client.AuthenticationV1Api(driver).create_self_subject_review({})
    assert review.status.user_info.username == user
    assert review.status.user_info.extra["authentication.kubernetes.io/node-name"] == ["node-1"]
    slices.delete_collection_resource_slice(field_selector="spec.driver=d.example.com,spec.nodeName=node-1")
    assert not slices.list_resource_slice(field_selector="spec.driver=d.example.com").items
    for delete in (rbac.delete_cluster_role_binding, rbac.delete_cluster_role):
        delete(role)


@pytest.fixture
def writes_of_a_driver(api: Any, namespace: str) -> Iterator[None]:
    """Lets a service account write about devices of its node; the role names a namespace that it has no use for."""
    rbac = client.RbacAuthorizationV1Api(api)
    role = f"devices-{namespace}"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"], "verbs": ["associated-node:update"]},
    ]
    made = rbac.create_cluster_role({"metadata": {"name": role, "namespace": namespace}, "rules": rules})
    assert made.metadata.namespace is None
    subject = {"kind": "ServiceAccount", "name": "driver", "namespace": namespace}
    rbac.create_cluster_role_binding({"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    yield
    rbac.delete_cluster_role_binding(role)
    rbac.delete_cluster_role(role)


@pytest.mark.usefixtures("writes_of_a_driver")
def test_a_driver_tells_about_devices_of_its_node_and_changes_nothing_else(
    kubeconfig: Path, api: Any, namespace: str
) -> None:
    claims = client.ResourceV1Api(api)
    claims.create_namespaced_resource_claim(namespace, claim("c", namespace=namespace))
    client.CoreV1Api(api).create_namespaced_pod(namespace, pod("p", claims=["c"], namespace=namespace))
    current = wait_until(lambda: allocated(claims, "c", namespace))
    (result,) = current["status"]["allocation"]["devices"]["results"]
    told = {key: result[key] for key in ("driver", "pool", "device")} | {"data": {"temperature": 45}}
    current["status"]["devices"] = [told]
    user = f"system:serviceaccount:{namespace}:driver"

    def written_on(node: str, body: Any = current) -> Any:
        there = client.ResourceV1Api(
            impersonating(kubeconfig, user, **{"authentication.kubernetes.io%2Fnode-name": node})
        )
        return there.replace_namespaced_resource_claim_status("c", namespace, body)

    elsewhere = next(name for name in ("node-0", "node-1") if name != result["pool"])
    refusal = refused(422, lambda: written_on(elsewhere))
    assert "cannot arbitrary-node:update" in refusal
    assert "is forbidden" in refusal
    updated = written_on(result["pool"])
    assert updated.status.devices[0].data == {"temperature": 45}
    taken = api.sanitize_for_serialization(updated)
    taken["status"]["reservedFor"] = []
    assert "resourceclaims/binding" in refused(422, lambda: written_on(result["pool"], taken))


def allocated(claims: Any, name: str, namespace: str) -> Any:
    found = claims.api_client.sanitize_for_serialization(claims.read_namespaced_resource_claim(name, namespace))
    return found if (found.get("status") or {}).get("reservedFor") else None


def test_a_service_account_works_with_a_token_of_its_own(api: Any, namespace: str) -> None:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "reader"}})
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]}]
    rbac.create_namespaced_role(namespace, {"metadata": {"name": "reader"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]}
    rbac.create_namespaced_role_binding(namespace, binding)
    token = core.create_namespaced_service_account_token("reader", namespace, {"spec": {"expirationSeconds": 600}})
    mine = client.Configuration(host=api.configuration.host, api_key={"authorization": f"Bearer {token.status.token}"})
    mine.ssl_ca_cert = api.configuration.ssl_ca_cert
    claims = client.ResourceV1Api(client.ApiClient(mine))
    assert claims.list_namespaced_resource_claim(namespace).items == []
    client.ResourceV1Api(api).create_namespaced_resource_claim(namespace, claim("seen", namespace=namespace))
    assert [one.metadata.name for one in claims.list_namespaced_resource_claim(namespace).items] == ["seen"]
    refused(403, lambda: claims.create_namespaced_resource_claim(namespace, claim("x", namespace=namespace)))
    refused(403, lambda: claims.list_namespaced_resource_claim("default"))


def test_every_namespace_has_an_account_and_the_authority(api: Any, namespace: str) -> None:
    core = client.CoreV1Api(api)
    for name in (namespace, "default", "kube-system"):
        assert core.read_namespaced_service_account("default", name)
        assert "BEGIN CERTIFICATE" in core.read_namespaced_config_map("kube-root-ca.crt", name).data["ca.crt"]
    core.delete_namespaced_service_account("default", namespace)
    wait_until(lambda: not missing(lambda: core.read_namespaced_service_account("default", namespace)))


def missing(read: Callable[[], Any]) -> bool:
    try:
        read()
    except client.ApiException as error:
        if error.status != 404:
            raise
        return True
    return False


# Quota and admin access


def test_quotas_count_devices_and_claims_whoever_asks_at_the_same_time(
    kubeconfig: Path, api: Any, namespace: str
) -> None:
    core = client.CoreV1Api(api)
    hard = {f"{CLASS}.deviceclass.resource.k8s.io/devices": "5", "count/resourceclaims.resource.k8s.io": "4"}
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    wait_until(lambda: (core.read_namespaced_resource_quota("q", namespace).status.used or {}).keys() == hard.keys())
    outcomes: list[int] = []

    def ask(number: int) -> None:
        own = client.ResourceV1Api(config.new_client_from_config(str(kubeconfig)))
        try:
            own.create_namespaced_resource_claim(namespace, claim(f"c{number}", request(count=2), namespace=namespace))
            outcomes.append(201)
        except client.ApiException as error:
            outcomes.append(error.status if "exceeded quota: q" in str(error.body) else 0)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [201, 201, 403, 403, 403, 403]
    used = core.read_namespaced_resource_quota("q", namespace).status.used
    assert used == {f"{CLASS}.deviceclass.resource.k8s.io/devices": "4", "count/resourceclaims.resource.k8s.io": "2"}
    claims = client.ResourceV1Api(api)
    claims.delete_collection_namespaced_resource_claim(namespace)
    wait_until(
        lambda: (
            core.read_namespaced_resource_quota("q", namespace).status.used["count/resourceclaims.resource.k8s.io"]
            == "0"
        )
    )


def test_a_quota_counts_claims_among_much_that_nobody_serves(api: Any, namespace: str) -> None:
    core, claims = client.CoreV1Api(api), client.ResourceV1Api(api)
    counted = {"count/resourceclaims.resource.k8s.io": "1", f"{CLASS}.deviceclass.resource.k8s.io/devices": "1"}
    others = ("persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage", "services.nodeports")
    hard = counted | dict.fromkeys(("resourcequotas", "pods", "requests.example.com/dongle", *others), "9")
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "q"}, "spec": {"hard": hard}})

    def used(count: str) -> bool:
        found = core.read_namespaced_resource_quota("q", namespace).status.used or {}
        return found.items() >= (dict.fromkeys(counted, count) | {"resourcequotas": "1"}).items()

    wait_until(lambda: used("0"))
    claims.create_namespaced_resource_claim(namespace, claim("c", namespace=namespace))
    wait_until(lambda: used("1"))
    claims.delete_namespaced_resource_claim("c", namespace)
    wait_until(lambda: used("0"))


def test_a_generated_claim_over_quota_is_told_and_made_when_there_is_room(api: Any, namespace: str) -> None:
    core, claims = client.CoreV1Api(api), client.ResourceV1Api(api)
    hard = {"count/resourceclaims.resource.k8s.io": "1"}
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    claims.create_namespaced_resource_claim(namespace, claim("first", namespace=namespace))
    claims.create_namespaced_resource_claim_template(namespace, template("t", namespace=namespace))
    core.create_namespaced_pod(namespace, pod("p", templates=["t"], namespace=namespace))

    def told() -> bool:
        events = core.list_namespaced_event(namespace, field_selector="involvedObject.name=p").items
        return any(e.reason == "FailedResourceClaimCreation" and "exceeded quota" in e.message for e in events)

    wait_until(told)
    claims.delete_namespaced_resource_claim("first", namespace)
    wait_until(lambda: core.read_namespaced_pod("p", namespace).status.phase == "Running")


def test_admin_access_needs_a_labelled_namespace_and_reaches_devices_in_use(api: Any, namespace: str) -> None:
    core, claims = client.CoreV1Api(api), client.ResourceV1Api(api)
    admin = claim("admin", request(allocationMode="All", adminAccess=True), namespace=namespace)
    text = refused(422, lambda: claims.create_namespaced_resource_claim(namespace, admin))
    assert "resource.kubernetes.io/admin-access" in text
    core.patch_namespace(namespace, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
    claims.create_namespaced_resource_claim(namespace, admin)
    claims.create_namespaced_resource_claim(namespace, claim("user", request(count=8), namespace=namespace))
    where = on_node("node-2")
    for name, used in (("user", "user"), ("admin-1", "admin"), ("admin-2", "admin")):
        core.create_namespaced_pod(namespace, pod(name, claims=[used], namespace=namespace, **where))
        wait_until(partial(runs, core, name, namespace))
    found = claims.read_namespaced_resource_claim("admin", namespace).status
    assert [result.admin_access for result in found.allocation.devices.results] == [True] * 8
    assert len(found.reserved_for) == 2


def runs(core: Any, name: str, namespace: str) -> bool:
    return bool(core.read_namespaced_pod(name, namespace).status.phase == "Running")


def test_a_policy_holds_once_it_is_bound(api: Any, namespace: str) -> None:
    name, driver = f"policy-{namespace}", f"{namespace}.example.com"
    rule = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"]}
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["resourceslices"]}]},
            "validations": [{"expression": f"object.spec.driver != '{driver}'", "message": "not this driver"}],
        },
    }
    policies, slices = client.AdmissionregistrationV1Api(api), client.ResourceV1Api(api)
    policies.create_validating_admission_policy(body)
    tree = slice_of(name, "no-such-node", device("d"), driver=driver)
    slices.create_resource_slice(tree)
    slices.delete_resource_slice(name)
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    policies.create_validating_admission_policy_binding(bound)
    assert "not this driver" in refused(422, lambda: slices.create_resource_slice(tree))
    policies.delete_validating_admission_policy_binding(name)
    policies.delete_validating_admission_policy(name)


# What test suites look for before they begin


def test_the_server_has_a_service_and_the_system_namespace_can_be_looked_through(api: Any) -> None:
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    service = core.read_namespaced_service("kubernetes", "default")
    port = service.spec.ports[0].port
    assert api.configuration.host == f"https://{service.spec.cluster_ip}:{port}"
    found = core.list_namespaced_replication_controller("kube-system")
    assert (found.kind, found.items) == ("ReplicationControllerList", [])
    assert apps.list_namespaced_replica_set("kube-system").items == []
    assert apps.list_namespaced_daemon_set("kube-system").items == []
    nodes = core.list_node(field_selector="spec.unschedulable=false").items
    assert [c.status for node in nodes for c in node.status.conditions if c.type == "Ready"] == ["True"] * 3
    assert not any(node.spec.taints for node in nodes)


def test_a_replication_controller_keeps_pods(api: Any, namespace: str) -> None:
    core = client.CoreV1Api(api)
    labels = {"app": "web"}
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}},
    }
    made = core.create_namespaced_replication_controller(namespace, body)
    assert made.spec.selector == labels

    def available() -> int:
        return core.read_namespaced_replication_controller("web", namespace).status.available_replicas or 0

    wait_until(lambda: available() == 2)
    core.patch_namespaced_replication_controller_scale("web", namespace, {"spec": {"replicas": 1}})
    wait_until(lambda: len(core.list_namespaced_pod(namespace, label_selector="app=web").items) == 1)
    core.delete_namespaced_replication_controller("web", namespace, propagation_policy="Background")
    wait_until(lambda: not core.list_namespaced_pod(namespace).items)


# A day in the life of a pod


def test_a_pod_runs_ends_and_leaves_its_story_in_events(api: Any, namespace: str) -> None:
    core, claims = client.CoreV1Api(api), client.ResourceV1Api(api)
    claims.create_namespaced_resource_claim_template(namespace, template("t", namespace=namespace))
    ends = {"sim.dray.dev/seconds": "0.2"}
    tree = pod("p", templates=["t"], namespace=namespace, annotations=ends, restartPolicy="Never")
    core.create_namespaced_pod(namespace, tree)
    wait_until(lambda: core.read_namespaced_pod("p", namespace).status.phase == "Succeeded")
    done = core.read_namespaced_pod("p", namespace)
    assert done.status.container_statuses[0].state.terminated.exit_code == 0
    assert done.status.qos_class == "BestEffort"
    wait_until(lambda: not claims.list_namespaced_resource_claim(namespace).items)
    reasons = {e.reason for e in core.list_namespaced_event(namespace).items}
    assert "Scheduled" in reasons


def test_a_namespace_is_emptied_before_it_goes(api: Any) -> None:
    core, claims = client.CoreV1Api(api), client.ResourceV1Api(api)
    name = f"brief-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    claims.create_namespaced_resource_claim_template(name, template("t", namespace=name))
    for number in range(3):
        core.create_namespaced_pod(name, pod(f"p{number}", templates=["t"], namespace=name))
    wait_until(lambda: [p.status.phase for p in core.list_namespaced_pod(name).items] == ["Running"] * 3)
    assert len(claims.list_namespaced_resource_claim(name).items) == 3
    core.delete_namespace(name)
    assert "being terminated" in refused(403, lambda: core.create_namespaced_pod(name, pod("late", namespace=name)))
    wait_until(lambda: missing(lambda: core.read_namespace(name)))
    assert not claims.list_namespaced_resource_claim(name).items
