"""Pods and claims for tests, as trees: the smallest that a server takes, and what the test says besides.

Each is new, so whoever takes it may change it. One home for all tests. What only one test needs is built there, on these.
"""

from __future__ import annotations

from typing import Any

from dray.api.wire import Tree


def pod(name: str = "p", *, node: str = "", metadata: Tree | None = None, **spec: Any) -> Tree:
    """A pod with one container, unless `containers` says otherwise; without a node unless one is named."""
    given = {"containers": [{"name": "c", "image": "app"}], **({"nodeName": node} if node else {}), **spec}
    return {"metadata": {"name": name, **(metadata or {})}, "spec": given}


def claim(name: str = "c", *, device_class: str = "gpu", metadata: Tree | None = None, **spec: Any) -> Tree:
    """A claim for one device of a class."""
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"devices": devices, **spec}}
