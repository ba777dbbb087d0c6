"""Which nodes a slice or a device can be reached from: by name, by selector, or from everywhere.

Left out: scheduling of pods by node affinity, which reads the same selectors for another purpose.
"""

from __future__ import annotations

from dray.api.types.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dray.api.types.resource import Device, ResourceSliceSpec


class SelectorInvalid(ValueError):
    """A node selector that cannot be evaluated; says which part and why."""


def reaches(place: ResourceSliceSpec | Device, node: Node) -> bool:
    """Whether what a slice or a device says about nodes includes this one."""
    if place.nodeName:
        return place.nodeName == node.metadata.name
    if place.allNodes:
        return True
    return place.nodeSelector is not None and selects(place.nodeSelector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    """Terms are alternatives; the requirements of a term must all hold; an empty term selects nothing."""
    return any(_term_holds(term, node) for term in selector.nodeSelectorTerms)


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": node.metadata.name}
    by_field = [_holds(requirement, fields) for requirement in term.matchFields]
    by_label = [_holds(requirement, node.metadata.labels) for requirement in term.matchExpressions]
    return all(by_field) and all(by_label)


def _holds(requirement: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
    raise SelectorInvalid(
        f'key {requirement.key}: operator "{requirement.operator}" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt'
    )


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    try:
        (limit,) = (int(text) for text in requirement.values)
    except ValueError:
        operator = requirement.operator
        raise SelectorInvalid(f"key {requirement.key}: {operator} expects one integer as its value") from None
    try:
        number = int(value) if value is not None else None
    except ValueError:
        return False
    return number is not None and (number > limit if requirement.operator == "Gt" else number < limit)
