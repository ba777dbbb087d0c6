"""What the server says about itself."""

from __future__ import annotations

import pytest

from dray.api.gates import FeatureGates
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def test_the_version_is_that_of_the_api(http: HttpAsker) -> None:
    code, version = await http("GET", "/version")
    assert (code, version["gitVersion"]) == (200, "v1.37.0+dray")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_told_to_everybody(http: HttpAsker, path: str) -> None:
    assert await http.text(path, authorization="") == (200, "ok")
    code, text = await http.text(f"{path}?verbose", authorization="")
    assert (code, text.splitlines()[0]) == (200, "[+]ping ok")
    assert text.endswith(f"{path[1:]} check passed\n")
    assert await http.text(f"{path}/ping", authorization="") == (200, "ok")
    assert (await http.text(f"{path}/nope", authorization=""))[0] == 404


async def test_metrics_count_requests(http: HttpAsker) -> None:
    await http("GET", "/api/v1/namespaces/default")
    code, text = await http.text("/metrics")
    assert code == 200
    assert 'apiserver_request_total{code="200",group="",resource="namespaces",verb="get"} 1.0' in text
    assert 'apiserver_request_duration_seconds_count{group="",resource="namespaces",verb="get"} 1.0' in text


async def test_discovery_has_a_classic_and_an_aggregated_form(http: HttpAsker) -> None:
    assert (await http("GET", "/api"))[1]["versions"] == ["v1"]
    groups = (await http("GET", "/apis"))[1]["groups"]
    assert "resource.k8s.io" in [group["name"] for group in groups]
    resources = (await http("GET", "/apis/resource.k8s.io/v1"))[1]["resources"]
    assert "resourceclaims/status" in [resource["name"] for resource in resources]
    assert (await http("GET", "/apis/resource.k8s.io"))[1]["preferredVersion"]["version"] == "v1"
    async with http.send("GET", "/apis", accept=AGGREGATED) as response:
        assert "as=APIGroupDiscoveryList" in response.headers["Content-Type"]
        assert response.headers["ETag"]
        assert (await response.json(content_type=None))["kind"] == "APIGroupDiscoveryList"


async def test_openapi_is_there_in_all_forms(http: HttpAsker) -> None:
    _, index = await http("GET", "/openapi/v3")
    relative = index["paths"]["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    code, document = await http("GET", relative)
    assert code == 200
    assert "io.k8s.api.resource.v1.ResourceClaim" in document["components"]["schemas"]
    assert (await http("GET", "/openapi/v2"))[1]["swagger"] == "2.0"
    media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with http.send("GET", "/openapi/v2", accept=media) as response:
        # Go's parser of media types does not accept the @ that its clients send.
        assert response.headers["Content-Type"] == media.replace("@", ".")
    assert (await http.text("/openapi/v3/apis/nope/v1"))[0] == 404


async def test_gates_and_runtime_configuration_decide_what_is_served(keys: Keys) -> None:
    gates = FeatureGates.parse("DynamicResourceAllocation=false,GenericWorkload=true")
    async with serving(keys, gates=gates, runtime_config={"scheduling.k8s.io/v1alpha1": False}) as http:
        groups = {group["name"]: group for group in (await http("GET", "/apis"))[1]["groups"]}
        assert "resource.k8s.io" not in groups
        assert [v["version"] for v in groups["scheduling.k8s.io"]["versions"]] == ["v1", "v1beta1", "v1alpha3"]
        assert (await http.text("/apis/resource.k8s.io/v1/deviceclasses"))[0] == 404
        assert (await http.text("/apis/scheduling.k8s.io/v1alpha1/podgroups"))[0] == 404
        assert (await http.text("/apis/scheduling.k8s.io/v1beta1/podgroups"))[0] == 200


async def test_the_root_lists_paths(http: HttpAsker) -> None:
    assert "/apis" in (await http("GET", "/"))[1]["paths"]
