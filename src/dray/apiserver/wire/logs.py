"""`pods/log`: read logs from the node that runs the pod.

The server presents a client certificate of the cluster's authority, created on first use, so that a node can
recognize API servers. Node certificates are not verified, because a node controls its pods' logs anyway. Nodes read
the log files.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import tempfile
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote
from weakref import WeakSet

from dray.api.channels import V5
from dray.api.errors import ApiError, BadRequest, InternalError, NotFound, ServiceUnavailable, not_found
from dray.api.resources import BY_TYPE
from dray.api.simulated import BENCHMARKING, is_reserved, is_simulated
from dray.api.types.core import Container, Node, Pod
from dray.apiserver.limits import Limits
from dray.apiserver.read.reader import Reader, one
from dray.apiserver.request import Request

if TYPE_CHECKING:
    import aiohttp

    from dray.apiserver.security.certificates import Keys

CLIENT_NAME = "kube-apiserver-kubelet-client"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LIFETIME = timedelta(days=365)
_PASSED_ON = ("follow", "previous", "timestamps", "tailLines", "limitBytes", "sinceSeconds", "sinceTime")
_CONNECT_SECONDS = 10.0
_WORDS = 4096  # bytes of an error text
# a host name or address, with no character that ends the host in a URL
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_MESSAGE_MOST = 4 << 20  # bytes of a node's message


class NodeLogs:
    """Connections to nodes: logs, proxied GETs and WebSockets. A `LogSource` for pods."""

    def __init__(self, reader: Reader, keys: Keys | None, limits: Limits | None = None) -> None:
        self._reader = reader
        self._keys = keys
        self._limits = limits or Limits()
        self._session: aiohttp.ClientSession | None = None
        self._answers: set[aiohttp.ClientResponse] = set()
        self._sockets: WeakSet[aiohttp.ClientWebSocketResponse] = WeakSet()
        self._closing: list[asyncio.Future[bool]] = []

    @property
    def reading(self) -> int:
        """Number of node responses being read now."""
        return len(self._answers)

    async def __call__(self, request: Request, query: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the log of a container in pieces; the first is empty and shows that the node answers.

        Ends after a maximum size. Raises an ApiError if the node refuses, ServiceUnavailable if the node cannot be
        reached or takes too long.
        """
        import aiohttp

        url = self._url(request, query)
        parameters = {name: query[name] for name in _PASSED_ON if name in query}
        follows = query.get("follow", "false") not in ("false", "0")
        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=limits.log_seconds,
            sock_connect=_CONNECT_SECONDS,
            sock_read=None if follows else limits.log_silent_seconds,
        )
        try:
            # The address alone decides which node is contacted; following a redirect would let a node choose another
            # target.
            get = self._open().get(url, params=parameters, allow_redirects=False, timeout=timeout)
            async with asyncio.timeout(limits.log_silent_seconds):
                answer = await get
            async with answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await _words(answer.content, limits))
                self._answers.add(answer)
                try:
                    yield b""  # starts the answer, even if the container is silent
                    left = limits.log_bytes
                    async for piece in answer.content.iter_any():
                        yield piece[:left]
                        left -= len(piece)
                        if left <= 0:
                            break
                finally:
                    self._answers.discard(answer)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ServiceUnavailable(f"the node's logs cannot be read: {error or type(error).__name__}") from error

    async def read(self, name: str, path: str, query: str) -> AsyncGenerator[bytes, None]:
        """Yield a node's answer to a GET: first code and content type in one piece, then the content.

        Ends if the node is silent for too long, or after a maximum time or size, as with logs. Raises
        ServiceUnavailable.
        """
        import aiohttp
        from yarl import URL

        url = URL(f"{self._base(name)}/{path}" + (f"?{query}" if query else ""), encoded=True)
        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=limits.log_seconds, sock_connect=_CONNECT_SECONDS, sock_read=limits.log_silent_seconds
        )
        try:
            async with self._open().get(url, allow_redirects=False, timeout=timeout) as answer:
                self._answers.add(answer)
                try:
                    kind = answer.headers.get("Content-Type", "text/plain")
                    yield f"{answer.status} {kind}".encode("latin-1")
                    left = limits.log_bytes
                    async for piece in answer.content.iter_any():
                        yield piece[:left]
                        left -= len(piece)
                        if left <= 0:
                            break
                finally:
                    self._answers.discard(answer)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ServiceUnavailable(f"node {name} does not answer: {error or type(error).__name__}") from error

    async def dial(
        self, request: Request, what: str, parameters: Sequence[tuple[str, str]]
    ) -> aiohttp.ClientWebSocketResponse:
        """Return a WebSocket to the node of a pod for `what` (exec/CONTAINER, …).

        Raises ServiceUnavailable if the node does not answer or has no usable address, BadRequest if the pod is not
        scheduled.
        """
        import aiohttp

        kind, _, container = what.partition("/")
        names = [request.namespace, request.name, *([container] if container else [])]
        url = f"{self._node_of(self._pod(request))}/{kind}/{'/'.join(quote(name, safe='') for name in names)}"
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                socket = await self._open().ws_connect(
                    url, params=parameters, protocols=(V5,), max_msg_size=_MESSAGE_MOST
                )
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ServiceUnavailable(f"the node does not answer: {error or type(error).__name__}") from error
        self._sockets.add(socket)
        return socket

    def container(self, request: Request, name: str) -> str:
        """Return the container for a name, or the default one; "" for port forwarding, which needs none.

        Raises an ApiError if the pod has no node.
        """
        pod = self._pod(request)
        self._node_of(pod)
        if request.subresource == "portforward":
            return ""
        return chosen_container(pod, name)

    def end(self) -> None:
        """Break off all logs that are being read, and close all streams."""
        for answer in [*self._answers]:
            answer.close()
        self._closing += [asyncio.ensure_future(socket.close()) for socket in self._sockets]

    async def aclose(self) -> None:
        """Wait until streams have closed, and close the HTTP session."""
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _url(self, request: Request, query: dict[str, str]) -> str:
        """Return the URL of a container's log. `query` may name the container.

        Raises an ApiError if the container is unknown or ambiguous, or if the pod has no node.
        """
        pod = self._pod(request)
        container = chosen_container(pod, query.get("container", ""))
        names = "/".join(quote(name, safe="") for name in (request.namespace, request.name, container))
        return f"{self._node_of(pod)}/containerLogs/{names}"

    def _pod(self, request: Request) -> Pod:
        """Return the pod of a request. Raises NotFound if it does not exist."""
        pod = one(self._reader, Pod, request.namespace, request.name)
        if pod is None:
            raise not_found(request.resource, request.name)
        return pod

    def _node_of(self, pod: Pod) -> str:
        """Return the base URL of a pod's node. Raises BadRequest if the pod is not scheduled."""
        if not pod.spec.nodeName:
            raise BadRequest(f"pod {pod.metadata.name} does not have a host assigned")
        return self._base(pod.spec.nodeName)

    def _base(self, name: str) -> str:
        """Return the base URL of a node. Raises NotFound, or ServiceUnavailable without a usable address."""
        node = one(self._reader, Node, "", name)
        if node is None:
            raise not_found(BY_TYPE[Node], name)
        scheme = "https" if self._keys is not None else "http"
        return f"{scheme}://{_endpoint(node)}"

    def _open(self) -> aiohttp.ClientSession:
        """Return the HTTP session for nodes, created on first use."""
        import aiohttp

        if self._session is None:
            tls = _tls(self._keys) if self._keys is not None else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0, force_close=True),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_stay,),
            )
        return self._session


