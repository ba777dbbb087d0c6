"""Selectors: which objects, nodes and taints are meant.

Labels and fields select objects (text in a query, or a LabelSelector in an object), node selectors select nodes, and
tolerations select taints. Read by the API server, the allocator, the scheduler and controllers. All are pure functions
of typed objects; whether a selector is well formed where it is stored is the business of `validation`.
"""

from dray.api.selectors.fields import FieldSelector, parse_fields
from dray.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    AnySelector,
    LabelRequirements,
    Requirement,
    SelectorError,
    label_selector,
    spelled_out,
)
from dray.api.selectors.labels import parse as parse_labels
from dray.api.selectors.nodes import node_selector_matches, term_matches
from dray.api.selectors.taints import tolerates, tolerates_device, untolerated

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "AnySelector",
    "FieldSelector",
    "LabelRequirements",
    "Requirement",
    "SelectorError",
    "label_selector",
    "node_selector_matches",
    "parse_fields",
    "parse_labels",
    "spelled_out",
    "term_matches",
    "tolerates",
    "tolerates_device",
    "untolerated",
]
