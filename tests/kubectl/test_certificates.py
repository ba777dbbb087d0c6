"""Signing requests: approval changes the approval and nothing else, and who signs does not approve."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.testing import Cluster
from tests.kubectls import kubectl_of

REQUESTS = "certificatesigningrequests"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request(cluster: Cluster, name: str) -> dict[str, Any]:
    spec = {"request": pem(), "signerName": "example.com/signer", "usages": ["client auth"]}
    meta = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
    cluster.apply({**meta, "spec": spec})
    return spec


def test_kubectl_approves_and_denies(cluster: Cluster) -> None:
    kubectl = kubectl_of("recent", cluster.kubeconfig)
    for name, verb, condition in (("good", "approve", "Approved"), ("bad", "deny", "Denied")):
        request(cluster, name)
        kubectl("certificate", verb, name)
        (found,) = cluster.get(REQUESTS, name, "")["status"]["conditions"]
        assert (found["type"], found["status"]) == (condition, "True")


def test_approval_changes_neither_what_is_signed_nor_the_certificate(cluster: Cluster) -> None:
    spec = request(cluster, "sly")
    condition = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    sly = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"signerName": "example.com/other"},
        "status": {"conditions": [condition], "certificate": spec["request"]},
    }
    cluster.patch(REQUESTS, "sly", sly, "", "approval")
    found = cluster.get(REQUESTS, "sly", "")
    assert found["spec"]["signerName"] == "example.com/signer"
    assert "labels" not in found["metadata"]
    assert [one["type"] for one in found["status"]["conditions"]] == ["Approved"]
    assert not found["status"].get("certificate")


def test_who_writes_the_status_does_not_approve_and_nobody_changes_the_request(cluster: Cluster) -> None:
    request(cluster, "plain")
    condition = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    cluster.patch(REQUESTS, "plain", {"status": {"conditions": [condition]}}, "", "status")
    cluster.patch(REQUESTS, "plain", {"spec": {"signerName": "example.com/other"}}, "")
    found = cluster.get(REQUESTS, "plain", "")
    assert not found.get("status", {}).get("conditions")
    assert found["spec"]["signerName"] == "example.com/signer"
