"""What kinds have in common that make pods from a template: columns of tables, and fields that feature gates guard."""

from __future__ import annotations

from operator import attrgetter

from dray.api.cells import container_names, images, selector
from dray.api.columns import TableColumn, wide
from dray.api.selectors import spelled_out


def template_columns(path: str) -> tuple[TableColumn, ...]:
    """Returns the columns of a kind that has a pod template and a selector at `path`."""
    template, chosen = attrgetter(f"{path}.template"), attrgetter(f"{path}.selector")
    return (
        wide("Containers", lambda obj: container_names(template(obj).spec.containers)),
        wide("Images", lambda obj: images(template(obj).spec.containers)),
        wide("Selector", lambda obj: selector(spelled_out(chosen(obj)))),
    )


TEMPLATE_COLUMNS = template_columns("spec")


def pod_guards(spec: str, *statuses: str) -> dict[str, tuple[str, ...]]:
    """Returns what feature gates guard in a pod spec at a path; `statuses` tell of claims."""
    claims = (f"{spec}.{field}[].resources.claims" for field in ("containers", "initContainers", "ephemeralContainers"))
    return {
        "WorkloadPodGroupResourceClaimTemplate": (f"{spec}.resourceClaims[].podGroupResourceClaim",),
        "GenericWorkload": (f"{spec}.schedulingGroup|workloadRef",),
        "DynamicResourceAllocation": (f"{spec}.resourceClaims", *claims, *statuses),
    }