async def _stay(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request to a node and return its response.

    Raises aiohttp.ClientError if the node redirects a WebSocket request. A redirect would let the node choose another
    target, and WebSocket requests have no option to disable redirects.
    """
    import aiohttp

    answer = await ask(request)
    if 300 <= answer.status < 400 and "Upgrade" in request.headers:
        answer.close()
        raise aiohttp.ClientError(f"the node answered {answer.status} and named another place")
    return answer


def chosen_container(pod: Pod, name: str) -> str:
    """Return the name of the container that a client means. Raises BadRequest if it is unknown or ambiguous."""
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
    """Return HOST:PORT of a node agent. Raises ServiceUnavailable for a node without one."""
    if is_simulated(node.metadata.labels, node.metadata.annotations):
        raise ServiceUnavailable(f"node {node.metadata.name} is simulated: no node agent answers for it")
    port = node.status.daemonEndpoints.kubeletEndpoint.Port
    addresses = {address.type: address.address for address in node.status.addresses}
    host = addresses.get("InternalIP") or addresses.get("Hostname")
    if not port or not host:
        raise ServiceUnavailable(
            f"node {node.metadata.name} has no address that leads to containers: it is simulated, or not up yet"
        )
    if not _HOST.fullmatch(host):
        raise ServiceUnavailable(f"node {node.metadata.name} has an address that is none: {host[:64]!r}")
    if is_reserved(host):
        text = f"addresses of {BENCHMARKING} are made up and not connected to"
        raise ServiceUnavailable(f"node {node.metadata.name} has the address {host}: {text}")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _words(content: aiohttp.StreamReader, limits: Limits) -> str:
    """Return the start of a node's error text. Raises TimeoutError if reading it takes too long.

    Undecodable bytes are replaced.
    """
    data = b""
    async with asyncio.timeout(limits.log_silent_seconds):
        while len(data) < _WORDS and (chunk := await content.read(_WORDS - len(data))):
            data += chunk
    return data.decode(errors="replace").strip()


def _refusal(code: int, text: str) -> ApiError:
    """Return the ApiError for an error code and text from a node."""
    kinds: dict[int, type[ApiError]] = {400: BadRequest, 404: NotFound}
    return kinds.get(code, InternalError)(text or f"the node answered {code}")


def _tls(keys: Keys) -> ssl.SSLContext:
    """Return the TLS context with the server's client certificate. It does not verify the certificates of nodes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the system's authorities, which take long to load
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = keys.client(CLIENT_NAME, (), _LIFETIME)
    with tempfile.NamedTemporaryFile(prefix="dray-") as file:  # the ssl module reads certificates only from files
        file.write(pair.certificate + b"\n" + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
