"""Validating webhook of the example driver: rejects wrong parameters when they are written, not when a pod starts.

The webhook serves HTTPS with its own certificate authority, created at each start, and writes the configuration that
an administrator applies; the driver itself may not change the API server's admission.
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.api.wire import Tree
from dray.driver import PrepareError
from dray.driver.example.options import parse

NAME = "gpu.example.com"
HOST = "127.0.0.1"
_LIFETIME = timedelta(days=365)


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[str]:
    """Serve the webhook on this machine (port 0: any free port). Yields the webhook configuration to apply, as YAML."""
    authority, certificate = _certificates()
    app = web.Application()
    app.router.add_post("/validate", _validate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port, ssl_context=_context(certificate)).start()
        yield yaml.safe_dump(configuration(f"https://{HOST}:{runner.addresses[0][1]}/validate", authority))
    finally:
        await runner.cleanup()


async def _validate(request: web.Request) -> web.Response:
    review = await request.json()
    asked = review["request"]
    response: Tree = {"uid": asked["uid"], "allowed": True}
    problem = next(problems(asked["object"]), None)
    if problem:
        response |= {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": problem}}
    return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


def problems(obj: Tree) -> Iterator[str]:
    """Yield the errors in this driver's parameters in a claim, a template or a class.

    Yields nothing for parameters of other drivers. `obj` is a ResourceClaim, ResourceClaimTemplate or DeviceClass.
    """
    is_class = obj["kind"] == "DeviceClass"
    spec = obj["spec"]["spec"] if obj["kind"] == "ResourceClaimTemplate" else obj["spec"]
    configs = spec.get("config") if is_class else (spec.get("devices") or {}).get("config")
    for index, config in enumerate(configs or ()):
        opaque = config.get("opaque") or {}
        if opaque.get("driver") == NAME:
            try:
                parse(opaque.get("parameters"), from_class=is_class)
            except PrepareError as error:
                yield f"config[{index}]: {error}"


def configuration(url: str, authority: bytes) -> Tree:
    """Return the ValidatingWebhookConfiguration that makes the API server call this webhook.

    `url` is where the webhook is served, `authority` the certificate of its CA in PEM.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"parameters.{NAME}",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "rules": [
                    {
                        "apiGroups": ["resource.k8s.io"],
                        "apiVersions": ["v1"],  # requests in older versions match too and are converted
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["resourceclaims", "resourceclaimtemplates", "deviceclasses"],
                    }
                ],
                "failurePolicy": "Ignore",  # prepare checks again
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            }
        ],
    }


# Certificates


def _certificates() -> tuple[bytes, bytes]:
    """Return a CA certificate, and a server certificate signed by that CA together with its key, in PEM."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("example webhook authority")
    authority = _builder(issuer, issuer, authority_key).add_extension(x509.BasicConstraints(True, 0), critical=True)
    usage = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    server = _builder(_name(HOST), issuer, key).add_extension(usage, critical=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _signed(authority, authority_key), _signed(server, authority_key) + private


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _context(certificate: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:  # the ssl module reads only files
        file.write(certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context
