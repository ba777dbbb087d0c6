"""`pods/log`: fetched from the node that runs the pod.

The server shows nodes a client certificate of the cluster's own authority, made at the first use, so that a node can
tell an API server from anybody else. Nodes' own certificates are not checked: a node tells of its pods what it likes
anyway. Left out: reading logs, which nodes do.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from dray.api.errors import ApiError, BadRequest, InternalError, NotFound, ServiceUnavailable, not_found
from dray.api.resources import BY_TYPE
from dray.api.types.core import Container, Node, Pod
from dray.apiserver.reader import Reader, one
from dray.apiserver.request import Request

if TYPE_CHECKING:
    import aiohttp

    from dray.apiserver.certificates import Keys

CLIENT_NAME = "kube-apiserver-kubelet-client"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LIFETIME = timedelta(days=365)
_PASSED_ON = ("follow", "previous", "timestamps", "tailLines", "limitBytes", "sinceSeconds", "sinceTime")
_CONNECT_SECONDS = 10.0


class NodeLogs:
    """A `LogSource` for pods on nodes that serve their logs."""

    def __init__(self, reader: Reader, keys: Keys | None) -> None:
        self._reader = reader
        self._keys = keys
        self._session: aiohttp.ClientSession | None = None
        self._answers: set[aiohttp.ClientResponse] = set()

    @property
    def reading(self) -> int:
        """How many logs are being read now."""
        return len(self._answers)

    async def __call__(self, request: Request, query: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """What a container has written, in pieces as they come."""
        import aiohttp

        url = self._url(request, query)
        parameters = {name: query[name] for name in _PASSED_ON if name in query}
        try:
            async with self._open().get(url, params=parameters) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, (await answer.text()).strip())
                self._answers.add(answer)
                try:
                    yield b""  # the answer begins, though the container may be silent
                    async for piece in answer.content.iter_any():
                        yield piece
                finally:
                    self._answers.discard(answer)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ServiceUnavailable(f"the node's logs cannot be read: {error or type(error).__name__}") from error

    def end(self) -> None:
        """Break off what is being read."""
        for answer in [*self._answers]:
            answer.close()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _url(self, request: Request, query: dict[str, str]) -> str:
        pod = one(self._reader, Pod, request.namespace, request.name)
        if pod is None:
            raise not_found(request.resource, request.name)
        container = chosen_container(pod, query.get("container", ""))
        if not pod.spec.nodeName:
            raise BadRequest(f"pod {pod.metadata.name} does not have a host assigned")
        node = one(self._reader, Node, "", pod.spec.nodeName)
        if node is None:
            raise not_found(BY_TYPE[Node], pod.spec.nodeName)
        scheme = "https" if self._keys is not None else "http"
        names = "/".join(quote(name, safe="") for name in (request.namespace, request.name, container))
        return f"{scheme}://{_endpoint(node)}/containerLogs/{names}"

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            tls = _tls(self._keys) if self._keys is not None else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                auto_decompress=False,
            )
        return self._session


def chosen_container(pod: Pod, name: str) -> str:
    """The container whose log is meant."""
    spec = pod.spec
    everyone: list[Container] = [*spec.initContainers, *spec.containers]
    known = [container.name for container in everyone] + [container.name for container in spec.ephemeralContainers]
    name = name or pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if not name and len(spec.containers) == 1:
        return spec.containers[0].name
    if not name:
        choices = " ".join(container.name for container in spec.containers)
        raise BadRequest(f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{choices}]")
    if name not in known:
        raise BadRequest(f"container {name} is not valid for pod {pod.metadata.name}")
    return name


def _endpoint(node: Node) -> str:
    port = node.status.daemonEndpoints.kubeletEndpoint.Port
    addresses = {address.type: address.address for address in node.status.addresses}
    host = addresses.get("InternalIP") or addresses.get("Hostname")
    if not port or not host:
        raise ServiceUnavailable(f"node {node.metadata.name} does not serve logs")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refusal(code: int, text: str) -> ApiError:
    kinds: dict[int, type[ApiError]] = {400: BadRequest, 404: NotFound}
    return kinds.get(code, InternalError)(text or f"the node answered {code}")


def _tls(keys: Keys) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = keys.client(CLIENT_NAME, (), _LIFETIME)
    with tempfile.NamedTemporaryFile(prefix="dray-") as file:  # the ssl module reads certificates from files only
        file.write(pair.certificate + b"\n" + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
