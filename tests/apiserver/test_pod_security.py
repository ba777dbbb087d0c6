"""Pod Security labels of namespaces: nothing enforces them, and whoever sets one is told so."""

from __future__ import annotations

from typing import Any

from tests.apiserver.asking import HttpAsker

NAMESPACES = "/api/v1/namespaces"
ENFORCE, WARN = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"
MERGE = "application/merge-patch+json"


async def warnings(http: HttpAsker, method: str, path: str, body: Any, **headers: str) -> list[str]:
    async with http.send(method, path, body, **headers) as response:
        assert response.status in (200, 201), await response.text()
        return response.headers.getall("Warning", [])


def told(label: str) -> str:
    return f'299 - "metadata.labels: \\"{label}\\" is not enforced: dray has no Pod Security admission"'


async def test_a_pod_security_label_that_is_set_is_warned_about(http: HttpAsker) -> None:
    new = {"metadata": {"name": "n", "labels": {ENFORCE: "restricted", "team": "a"}}}
    assert await warnings(http, "POST", NAMESPACES, new) == [told(ENFORCE)]
    for labels, expected in (
        ({"team": "b"}, []),
        ({WARN: "baseline"}, [told(WARN)]),
        ({ENFORCE: "baseline"}, [told(ENFORCE)]),
        ({ENFORCE: None}, []),
    ):
        patch = {"metadata": {"labels": labels}}
        assert await warnings(http, "PATCH", f"{NAMESPACES}/n", patch, content_type=MERGE) == expected
    assert await warnings(http, "POST", NAMESPACES, {"metadata": {"name": "plain"}}) == []
