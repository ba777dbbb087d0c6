"""Paths and methods, and what they mean."""

from __future__ import annotations

import pytest

from dray.api.resources import RESOURCES
from dray.apiserver.wire.paths import Routes, UnknownGroup, UnknownResource, WrongMethod

ROUTES = Routes((resource, version) for resource in RESOURCES for version in resource.versions)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"


def meaning(method: str, path: str) -> tuple[str, str, str, str, str]:
    target = ROUTES.match(method, path)
    return target.verb, target.resource.qualified, target.namespace, target.name, target.subresource


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", CLAIMS, ("list", "resourceclaims.resource.k8s.io", "ns", "", "")),
        ("POST", CLAIMS, ("create", "resourceclaims.resource.k8s.io", "ns", "", "")),
        ("DELETE", CLAIMS, ("deletecollection", "resourceclaims.resource.k8s.io", "ns", "", "")),
        ("GET", f"{CLAIMS}/a", ("get", "resourceclaims.resource.k8s.io", "ns", "a", "")),
        ("HEAD", f"{CLAIMS}/a", ("get", "resourceclaims.resource.k8s.io", "ns", "a", "")),
        ("PUT", f"{CLAIMS}/a/status", ("update", "resourceclaims.resource.k8s.io", "ns", "a", "status")),
        ("PATCH", f"{CLAIMS}/a", ("patch", "resourceclaims.resource.k8s.io", "ns", "a", "")),
        ("GET", "/apis/resource.k8s.io/v1/resourceclaims", ("list", "resourceclaims.resource.k8s.io", "", "", "")),
        ("GET", "/api/v1/namespaces/ns/pods/", ("list", "pods", "ns", "", "")),
        ("GET", "/api/v1/namespaces/ns", ("get", "namespaces", "", "ns", "")),
        ("GET", "/api/v1/namespaces/ns/status", ("get", "namespaces", "", "ns", "status")),
        ("PUT", "/api/v1/namespaces/ns/finalize", ("update", "namespaces", "", "ns", "finalize")),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", ("create", "pods", "ns", "p", "binding")),
        ("GET", "/api/v1/watch/namespaces/ns/pods", ("watch", "pods", "ns", "", "")),
        ("GET", "/api/v1/watch/pods", ("watch", "pods", "", "", "")),
    ],
)
def test_a_path_and_a_method_mean_a_verb_on_a_resource(method: str, path: str, expected: tuple[str, ...]) -> None:
    assert meaning(method, path) == expected


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "/apis/nope.example.com/v1/things", UnknownGroup),
        ("GET", "/nope", UnknownGroup),
        ("GET", "/apis/resource.k8s.io/v9/resourceclaims", UnknownResource),
        ("GET", "/apis/resource.k8s.io/v1/nope", UnknownResource),
        ("GET", "/apis/resource.k8s.io/v1/namespaces/ns/deviceclasses/a", UnknownResource),
        ("GET", "/apis/resource.k8s.io/v1/resourceclaims/a", UnknownResource),
        ("GET", f"{CLAIMS}/a/scale", UnknownResource),
        ("GET", f"{CLAIMS}/a/status/deeper", UnknownResource),
        ("PUT", CLAIMS, WrongMethod),
        ("PATCH", CLAIMS, WrongMethod),
        ("POST", "/apis/resource.k8s.io/v1/resourceclaims", WrongMethod),
        ("POST", f"{CLAIMS}/a", WrongMethod),
        ("GET", "/api/v1/namespaces/ns/pods/p/binding", WrongMethod),
        ("DELETE", f"{CLAIMS}/a/status", WrongMethod),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", WrongMethod),
        ("TRACE", CLAIMS, WrongMethod),
    ],
)
def test_other_paths_and_methods_are_refused(method: str, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        ROUTES.match(method, path)


def test_a_version_that_is_not_served_is_unknown() -> None:
    routes = Routes((resource, resource.versions[0]) for resource in RESOURCES)
    with pytest.raises(UnknownResource):
        routes.match("GET", "/apis/resource.k8s.io/v1beta1/deviceclasses")


def test_what_follows_a_proxy_belongs_to_it() -> None:
    target = ROUTES.match("GET", "/api/v1/namespaces/ns/pods/p/proxy/a/b")
    assert (target.subresource, target.tail) == ("proxy", "a/b")
