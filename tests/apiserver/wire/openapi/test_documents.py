"""OpenAPI documents: complete, consistent, and with what kubectl looks for."""

import json

import pytest

from dray.api import schema
from dray.api.resources import BY_NAME, RESOURCES
from dray.apiserver.wire.openapi import OpenApi
from dray.apiserver.wire.openapi.document_protobuf import document_class

EVERYTHING = {resource: resource.versions for resource in RESOURCES}
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
GVK = "x-kubernetes-group-version-kind"


@pytest.fixture(scope="module")
def openapi():
    return OpenApi(EVERYTHING)


@pytest.fixture(scope="module")
def documents(openapi):
    found = {path: json.loads(openapi.v3(path)) for path in json.loads(openapi.index)["paths"]}
    return {**found, "v2": json.loads(openapi.v2)}


def definitions(document):
    return document.get("definitions") or document["components"]["schemas"]


def references(tree):
    if isinstance(tree, dict):
        if isinstance(tree.get("$ref"), str):  # schemas of custom resources have a member of that name
            yield tree["$ref"].rpartition("/")[2]
        for value in tree.values():
            yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def test_every_reference_leads_somewhere(documents):
    for path, document in documents.items():
        missing = set(references(document)) - set(definitions(document))
        assert not missing, path


def test_every_served_kind_is_defined_with_its_fields(documents):
    for resource, versions in EVERYTHING.items():
        for version in versions:
            path = f"apis/{resource.group}/{version}" if resource.group else f"api/{version}"
            for document in (documents[path], documents["v2"]):
                found = definitions(document)[resource.message(version)]
                assert found[GVK] == [{"group": resource.group, "version": version, "kind": resource.kind}]
                assert set(found["properties"]) == set(schema.message(resource.message(version)).fields)
                if "list" in resource.verbs:
                    assert definitions(document)[resource.message(version) + "List"]["required"] == ["items"]


def test_every_kind_that_can_be_patched_takes_field_validation_and_dry_run(documents):
    """How kubectl decides whether the server checks fields."""
    for name, document in documents.items():
        found = {}
        for item in document["paths"].values():
            if "patch" in item:
                kind = item["patch"][GVK]
                found[kind["group"], kind["version"], kind["kind"]] = {p["name"] for p in item["patch"]["parameters"]}
        for resource, versions in EVERYTHING.items():
            for version in versions:
                here = name in (
                    "v2",
                    f"apis/{resource.group}/{version}",
                    f"api/{version}" if not resource.group else "",
                )
                if here and "patch" in resource.verbs:
                    assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= found[
                        resource.group, version, resource.kind
                    ]


def test_lists_tell_how_they_merge(documents):
    for name in ("api/v1", "v2"):
        container = definitions(documents[name])["io.k8s.api.core.v1.Container"]["properties"]["ports"]
        assert container["x-kubernetes-list-type"] == "map"
        assert container["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
        assert container["x-kubernetes-patch-strategy"] == "merge"
        assert container["x-kubernetes-patch-merge-key"] == "containerPort"
        selector = definitions(documents[name])["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]
        assert selector["x-kubernetes-map-type"] == "atomic"


def test_values_of_two_types_are_written_as_the_version_allows(documents):
    quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert definitions(documents["api/v1"])[quantity] == {"oneOf": [{"type": "string"}, {"type": "number"}]}
    assert definitions(documents["v2"])[quantity] == {"type": "string"}


def test_operations_have_names_that_are_unique_and_speak(documents):
    for document in documents.values():
        names = [
            operation["operationId"]
            for item in document["paths"].values()
            for method, operation in item.items()
            if method != "parameters"
        ]
        assert len(names) == len(set(names))
    v2 = documents["v2"]["paths"]
    pods = "/api/v1/namespaces/{namespace}/pods"
    assert v2[pods]["get"]["operationId"] == "listCoreV1NamespacedPod"
    assert v2[pods]["delete"]["operationId"] == "deleteCoreV1CollectionNamespacedPod"
    assert v2[f"{pods}/{{name}}"]["put"]["operationId"] == "replaceCoreV1NamespacedPod"
    assert v2["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"
    assert v2[f"{pods}/{{name}}/eviction"]["post"][GVK] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert f"{pods}/{{name}}/exec" not in v2


def test_answers_are_in_protobuf_where_fields_have_numbers(documents):
    protobuf = "application/vnd.kubernetes.protobuf"
    for version, known in (("v1beta1", True), ("v1alpha1", False)):
        path = f"/apis/scheduling.k8s.io/{version}/namespaces/{{namespace}}/podgroups"
        v3 = documents[f"apis/scheduling.k8s.io/{version}"]["paths"][path]["get"]
        assert (protobuf in documents["v2"]["paths"][path]["get"]["produces"]) is known
        assert (protobuf in v3["responses"]["200"]["content"]) is known


def test_device_kinds_are_described_and_others_are_not(documents):
    found = definitions(documents["apis/resource.k8s.io/v1"])
    claim = found["io.k8s.api.resource.v1.ResourceClaim"]
    assert claim["description"].startswith("A claim to devices")
    assert claim["properties"]["spec"]["description"]
    assert all("description" in field for field in found[f"{META}ObjectMeta"]["properties"].values())
    assert "description" not in found[f"{META}ListMeta"]


def test_only_what_is_served_is_documented():
    openapi = OpenApi({BY_NAME["resource.k8s.io", "resourceclaims"]: ("v1",), BY_NAME["", "pods"]: ()})
    assert list(json.loads(openapi.index)["paths"]) == ["apis/resource.k8s.io/v1"]
    assert openapi.v3("apis/resource.k8s.io/v1beta1") is None
    assert openapi.v3("nonsense") is None
    assert "io.k8s.api.resource.v1.ResourceSlice" not in json.loads(openapi.v2)["definitions"]


def test_the_address_changes_with_what_is_served(openapi):
    entry = json.loads(openapi.index)["paths"]["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    assert entry.startswith("/openapi/v3/apis/resource.k8s.io/v1?hash=")
    fewer = OpenApi({r: v for r, v in EVERYTHING.items() if r.plural != "devicetaintrules"})
    assert json.loads(fewer.index)["paths"]["apis/resource.k8s.io/v1"]["serverRelativeURL"] != entry


def test_the_protobuf_form_holds_the_same_document(openapi, documents):
    document = document_class()()
    document.ParseFromString(openapi.v2_protobuf)
    assert document.swagger == "2.0"
    want = documents["v2"]
    assert [entry.name for entry in document.definitions.additional_properties] == list(want["definitions"])
    assert [entry.name for entry in document.paths.path] == list(want["paths"])
    pod = next(e.value for e in document.definitions.additional_properties if e.name == "io.k8s.api.core.v1.Pod")
    assert list(pod.type.value) == ["object"]
    spec = next(p.value for p in pod.properties.additional_properties if p.name == "spec")
    assert getattr(spec, "_ref") == "#/definitions/io.k8s.api.core.v1.PodSpec"  # noqa: B009  # not a private attribute
    extensions = {e.name: json.loads(e.value.yaml) for e in pod.vendor_extension}
    assert extensions == {GVK: [{"group": "", "version": "v1", "kind": "Pod"}]}
    item = next(e.value for e in document.paths.path if e.name == "/api/v1/namespaces/{namespace}/pods/{name}")
    query = [p.parameter.non_body_parameter.query_parameter_sub_schema.name for p in item.patch.parameters]
    assert "fieldValidation" in query
    assert item.patch.parameters[0].parameter.body_parameter.name == "body"
    assert {e.name for e in item.patch.vendor_extension} == {GVK, "x-kubernetes-action"}
