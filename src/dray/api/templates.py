"""Columns of kinds that make pods from a template: the names and images of its containers, and which pods count."""

from __future__ import annotations

from operator import attrgetter

from dray.api.cells import images, names, selector
from dray.api.columns import TableColumn, wide
from dray.api.selectors import spelled_out


def template_columns(path: str) -> tuple[TableColumn, ...]:
    """Returns the columns of a kind that has a pod template and a selector at `path`."""
    template, chosen = attrgetter(f"{path}.template"), attrgetter(f"{path}.selector")
    return (
        wide("Containers", lambda obj: names(template(obj).spec.containers)),
        wide("Images", lambda obj: images(template(obj).spec.containers)),
        wide("Selector", lambda obj: selector(spelled_out(chosen(obj)))),
    )


TEMPLATE_COLUMNS = template_columns("spec")
