"""A server without a server: pushes recorded requests through the pure steps of a write.

Knows POST, PUT and merge, JSON and strategic merge patches of the recorded cases; what admission adds to pods is added
here as constants. Left out: everything that needs a store or HTTP.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from dray.api import conversion, decode, defaults, strategy, validation
from dray.api.errors import ApiError, Invalid
from dray.api.gates import FeatureGates
from dray.api.resources import RESOURCES, Resource
from dray.api.wire import Wire

GATES = FeatureGates.parse("DRAResourcePoolStatus=true,GenericWorkload=true,DRAWorkloadResourceClaims=true")
NOW = "2026-01-01T00:00:00Z"
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"}
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<sub>[^/?]+))?(?:\?(?P<query>.*))?"
)
_BY_PLURAL = {(resource.group, resource.plural): resource for resource in RESOURCES}
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


# The recordings say NS for their namespace and SFX for what makes cluster-wide names unique.
_FILL = {"NS": "ns-tag01", "SFX": "-tag02"}
_EMPTY = {value: name for name, value in _FILL.items()}


def _filled(step: dict[str, Any]) -> str:
    return _replaced(json.dumps(step), _FILL)


def _replaced(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


class Replay:
    """One namespace's worth of objects in memory."""

    def __init__(self, check_selector: validation.SelectorCheck) -> None:
        self._objects: dict[str, Wire] = {}
        self._check_selector = check_selector

    def answer(self, step: dict[str, Any]) -> dict[str, Any]:
        """The answer to a step: code, body, and the warning if there is one."""
        answer: dict[str, Any] = json.loads(_replaced(json.dumps(self._answer(json.loads(_filled(step)))), _EMPTY))
        return answer

    def _answer(self, step: dict[str, Any]) -> dict[str, Any]:
        match = _PATH.fullmatch(step["path"])
        assert match is not None, step["path"]
        resource = _BY_PLURAL[match["group"] or "", match["plural"]]
        try:
            return self._handle(step, match, resource)
        except ApiError as error:
            return {"code": error.code, "body": cleaned(error.status())}

    def _handle(self, step: dict[str, Any], match: re.Match[str], resource: Resource) -> dict[str, Any]:
        version, namespace, sub = match["version"], match["namespace"] or "", match["sub"] or ""
        if step["method"] == "GET":
            object_ = self._objects[resource.key(namespace, match["name"])]
            return self._show(200, resource, version, object_, [])
        if step["method"] == "POST":
            return self._create(step, resource, version, namespace, match["query"] or "")
        key = resource.key(namespace, match["name"])
        old = self._objects[key]
        body = step["body"] if step["method"] == "PUT" else _patched(step, self._tree(resource, version, old))
        tree = msgspec.json.decode(msgspec.json.encode(body))
        complaints = decode.check(resource, version, tree)
        tree = conversion.to_stored(resource, version, tree, old)
        defaults.apply_defaults(resource, tree, GATES, NOW)
        _add_admission(resource, tree)
        metadata = tree.setdefault("metadata", {})
        metadata.setdefault("uid", old.metadata.uid)  # type: ignore[attr-defined]
        metadata.setdefault("namespace", namespace)
        strategy.prepare_update(resource, tree, old, sub, GATES)
        object_ = decode.to_object(resource.home, tree)
        context = validation.Context(GATES, self._check_selector, version)
        if errors := validation.validate_update(resource, object_, old, sub, context):
            raise Invalid(resource, match["name"], errors)
        self._objects[key] = object_
        return self._show(200, resource, version, object_, complaints)

    def _create(
        self, step: dict[str, Any], resource: Resource, version: str, namespace: str, query: str
    ) -> dict[str, Any]:
        tree = msgspec.json.decode(msgspec.json.encode(step["body"]))
        complaints = decode.check(resource, version, tree)
        if complaints and "Strict" in query:
            raise decode.strict_error(resource, version, complaints)
        metadata = tree.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        metadata.setdefault("uid", "u")
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName']}*".replace("*", "x")
        tree = conversion.to_stored(resource, version, tree)
        defaults.apply_defaults(resource, tree, GATES, NOW)
        _add_admission(resource, tree)
        strategy.prepare_create(resource, tree, GATES)
        object_ = decode.to_object(resource.home, tree)
        name = tree["metadata"].get("name", "")
        context = validation.Context(GATES, self._check_selector, version)
        if errors := validation.validate_create(resource, object_, context):
            raise Invalid(resource, name, errors)
        self._objects[resource.key(namespace, name)] = object_
        return self._show(201, resource, version, object_, complaints)

    def _tree(self, resource: Resource, version: str, object_: Wire) -> dict[str, Any]:
        return conversion.from_stored(resource, version, msgspec.json.decode(msgspec.json.encode(object_)))

    def _show(
        self, code: int, resource: Resource, version: str, object_: Wire, complaints: list[str]
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {"code": code, "body": cleaned(self._tree(resource, version, object_))}
        warnings = [*filter(None, [strategy.deprecation(resource, version)]), *complaints]
        if warnings:
            answer["warning"] = ", ".join(f"299 - {json.dumps(text)}" for text in warnings)
        return answer


def cleaned(value: Any) -> Any:
    """A body as the recordings keep it: without what differs from run to run."""
    if isinstance(value, dict):
        return {name: cleaned(item) for name, item in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"\b(gen-)x\b", r"\1*", value)
        return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", value)
    return value


def _add_admission(resource: Resource, tree: dict[str, Any]) -> None:
    if resource.kind == "Pod":
        spec = tree["spec"]
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("tolerations", _TOLERATIONS)


def _patched(step: dict[str, Any], tree: dict[str, Any]) -> Any:
    if "json-patch" in step["type"]:
        for operation in step["body"]:
            _apply(tree, operation)
        return tree
    return _merged(tree, step["body"])


def _apply(tree: Any, operation: dict[str, Any]) -> None:
    *parents, last = operation["path"].strip("/").split("/")
    for part in parents:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    tree[last] = operation["value"]


def _merged(tree: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(tree) if isinstance(tree, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
