"""Functions for kinds with a pod template: table columns, warnings and feature gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from dray.api.cells import container_names, images, selector
from dray.api.columns import TableColumn, wide
from dray.api.pod_warnings import pod_warnings
from dray.api.selectors import spelled_out


def template_columns(path: str) -> tuple[TableColumn, ...]:
    """Return the wide columns of a kind that has a pod template and a selector at `path`."""
    template, chosen = attrgetter(f"{path}.template"), attrgetter(f"{path}.selector")
    return (
        wide("Containers", lambda obj: container_names(template(obj).spec.containers)),
        wide("Images", lambda obj: images(template(obj).spec.containers)),
        wide("Selector", lambda obj: selector(spelled_out(chosen(obj)))),
    )


TEMPLATE_COLUMNS = template_columns("spec")


def template_warnings(path: str) -> Callable[[Any, Any], Iterator[str]]:
    """Return a function that yields the warnings about the pod template at `path` if it is new or changed."""
    template = attrgetter(path)

    def warnings(obj: Any, old: Any) -> Iterator[str]:
        if old is None or template(old) != template(obj):
            yield from pod_warnings(template(obj).spec, f"{path}.spec")

    return warnings


def pod_guards(spec: str, *statuses: str) -> dict[str, tuple[str, ...]]:
    """Return the fields of a pod spec behind each feature gate; `statuses` are paths of claim status fields."""
    claims = (f"{spec}.{field}[].resources.claims" for field in ("containers", "initContainers", "ephemeralContainers"))
    return {
        "WorkloadPodGroupResourceClaimTemplate": (f"{spec}.resourceClaims[].podGroupResourceClaim",),
        "GenericWorkload": (f"{spec}.schedulingGroup|workloadRef",),
        "DynamicResourceAllocation": (f"{spec}.resourceClaims", *claims, *statuses),
    }
