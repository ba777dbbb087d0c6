"""Whatever arrives at the edge gets an answer below 500: generated JSON, YAML, protobuf, patches and selectors.

The whole server is asked, without a socket: as many examples as possible in little time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import protobuf
from dray.apiserver.assembly import Running, ServerSettings
from tests.apiserver.asking import claim, pod

NAMESPACE = "/api/v1/namespaces/default"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")


class Edge:
    """A server, asked through its ASGI application."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._running = self._runner.run(Running.open(ServerSettings(authenticate=False)))

    def ask(self, method: str, path: str, body: bytes = b"", content_type: str = "", accept: str = "") -> int:
        return self._runner.run(self._ask(method, path, body, content_type, accept))

    async def _ask(self, method: str, path: str, body: bytes, content_type: str, accept: str) -> int:
        bare, _, query = path.partition("?")
        headers = [(b"host", b"localhost"), (b"content-type", content_type.encode()), (b"accept", accept.encode())]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": bare,
            "query_string": query.encode(),
            "headers": headers,
        }
        codes: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])

        await self._running.http(scope, receive, send)
        return codes[0]

    def close(self) -> None:
        self._runner.run(self._running.close())
        self._runner.close()


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    edge = Edge()
    for path, tree in ((f"{NAMESPACE}/pods", pod("p")), (CLAIMS, claim("c"))):
        assert edge.ask("POST", path, json.dumps(tree).encode()) == 201
    yield edge
    edge.close()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["1Gi", "r0", "p"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a tree."""
    yield path
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from places(child, (*path, key))


@st.composite
def almost(draw: st.DrawFn, tree: dict[str, Any]) -> Any:
    """An object in which one thing, or a few, are something else."""
    made = json.loads(json.dumps(tree))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([place for place in places(made) if place]))
        parent = made
        for step in way:
            parent = parent[step]
        parent[last] = draw(values)
    return made


WHOLE = {
    **pod("x", labels={"a": "b"}, annotations={"c": "d"}, ownerReferences=[{"kind": "Pod", "name": "p", "uid": "1"}]),
    "apiVersion": "v1",
    "kind": "Pod",
}
WHOLE_CLAIM = {**claim("x"), "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


@settings(max_examples=150)
@given(tree=almost(WHOLE) | values)
def test_pods_as_json(edge: Edge, tree: Any) -> None:
    text = json.dumps(tree).encode()
    assert edge.ask("POST", f"{NAMESPACE}/pods?dryRun=All", text) < 500
    assert edge.ask("PUT", f"{NAMESPACE}/pods/p?dryRun=All", text) < 500


@settings(max_examples=150)
@given(tree=almost(WHOLE_CLAIM) | values)
def test_claims_as_json_and_apply(edge: Edge, tree: Any) -> None:
    text = json.dumps(tree).encode()
    assert edge.ask("POST", f"{CLAIMS}?dryRun=All", text) < 500
    path = f"{CLAIMS}/x?dryRun=All&fieldManager=f"
    assert edge.ask("PATCH", path, text, "application/apply-patch+yaml") < 500


@settings(max_examples=200)
@given(
    text=st.text(alphabet="abc01:-[]{},\"'!&*?|>%@~.x \n\t#=", max_size=60)
    | st.builds(
        "metadata: {{name: {}}}\ndata: {{a: {} {}}}\n".format,
        st.sampled_from(["x", "~", "1", "[]"]),
        st.sampled_from(
            ["", "!!int", "!!float", "!!bool", "!!null", "!!str", "!!binary", "!!set", "!!timestamp", "!x"]
        ),
        st.text(alphabet="0123456789abcdefxob.+-:_eE~", max_size=30),
    )
)
def test_yaml(edge: Edge, text: str) -> None:
    assert edge.ask("POST", f"{NAMESPACE}/configmaps?dryRun=All", text.encode(), "application/yaml") < 500


@settings(max_examples=200)
@given(data=st.data())
def test_protobuf(edge: Edge, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from([WHOLE, WHOLE_CLAIM]))
    body = bytearray(protobuf.encode(tree))
    for _ in range(data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    path = CLAIMS if tree is WHOLE_CLAIM else f"{NAMESPACE}/pods"
    for sent in (bytes(body), bytes(body[:cut])):
        assert edge.ask("POST", f"{path}?dryRun=All", sent, "application/vnd.kubernetes.protobuf") < 500


pointers = st.lists(
    st.sampled_from(["", "spec", "metadata", "containers", "0", "-", "1", "name", "labels", "~0", "~1", "a"]),
    max_size=4,
).map(lambda tokens: "".join(f"/{token}" for token in tokens))
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
    optional={"value": values, "from": pointers},
)


@settings(max_examples=200)
@given(kind=st.sampled_from(PATCHES), patch=st.lists(operations, max_size=5) | almost(WHOLE) | values)
def test_patches(edge: Edge, kind: str, patch: Any) -> None:
    path = f"{NAMESPACE}/pods/p?dryRun=All&fieldManager=f"
    assert edge.ask("PATCH", path, json.dumps(patch).encode(), f"application/{kind}") < 500


@settings(max_examples=200)
@given(
    labels=st.text(alphabet="ab01=!()<>,/. innot\\", max_size=30),
    fields=st.text(alphabet="metadata.nspc=!,\\", max_size=30),
    limit=st.sampled_from(["", "0", "1", "-1", "x", "9" * 30]),
    version=st.sampled_from(["", "0", "1", "x", "-1", "9" * 18]),
    accept=st.text(alphabet="aplicton/json;,=*qvgymT.0", max_size=40),
)
def test_selectors_and_options(edge: Edge, labels: str, fields: str, limit: str, version: str, accept: str) -> None:
    query = f"labelSelector={quote(labels)}&fieldSelector={quote(fields)}&limit={limit}"
    assert edge.ask("GET", f"{NAMESPACE}/pods?{query}", accept=accept) < 500
    if version not in ("9" * 18,):  # which is waited for
        assert edge.ask("GET", f"{NAMESPACE}/pods?{query}&resourceVersion={version}") < 500
    assert edge.ask("GET", f"{NAMESPACE}/pods?continue={quote(labels)}&limit=1") < 500
