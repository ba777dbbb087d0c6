"""A conversion webhook for tests, and a definition whose versions it converts: v1 has a size, v2 a width and a height."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Hook
from tests.apiserver.asking import HttpAsker, created
from tests.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/example.com/v1/namespaces/default/screens"
V2 = "/apis/example.com/v2/namespaces/default/screens"


def convert(tree: Tree, wanted: str) -> Tree:
    spec = dict(tree.get("spec") or {})
    if wanted.endswith("/v2") and "size" in spec:
        spec["width"], spec["height"] = map(int, spec.pop("size").split("x"))
    elif wanted.endswith("/v1") and "width" in spec:
        spec["size"] = f"{spec.pop('width')}x{spec.pop('height')}"
    return {**tree, "apiVersion": wanted, "spec": spec}


class Converter(Hook):
    """Converts as it is told to."""

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.convert: Callable[[Tree, str], Any] = convert
        self.reply: Callable[[Tree], Tree | str] = self.converted
        self.gate = asyncio.Event()  # no answer before it is set
        self.gate.set()

    async def handle(self, received: web.Request) -> web.Response:
        review = await received.json()
        assert review["kind"] == "ConversionReview"
        self.requests.append(review["request"])
        await self.gate.wait()
        answer = self.reply(review)
        return web.Response(text=answer if isinstance(answer, str) else json.dumps(answer))

    def converted(self, review: Tree, **response: Any) -> Tree:
        request = review["request"]
        objects = [self.convert(tree, request["desiredAPIVersion"]) for tree in request["objects"]]
        answer = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}, **response}
        return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": answer}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
REPLICAS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def version(name: str, storage: bool, properties: Tree, required: list[str]) -> Tree:
    spec = {"type": "object", "required": required, "properties": {"replicas": NUMBER, "note": TEXT, **properties}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    columns = [{"name": name.upper(), "type": "string", "jsonPath": ".spec." + required[0]}]
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": REPLICAS},
        "additionalPrinterColumns": columns,
    }


def definition(config: Tree, stored: str = "v1") -> Tree:
    versions = [
        version("v1", stored == "v1", {"size": {**TEXT, "pattern": "^[0-9]+x[0-9]+$"}}, ["size"]),
        version("v2", stored == "v2", {"width": {**NUMBER, "minimum": 1}, "height": NUMBER}, ["width", "height"]),
    ]
    return {
        "metadata": {"name": "screens.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "screens", "kind": "Screen"},
            "versions": versions,
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
            },
        },
    }


def screen(name: str = "s", version: str = "v2", **spec: Any) -> Tree:
    return {"apiVersion": f"example.com/{version}", "kind": "Screen", "metadata": {"name": name}, "spec": spec}


async def define(admin: HttpAsker, config: Tree, stored: str = "v1") -> None:
    await created(admin, DEFINITIONS, definition(config, stored))

    async def is_served() -> bool:
        return (await admin.text(V2))[0] == 200

    await eventually(is_served)
