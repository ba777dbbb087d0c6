"""The node's own HTTPS endpoint, for the API server only: container logs, streams into containers, and resource
usage.

With a cluster CA the endpoint uses TLS and accepts only client certificates of that CA that belong to an API server.
Without a CA it listens only on a loopback address, for clusters without users on one machine. The endpoint's own
certificate is self-signed, like a kubelet's by default: requests hold no secrets, only responses do.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from dray.api.errors import Forbidden
from dray.api.localhost import check_local
from dray.api.types.core import Pod
from dray.client import Clock
from dray.client.tls import as_kubernetes
from dray.files import read_regular
from dray.node.kubeletapi import KubeletApi
from dray.node.logs import BadOption, LogOptions, read_log
from dray.node.private import write_private
from dray.node.runtime import ContainerAttempt, Runtime
from dray.node.streaming import NodeStreams

API_SERVER_NAMES = {"kube-apiserver-kubelet-client"}
API_SERVER_GROUPS = {"system:masters", "kubeadm:cluster-admins"}
_LIFETIME = datetime.timedelta(days=3650)


class LogServer:
    """Serves `/containerLogs/NAMESPACE/POD/CONTAINER`, streams into containers and the kubelet's API."""

    def __init__(
        self,
        runtime: Runtime,
        find: Callable[[str, str], Pod | None],
        clock: Clock,
        kubelet: KubeletApi | None = None,
    ) -> None:
        self._runtime = runtime
        self._find = find
        self._clock = clock
        self._kubelet = kubelet
        self._runner: web.AppRunner | None = None
        self._guarded = False

    async def start(self, address: str, port: int, root: Path, authority: str) -> int:
        """Start to listen. Returns the port, or 0 if listening would not be safe (no CA and not a loopback address).

        With port 0 the system chooses one. `root` is the agent's directory, `authority` the CA that signs API
        servers' certificates, or "" to serve without TLS.
        """
        self._guarded = bool(authority)
        if not authority and not ipaddress.ip_address(address).is_loopback:
            return 0
        tls = _tls(root, address, authority) if authority else None
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_routes(NodeStreams(self._runtime, self._find).routes())
        app.router.add_routes(self._kubelet.routes() if self._kubelet is not None else ())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port, ssl_context=tls)
        await site.start()
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names = _Names(**request.match_info)
        try:
            options = LogOptions.of(request.query, self._clock.time())
            pod = self._find(names.namespace, names.pod)
            if pod is None:
                return web.Response(status=404, text=f'pod "{names.pod}" not found')
            attempt = self._attempt(pod, names, options)
        except BadOption as error:
            return web.Response(status=400, text=str(error))
        file = self._runtime.log(attempt.key)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        if file is not None:
            with contextlib.suppress(ConnectionError):
                async for piece in read_log(file, options, lambda: self._runs(attempt)):
                    await answer.write(piece)
        return answer

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Pass an API server's request to the handler, answer others with 403; without TLS, reject only web pages."""
        try:
            if not self._guarded:
                check_local((name.lower(), value) for name, value in request.headers.items())
            elif not _is_api_server(request):
                raise Forbidden("only API servers may use this endpoint")
        except Forbidden as error:
            return web.Response(status=403, text=str(error))
        return await handler(request)

    def _attempt(self, pod: Pod, names: _Names, options: LogOptions) -> ContainerAttempt:
        who = f'container "{names.container}" in pod "{names.pod}"'
        attempts = [a for a in self._runtime.attempts(pod.metadata.uid) if a.key.container == names.container]
        if options.previous:
            if len(attempts) < 2:
                raise BadOption(f"previous terminated {who} not found")
            return attempts[-2]
        if not attempts:
            raise BadOption(f"{who} is waiting to start: ContainerCreating")
        return attempts[-1]

    def _runs(self, attempt: ContainerAttempt) -> bool:
        return any(a.key == attempt.key and a.running for a in self._runtime.attempts(attempt.key.pod))


class _Names(NamedTuple):
    namespace: str
    pod: str
    container: str


def _is_api_server(request: web.Request) -> bool:
    transport = request.transport
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    return any(
        (kind == "commonName" and value in API_SERVER_NAMES)
        or (kind == "organizationName" and value in API_SERVER_GROUPS)
        for kind, value in subject
    )


def _tls(root: Path, address: str, authority: str) -> ssl.SSLContext:
    certificate, key = root / "pki" / "node.crt", root / "pki" / "node.key"
    if not (certificate.exists() and key.exists()):
        certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_self_signed(certificate, key, address)
    context = as_kubernetes(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority))
    context.verify_mode = ssl.CERT_REQUIRED
    for file in (certificate, key):
        read_regular(file)  # raises an error for anything but a regular file, which could block the loader for ever
    context.load_cert_chain(certificate, key)
    return context


def _write_self_signed(certificate_file: Path, key_file: Path, address: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dray-node")])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
    )
    plain, pem = serialization.NoEncryption(), serialization.Encoding.PEM
    write_private(key_file, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    write_private(certificate_file, builder.sign(key, hashes.SHA256()).public_bytes(pem))
