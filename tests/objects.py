"""Objects for tests, as trees: the smallest that a server takes, and what the test says besides.

They are whole manifests, with version and kind, so clients, files and typed objects (`msgspec.convert`) are made of the same
trees. Each is new, so whoever takes it may change it. One home for all tests. What only one package or module needs has a
name of its own there, and is built on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.wire import Tree

DRIVER = "gpu.example.com"


def pod(
    name: str = "p",
    *,
    namespace: str = "",
    node: str = "",
    container: str = "c",
    needs: Tree | None = None,
    claims: Sequence[str] = (),
    templates: Sequence[str] = (),
    metadata: Tree | None = None,
    status: Tree | None = None,
    **spec: Any,
) -> Tree:
    """A pod with one container, unless `containers` says otherwise; without a node unless one is named.

    Its container needs resources, and uses claims (entries c0, c1, …) and templates (entries t0, t1, …).
    """
    entries: list[Tree] = [{"name": f"c{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    entries += [{"name": f"t{i}", "resourceClaimTemplateName": one} for i, one in enumerate(templates)]
    used = {"claims": [{"name": entry["name"]} for entry in entries]} if entries else {}
    resources = {**(needs or {}), **used}
    given = {
        "containers": [{"name": container, "image": "app", **({"resources": resources} if resources else {})}],
        **({"nodeName": node} if node else {}),
        **({"resourceClaims": entries} if entries else {}),
        **spec,
    }
    return _object("v1", "Pod", name, namespace, metadata, given, status)


def request(name: str = "r", device_class: str = "gpu", *, selectors: Sequence[str] = (), **exactly: Any) -> Tree:
    """A request of a claim for one device of a class, unless `count` or `allocationMode` says otherwise."""
    chosen = {"selectors": [{"cel": {"expression": one}} for one in selectors]} if selectors else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **chosen, **exactly}}


def claim_spec(*requests: Tree, device_class: str = "gpu", reserved_for: Tree | None = None, **devices: Any) -> Tree:
    """What a claim asks for: one device of a class, unless requests say otherwise."""
    asked = list(requests or (request(device_class=device_class),))
    spec = {"devices": {"requests": asked, **devices}}
    return {**spec, **({"reservedFor": reserved_for} if reserved_for else {})}


def claim(
    name: str = "c",
    *requests: Tree,
    namespace: str = "",
    metadata: Tree | None = None,
    status: Tree | None = None,
    **spec: Any,
) -> Tree:
    return _object(RESOURCE, "ResourceClaim", name, namespace, metadata, claim_spec(*requests, **spec), status)


def template(name: str = "t", *requests: Tree, namespace: str = "", metadata: Tree | None = None, **spec: Any) -> Tree:
    made = {"spec": claim_spec(*requests, **spec)}
    return _object(RESOURCE, "ResourceClaimTemplate", name, namespace, metadata, made)


def device_class(name: str = "gpu", *selectors: str, metadata: Tree | None = None, **spec: Any) -> Tree:
    chosen = {"selectors": [{"cel": {"expression": one}} for one in selectors], **spec}
    return _object(RESOURCE, "DeviceClass", name, "", metadata, chosen)


def resource_slice(
    name: str,
    *devices: str | Tree,
    node: str = "n",
    driver: str = DRIVER,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Tree:
    """A slice of a node's pool, or with an empty node a slice for all nodes, in a pool named as it is.

    A device is a name or a tree; `count` is how many slices the pool has.
    """
    place = {"nodeName": node} if node else {"allNodes": True}
    of = {"name": pool or node or name, "generation": generation, "resourceSliceCount": count}
    listed = [{"name": one} if isinstance(one, str) else one for one in devices]
    content = {"driver": driver, **place, "pool": of, **({"devices": listed} if listed else {}), **spec}
    return _object(RESOURCE, "ResourceSlice", name, "", None, content)


def node(
    name: str = "n",
    *,
    labels: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    metadata: Tree | None = None,
    status: Tree | None = None,
    **spec: Any,
) -> Tree:
    """A node; what is allocatable on it is its capacity, too."""
    labelled = {**({"labels": labels} if labels else {}), **(metadata or {})}
    amounts = {"capacity": allocatable, "allocatable": allocatable} if allocatable else {}
    return _object("v1", "Node", name, "", labelled, spec, {**amounts, **(status or {})})


def deployment(
    name: str, replicas: int | None = 1, *, namespace: str = "", metadata: Tree | None = None, **pod_spec: Any
) -> Tree:
    """A Deployment of pods labelled app=NAME; without `replicas` where they are None."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(**pod_spec)["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    amount = {} if replicas is None else {"replicas": replicas}
    return _object("apps/v1", "Deployment", name, namespace, metadata, {**amount, **spec})


RESOURCE = "resource.k8s.io/v1"


def _object(
    version: str,
    kind: str,
    name: str,
    namespace: str,
    metadata: Tree | None,
    spec: Tree,
    status: Tree | None = None,
) -> Tree:
    identity = {"name": name, **({"namespace": namespace} if namespace else {}), **(metadata or {})}
    known = {"status": status} if status else {}
    return {"apiVersion": version, "kind": kind, "metadata": identity, "spec": spec, **known}
