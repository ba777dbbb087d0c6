"""Requests of the scheduler for each pod: those that the design requires, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.benchmarks.requests import RequestCount, _request_name, count_requests
from dray.client.config import load
from tests.cli.components import server

PODS = 60


async def test_the_scheduler_sends_four_requests_for_a_pod_with_a_claim(tmp_path: Path) -> None:
    with server(tmp_path) as kubeconfig:
        counted = await count_requests(load(str(kubeconfig)), PODS)
    assert counted.pods == PODS
    assert counted.surplus == {}


def test_what_is_missing_and_what_is_too_much_is_a_surplus() -> None:
    sent = {"patch resourceclaims": 2, "patch resourceclaims/status": 3, "create pods/binding": 2, "get pods": 1}
    surplus = {"create events": -2, "get pods": 1, "patch resourceclaims/status": 1}
    assert RequestCount(2, 1.0, sent).surplus == surplus


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/api/v1/namespaces/default/pods/p/binding", "create pods/binding"),
        ("PATCH", "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/status", "patch resourceclaims/status"),
        ("POST", "/api/v1/namespaces/default/events", "create events"),
        ("GET", "/api/v1/namespaces/default/pods/p", "get pods"),
        ("GET", "/api/v1/pods", ""),
        ("GET", "/apis/resource.k8s.io/v1/resourceslices", ""),
        ("GET", "/apis/resource.k8s.io/v1/resourceslices/s", "get resourceslices"),
        ("GET", "/version", ""),
        ("GET", "/apis/resource.k8s.io", ""),
    ],
)
def test_requests_are_named_by_verb_and_resource(method: str, path: str, name: str) -> None:
    assert _request_name(method, path) == name
