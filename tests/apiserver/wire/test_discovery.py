"""Discovery documents: what is served is listed, what is hidden is not, in every form."""

import json

import pytest

from dray.api.resources import BY_NAME, RESOURCES
from dray.apiserver.wire.discovery import V2BETA1, Discovery, etag

EVERYTHING = {resource: resource.versions for resource in RESOURCES}


@pytest.fixture(scope="module")
def discovery():
    return Discovery(EVERYTHING)


def test_core_and_groups_are_listed_with_the_preferred_version(discovery):
    assert json.loads(discovery.core_versions("10.0.0.1:6443")) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
    }
    groups = {g["name"]: g for g in json.loads(discovery.group_list)["groups"]}
    assert "" not in groups
    dra = groups["resource.k8s.io"]
    assert dra["preferredVersion"] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}
    assert [v["version"] for v in dra["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha1"]
    assert json.loads(discovery.group("resource.k8s.io")) == {"kind": "APIGroup", "apiVersion": "v1", **dra}


def test_a_resource_and_its_subresources_are_listed(discovery):
    listed = json.loads(discovery.resource_list("", "v1"))
    assert listed["groupVersion"] == "v1"
    rows = {r["name"]: r for r in listed["resources"]}
    pods = rows["pods"]
    assert pods["singularName"] == "pod"
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert pods["namespaced"] is True
    assert "watch" in pods["verbs"]
    assert rows["pods/status"]["kind"] == "Pod"
    assert rows["pods/eviction"] | {"verbs": 0} == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "kind": "Eviction",
        "group": "policy",
        "version": "v1",
        "verbs": 0,
    }
    assert rows["nodes"]["namespaced"] is False
    assert "storageVersionHash" not in rows["bindings"]


def test_what_is_not_served_is_not_there(discovery):
    assert discovery.group("nope.example.com") is None
    assert discovery.group("") is None
    assert discovery.resource_list("resource.k8s.io", "v7") is None
    claims = BY_NAME["resource.k8s.io", "resourceclaims"]
    partial = Discovery({claims: ("v1",), BY_NAME["", "pods"]: ("v1",), BY_NAME["apps", "deployments"]: ()})
    assert partial.resource_list("resource.k8s.io", "v1beta1") is None
    assert partial.group("apps") is None
    names = [r["name"] for r in json.loads(partial.resource_list("resource.k8s.io", "v1"))["resources"]]
    assert names == ["resourceclaims", "resourceclaims/status"]


@pytest.mark.parametrize("version", ["v2", V2BETA1])
def test_the_aggregated_form_holds_the_same(discovery, version):
    document = json.loads(discovery.aggregated(core=False, version=version))
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    found = set()
    for group in document["items"]:
        for entry in group["versions"]:
            assert entry["freshness"] == "Current"
            name, v = group["metadata"]["name"], entry["version"]
            for row in entry["resources"]:
                assert row["responseKind"]["version"] == v
                found.add((name, v, row["resource"]))
                found |= {(name, v, f"{row['resource']}/{s['subresource']}") for s in row.get("subresources", ())}
    classic = {
        (group, v, row["name"])
        for group, versions in discovery.groups.items()
        for v in versions
        for row in json.loads(discovery.resource_list(group, v))["resources"]
        if group
    }
    assert found == classic


def test_the_aggregated_core_is_apart(discovery):
    (core,) = json.loads(discovery.aggregated(core=True))["items"]
    assert "name" not in core["metadata"]
    pods = next(r for r in core["versions"][0]["resources"] if r["resource"] == "pods")
    assert pods["scope"] == "Namespaced"
    assert {"group": "policy", "version": "v1", "kind": "Eviction"} in [s["responseKind"] for s in pods["subresources"]]


def test_the_entity_tag_follows_the_content():
    assert etag(b"a") == etag(b"a") != etag(b"b")
    assert etag(b"a").startswith('"')
